"""Limits in virtual time: overlap rules over a take-over, retries that meet running runs, and caps with more work than room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest
from jobs import START, allow, declare, id_of, play
from ledger import audit
from world import QUICK, Act, World

from cronpad_core.control.backfills import plan_backfill, start_backfill
from cronpad_core.control.trigger import trigger
from cronpad_core.control.workspaces import set_workspace
from cronpad_core.domain.events import RunEnded, RunHeld
from cronpad_core.domain.limits import ConcurrencyRule
from cronpad_core.domain.occurrence import RunKey, Trigger
from cronpad_core.domain.outcome import Failed
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.retry import RetryRule
from cronpad_core.domain.run import Run, RunStatus, SkipReason

QUEUE_ALL = OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=10)
MANY = replace(QUICK, workers=40, claim_batch=20)


def of(world: World, name: str, status: RunStatus) -> list[Run]:
    """The runs of a job that are in this status."""
    return [run for run in world.runs(name) if run.status is status]


def seconds(keys: Iterable[RunKey]) -> list[int]:
    """The scheduled times, in seconds from the start, without repeats of a redelivery."""
    return list(dict.fromkeys((key.scheduled_at_ms - START) // 1_000 for key in keys))


def spans(world: World, *names: str) -> list[tuple[int, int]]:
    """From when to when attempts of these jobs were running, by their rows; of those that have ended."""
    attempts = [
        one for name in names for run in world.runs(name) for one in world.state.history.attempts.get(run.id, {}).values()
    ]
    return sorted((one.opened_at_ms, one.finished_at_ms) for one in attempts if one.finished_at_ms is not None)


def at_once(world: World, *names: str) -> int:
    """How many of these jobs' attempts ran at one moment, at most; one that ends in the moment another begins does not count."""
    changes = [change for begin, end in spans(world, *names) for change in ((begin, 1), (end, -1))]
    most = now = 0
    for _, by in sorted(changes):
        now += by
        most = max(most, now)
    return most


async def killed_while_one_waits(world: World) -> None:
    """One run of the job runs and others wait; the process dies, and another goes on with them."""
    world.script = lambda delivery: Act(for_ms=12_000 if delivery.scheduled_at_ms < START + 30_000 else 1_000)
    first = world.start()
    await world.until(lambda: bool(of(world, "a", RunStatus.WAITING)))
    await world.run(300)
    first.kill()
    world.start()
    await world.run(59_700)


@pytest.mark.parametrize("rule", [OverlapRule(policy=OverlapPolicy.QUEUE_ONE), QUEUE_ALL], ids=lambda rule: rule.policy.value)
def test_who_waits_keeps_its_turn_over_a_kill(rule: OverlapRule) -> None:
    """The run that was running is delivered again, those that waited follow in the order of their slots, and none is lost."""
    world = play(killed_while_one_waits, declare("a", "every 10s", overlap=rule, timeout_ms=60_000))
    delivered = seconds(one.key for one in world.sent("a"))
    assert delivered == sorted(delivered)
    assert delivered[:3] == ([10, 20, 30] if rule is QUEUE_ALL else [10, 20, 40]), "one may wait, or all"
    assert [sent.delivery.redelivery for sent in world.sent("a")][:3] == [0, 1, 0]
    assert at_once(world, "a") == 1
    skipped = {run.skip_reason for run in of(world, "a", RunStatus.SKIPPED)}
    assert skipped <= ({SkipReason.QUEUE_FULL} if rule.policy is OverlapPolicy.QUEUE_ONE else set())
    assert audit(world, bound_ms=20_000).keys() <= {"ran", "skipped"}


@pytest.mark.parametrize("policy", [OverlapPolicy.CANCEL_RUNNING, OverlapPolicy.KILL_RUNNING])
def test_who_replaces_a_run_does_so_over_a_kill(policy: OverlapPolicy) -> None:
    """The one to make way is marked: whoever finds it again ends it as cancelled, and its successor runs."""

    async def scenario(world: World) -> None:
        # The first one does not stop when it is told to, so that the process dies while its successor waits.
        world.script = lambda delivery: Act(for_ms=60_000, swallows=delivery.scheduled_at_ms == START + 10_000)
        first = world.start()
        await world.until(lambda: bool(of(world, "a", RunStatus.WAITING)))
        first.kill()
        world.script = lambda delivery: Act(for_ms=1_000)
        world.start()
        await world.run(35_000)

    world = play(scenario, declare("a", "every 10s", overlap=OverlapRule(policy=policy), timeout_ms=90_000))
    first, second, *later = world.runs("a")
    assert (first.status, second.status) == (RunStatus.CANCELLED, RunStatus.SUCCEEDED)
    assert {run.status for run in later} == {RunStatus.SUCCEEDED}
    assert [sent.key for sent in world.sent("a")][:2] == [first.key, second.key], "what was to end is not delivered again"
    assert at_once(world, "a") == 1
    audit(world, bound_ms=5_000)


