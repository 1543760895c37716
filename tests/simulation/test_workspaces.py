"""Workspaces that are suspended or have a quota, and runs that are later than their SLA allows, in virtual time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from jobs import START, declare, id_of, play
from ledger import audit
from world import Act, World

from cronpad_core.control.runs import retry
from cronpad_core.control.trigger import trigger
from cronpad_core.control.workspaces import set_workspace
from cronpad_core.domain.events import QuotaExceeded, RunSkipped, SlaBreached
from cronpad_core.domain.limits import ConcurrencyRule, SlaRule
from cronpad_core.domain.outcome import Failed
from cronpad_core.domain.run import RunStatus, SkipReason

TURN = int(datetime(2026, 2, 1, tzinfo=UTC).timestamp() * 1000)


def reasons(world: World, name: str) -> list[str | None]:
    """Why each run of a job was skipped; ``None`` where it was not."""
    return [run.skip_reason.value if run.skip_reason else None for run in world.runs(name)]


def test_a_suspended_workspace_skips_and_its_schedules_go_on() -> None:
    """Each slot has a row that says why; others run; resumed, the next slot runs on time and nothing is caught up with."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(25_000)
        desk = process.engine.desk
        await process.spawn(set_workspace(desk, "team", suspended=True, reason="unpaid"))
        await world.run(30_000)
        process.kill()
        process = world.start()
        await world.run(10_000)
        await process.spawn(set_workspace(process.engine.desk, "team", suspended=False))
        await world.run(20_000)

    world = play(scenario, declare("in", "every 10s", workspace="team"), declare("out", "every 10s"))
    assert reasons(world, "in") == [None] * 2 + ["workspace_suspended"] * 4 + [None] * 2
    assert reasons(world, "out") == [None] * 8
    assert {sent.late_ms for sent in world.sent("in")} == {0}
    assert len(world.told(RunSkipped)) == 4
    assert audit(world, bound_ms=1_000) == {"ran": 12, "skipped": 4}


def test_a_run_that_waits_for_its_retry_is_not_stopped_by_a_suspension() -> None:
    """What began before it is finished: a suspension skips what has not started."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(outcome=Failed(reason="no")) if delivery.attempt == 0 else Act()
        process = world.start()
        await world.until(lambda: bool(world.sent("a")))
        await process.spawn(set_workspace(process.engine.desk, "default", suspended=True))
        await world.run(15_000)

    world = play(scenario, declare("a", "every 10s", retry=1))
    assert [run.status for run in world.runs("a")] == [RunStatus.SUCCEEDED, RunStatus.SKIPPED]


@pytest.mark.parametrize("blocking", [True, False])
def test_a_quota_counts_the_month_of_utc(blocking: bool) -> None:
    """Used up, it blocks further runs or tells of each; the first slot of the next month runs, whatever the zone of the job."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.until(lambda: process.active)
        desk = process.engine.desk
        await process.spawn(set_workspace(desk, "team", quota=3, quota_blocking=blocking))
        await world.run(85_000)

    jobs = [declare(name, "*/20 * * * * *", workspace="team", timezone="Asia/Tokyo") for name in ("a", "b")]
    world = play(scenario, *jobs, wall_ms=TURN - 50_000)
    before = [run for run in world.runs() if run.key.scheduled_at_ms < TURN]
    after = [run for run in world.runs() if run.key.scheduled_at_ms >= TURN]
    assert (len(before), len(after)) == (4, 4), "two jobs, of which each has two slots on either side"
    assert [run.skip_reason for run in after].count(SkipReason.QUOTA_EXCEEDED) == (1 if blocking else 0)
    if blocking:
        assert [run.skip_reason for run in before] == [None] * 3 + [SkipReason.QUOTA_EXCEEDED]
        assert world.told(QuotaExceeded) == []
    else:
        assert {run.status for run in world.runs()} == {RunStatus.SUCCEEDED}
        assert [(one.workspace, one.month, one.max) for one in world.told(QuotaExceeded)] == [
            ("team", "2026-01", 3),
            ("team", "2026-02", 3),
        ]
    audit(world, bound_ms=1_000)


def test_what_a_quota_counts() -> None:
    """Runs that were opened, by the schedule or by hand: retries, redeliveries and what was skipped are none."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: (
            Act(for_ms=15_000)
            if delivery.redelivery == 0 and delivery.slot_at_ms == START + 10_000
            else Act(outcome=Failed(reason="no"))
            if delivery.attempt == 0 and not delivery.redelivery
            else Act()
        )
        process = world.start()
        await world.until(lambda: process.active)
        await process.spawn(set_workspace(process.engine.desk, "default", quota=3))
        await world.run(21_000)  # the first runs, the second slot is skipped
        process.kill()
        process = world.start()
        await world.until(lambda: process.active)
        desk, job = process.engine.desk, world.state.catalog.jobs[id_of("a")]
        await process.spawn(trigger(desk, job))
        await world.run(15_000)
        [failed] = [run for run in world.runs("a") if run.key.scheduled_at_ms == START + 30_000]
        await process.spawn(retry(desk, failed))
        await world.run(10_000)

    world = play(scenario, declare("a", "every 10s", retry=1, timeout_ms=60_000))
    assert sum(world.state.history.used.values()) == 3
    assert {run.key.trigger.value for run in world.runs("a") if run.status is RunStatus.SUCCEEDED} == {"s", "m", "r"}
    last = world.runs("a")[-1]
    assert (last.status, last.skip_reason) == (RunStatus.SKIPPED, SkipReason.QUOTA_EXCEEDED)


def test_late_starts_and_ends_are_told_of_once_each() -> None:
    """A slow run finishes late; a cap that kept the other back is not its lateness; a restart that came late is."""

    async def scenario(world: World) -> None:
        slow = {"slow": 8_000, "first": 6_000}
        world.script = lambda delivery: Act(for_ms=slow.get(delivery.job_name, 100))
        process = world.start()
        await world.run(28_000)
        assert [(one.job_name, one.rule) for one in world.told(SlaBreached)] == [("slow", "finish_within")]
        process.kill()
        await world.run(4_500)
        world.start()
        await world.run(10_000)

    sla = SlaRule(start_within_ms=1_000, finish_within_ms=5_000)
    rule = ConcurrencyRule(max=1, key="k")
    world = play(
        scenario,
        declare("slow", "at 2026-01-01T00:00:10Z", sla=sla, timeout_ms=60_000),
        declare("first", "at 2026-01-01T00:00:10Z", concurrency=rule, timeout_ms=60_000),
        declare("held", "at 2026-01-01T00:00:11Z", concurrency=rule, sla=sla),
        declare("late", "at 2026-01-01T00:00:30Z", sla=sla),
    )
    told = [(one.job_name, one.rule, one.over_ms // 1_000) for one in world.told(SlaBreached)]
    assert told == [("slow", "finish_within", 3), ("late", "start_within", 1)]
    [held] = world.sent("held")
    assert held.late_ms > 4_000
    rows = {run.spec.name: list(world.state.history.attempts[run.id].values())[-1] for run in world.runs()}
    assert {name: dict(row.facts).get("sla") for name, row in rows.items()} == {
        "slow": ["finish_within"],
        "first": None,
        "held": None,
        "late": ["start_within"],
    }