@pytest.mark.parametrize(("policy", "sink"), [(OverlapPolicy.CANCEL_RUNNING, "graceful"), (OverlapPolicy.KILL_RUNNING, "script")])
def test_of_several_that_would_take_a_place_the_newest_runs(policy: OverlapPolicy, sink: str) -> None:
    """Each slot ends the run before it; the successor begins after its predecessor's recorded end, and the last one is left."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=60_000)
        world.start()
        await world.run(45_000)

    world = play(scenario, declare("a", "every 10s", sink=sink, overlap=OverlapRule(policy=policy), timeout_ms=90_000))
    assert [run.status.value for run in world.runs("a")] == ["cancelled", "cancelled", "cancelled", "running"]
    assert all(ended <= begun for (_, ended), (begun, _) in pairwise(spans(world, "a")))
    assert max(sent.late_ms for sent in world.sent("a")) <= 1_000


def test_as_many_as_are_allowed_over_a_kill() -> None:
    """Three run, the fourth slot is skipped; redelivered they are three again, and no fourth gets in beside them."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=33_000)
        first = world.start()
        await world.run(41_000)
        first.kill()
        world.start()
        await world.run(60_000)

    world = play(scenario, declare("a", "every 10s", overlap=allow(3), timeout_ms=60_000))
    assert [run.status.value for run in world.runs("a")][:4] == ["succeeded"] * 3 + ["skipped"]
    assert world.runs("a")[3].skip_reason is SkipReason.PREVIOUS_RUN_IN_PROGRESS
    assert [run.redeliveries for run in world.runs("a")][:3] == [1, 1, 1]
    audit(world, bound_ms=5_000)


def test_runs_that_are_asked_for_obey_the_overlap_rule() -> None:
    """A manual run beside a running one is skipped as a slot is, unless it brings a rule of its own; a backfill goes in turn."""

    async def scenario(world: World) -> None:
        world.chores = True
        world.script = lambda delivery: Act(for_ms=8_000 if delivery.trigger is Trigger.SCHEDULED else 500)
        process = world.start()
        await world.until(lambda: bool(of(world, "a", RunStatus.RUNNING)))
        desk, job = process.engine.desk, world.state.catalog.jobs[id_of("a")]
        await process.spawn(trigger(desk, job, token="as the job"))
        await process.spawn(trigger(desk, job, token="beside", overlap=allow(2)))
        await process.spawn(trigger(desk, job, token="after", overlap=QUEUE_ALL))
        plan = plan_backfill(job, START - 50_000, START, schedules=world.schedules, now_ms=world.clock.wall_ms())
        await process.spawn(start_backfill(desk, plan, overlap=QUEUE_ALL))
        await world.run(60_000)

    world = play(scenario, declare("a", "*/10 * * * * *", timeout_ms=60_000))
    asked = {run.token: run for run in world.runs("a") if run.key.trigger is Trigger.MANUAL}
    assert asked["as the job"].skip_reason is SkipReason.PREVIOUS_RUN_IN_PROGRESS
    assert {asked["beside"].status, asked["after"].status} == {RunStatus.SUCCEEDED}
    scheduled = world.runs("a")[[run.key.trigger for run in world.runs("a")].index(Trigger.SCHEDULED)]
    assert (asked["beside"].opened_at_ms or 0) < START + 11_000
    assert (asked["after"].opened_at_ms or 0) >= scheduled.key.scheduled_at_ms + 8_000
    back = [run for run in world.runs("a") if run.key.trigger is Trigger.BACKFILL]
    assert [run.status for run in back] == [RunStatus.SUCCEEDED] * len(back) and len(back) == 6
    opened = [run.opened_at_ms or 0 for run in back]
    assert opened == sorted(opened)


def test_a_retry_that_meets_a_running_run_is_held() -> None:
    """It uses no attempt while it waits, and starts when the other has ended."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: (
            Act(outcome=Failed(reason="no"))
            if delivery.attempt == 0 and delivery.slot_at_ms == START + 10_000
            else Act(for_ms=15_000 if delivery.slot_at_ms == START + 20_000 else 100)
        )
        world.start()
        await world.run(60_000)

    rule = RetryRule(max=1, base_ms=10_500, factor=1.0)
    world = play(scenario, declare("a", "every 10s", retry=rule, timeout_ms=60_000))
    first = world.runs("a")[0]
    assert (first.status, first.attempt) == (RunStatus.SUCCEEDED, 1)
    [again] = [sent for sent in world.sent("a") if sent.delivery.attempt == 1]
    assert START + 35_000 <= again.wall_ms <= START + 36_000
    assert len(world.told(RunHeld)) == 1 and at_once(world, "a") == 1


def test_a_retry_that_is_held_ends_at_its_deadline() -> None:
    """Where the other run outlasts the deadline the retry never starts, and says why."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: (
            Act(outcome=Failed(reason="no")) if delivery.slot_at_ms == START + 10_000 else Act(for_ms=60_000)
        )
        world.start()
        await world.run(60_000)

    rule = RetryRule(max=1, base_ms=10_500, factor=1.0, deadline_ms=15_000)
    world = play(scenario, declare("a", "every 10s", retry=rule, timeout_ms=90_000))
    first = world.runs("a")[0]
    assert (first.status, first.attempt, first.reason) == (RunStatus.FAILED, 0, "its retry deadline passed")
    [told] = world.told(RunEnded)
    assert told.run_id == first.id
    assert START + 25_000 < (first.finished_at_ms or 0) <= START + 31_000


CAPPED = {
    "job": ConcurrencyRule(max=2),
    "key": ConcurrencyRule(max=2, key="shared"),
    "workspace": None,
    "all": None,
}


@pytest.mark.parametrize("scope", list(CAPPED))
def test_a_cap_is_never_exceeded_and_everything_is_done(scope: str) -> None:
    """Thirty runs at once find room for two at a time, oldest first; who has nothing to do with the cap is not kept waiting."""
    names = [f"j{number:02}" for number in range(3 if scope == "job" else 30)]
    jobs = [
        declare(
            name,
            "at 2026-01-01T00:00:10Z" if scope != "job" else tuple(f"at 2026-01-01T00:00:{n:02}Z" for n in range(10, 20)),
            workspace="capped",
            concurrency=CAPPED[scope],
            overlap=allow(50),
            timeout_ms=60_000,
        )
        for name in names
    ]
    free = declare("free", "every 5s")

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=0 if delivery.job_name == "free" else 2_000)
        process = world.start()
        await world.until(lambda: process.active)
        if scope == "workspace":
            await process.spawn(set_workspace(process.engine.desk, "capped", concurrency=2))
        await world.run(60_000)

    tuning = replace(MANY, max_running=2) if scope == "all" else MANY
    world = play(scenario, *jobs, *([] if scope == "all" else [free]), tuning=tuning)
    runs = [run for run in world.runs() if run.spec.name != "free"]
    assert len(runs) == 30 and {run.status for run in runs} == {RunStatus.SUCCEEDED}
    groups = [[name] for name in names] if scope == "job" else [names]
    assert [at_once(world, *group) for group in groups] == [2] * len(groups)
    ends = [run.finished_at_ms or 0 for run in runs]
    # Fifteen rounds of two seconds; what a place stays empty between two of them is what a look takes.
    assert max(ends) - min(run.key.scheduled_at_ms for run in runs) <= 2_000 * (30 // 2 // len(groups)) + 6_000
    assert max((sent.late_ms for sent in world.sent("free")), default=0) <= 300
    assert world.rules.hits["history.open held"] > 0


def test_a_cap_holds_over_a_kill() -> None:
    """Those that ran run again, those that waited come up by themselves, and the cap holds all the time."""
    jobs = [
        declare(f"j{n}", "at 2026-01-01T00:00:10Z", concurrency=ConcurrencyRule(max=2, key="k"), timeout_ms=60_000)
        for n in range(8)
    ]

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=3_000)
        process = world.start()
        await world.run(14_000)
        process.kill()
        world.start()
        await world.run(30_000)

    world = play(scenario, *jobs, tuning=MANY)
    assert {run.status for run in world.runs()} == {RunStatus.SUCCEEDED} and len(world.runs()) == 8
    assert sum(run.redeliveries for run in world.runs()) == 2
    audit(world, bound_ms=1_000)
