"""Slots that could not start in time: downtime, standby, suspend and clocks that jump, under each policy."""

from __future__ import annotations

import pytest
from jobs import START, allow, declare, play
from ledger import audit
from world import QUICK, Act, World

from cronpad_core.domain.events import EntriesRepaired, LeaseLost, SlotsMissed
from cronpad_core.domain.outcome import Failed
from cronpad_core.domain.run import RunStatus

GRACE = QUICK.overdue_grace_ms + QUICK.reconcile_ms


async def away(world: World, for_ms: int) -> None:
    """Killed after two slots of ten seconds, and started again later."""
    world.start()
    await world.run(25_000)
    world.end()
    await world.run(for_ms)
    world.start()


@pytest.mark.parametrize(
    ("policy", "window_ms", "run"),
    [
        ("latest", None, [90]),
        ("earliest", None, [30]),
        ("all", None, [30, 40, 50, 60, 70, 80, 90]),
        ("skip", None, []),
        ("latest", 30_000, [90]),
        ("earliest", 30_000, [70]),
        ("all", 30_000, [70, 80, 90]),
    ],
)
def test_after_an_absence_the_policy_decides(policy: str, window_ms: int | None, run: list[int]) -> None:
    """The chosen slots run at once and in order, all others are one missed range each side, and then all is on time again."""

    async def scenario(world: World) -> None:
        await away(world, 70_000)
        await world.run(2_000)
        caught_up = [(sent.key.scheduled_at_ms - START) // 1_000 for sent in world.sent()][2:]
        assert caught_up == run
        await world.run(61_000)

    world = play(scenario, declare("a", "every 10s", policy=policy, window_ms=window_ms, grace_ms=1_000))
    counts = audit(world, bound_ms=1_000)
    assert (counts["ran"], counts["missed"]) == (2 + len(run) + 6, 7 - len(run))
    assert [sent.late_ms for sent in world.sent()][-6:] == [0] * 6
    [told] = world.told(SlotsMissed)
    assert (told.policy, told.missed, told.chosen) == (policy, 7 - len(run), len(run))


def test_a_short_absence_is_none() -> None:
    """A slot that can still start within its grace runs, late, without any policy."""

    async def scenario(world: World) -> None:
        await away(world, GRACE)
        await world.run(10_000)

    world = play(scenario, declare("a", "every 10s", policy="skip", grace_ms=1_000, overlap=allow(2)))
    late = [sent.late_ms for sent in world.sent()]
    assert late[:2] == [0, 0] and 0 < late[2] <= GRACE and len(late) == 4
    assert world.told(SlotsMissed) == []


def test_a_grace_may_be_longer() -> None:
    """A job that asks for more grace than the overdue check needs gets it."""

    async def scenario(world: World) -> None:
        await away(world, 50_000)
        await world.run(1_000)

    world = play(scenario, declare("a", "every 30s", policy="skip", grace_ms=50_000))
    assert [run.key.scheduled_at_ms - START for run in world.runs()] == [30_000, 60_000]


def test_a_failing_catch_up_keeps_its_retries_apart() -> None:
    """Slots of a catch-up that fail retry on their own, and skip nothing of the rest."""

    async def scenario(world: World) -> None:
        await away(world, 70_000)
        world.script = lambda delivery: Act(outcome=Failed(reason="no")) if delivery.attempt == 0 else Act()
        await world.run(15_000)

    world = play(scenario, declare("a", "every 10s", policy="all", retry=1, overlap=allow(10)))
    assert {run.status for run in world.runs()} == {RunStatus.SUCCEEDED}
    assert len(world.runs()) == 10
    assert audit(world, bound_ms=1_000) == {"ran": 10}


def test_years_of_a_job_each_second_are_decided_at_once() -> None:
    """What was missed is counted by arithmetic: 63 million slots take no longer than six."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(5_000)
        world.end()
        world.clock.jump(2 * 365 * 86_400_000)
        world.start()
        await world.run(5_500)

    world = play(scenario, declare("a", "every 1s", policy="latest"))
    [told] = world.told(SlotsMissed)
    assert told.missed == 2 * 365 * 86_400
    assert [sent.late_ms for sent in world.sent()][-5:] == [0] * 5


def test_a_clock_that_jumps_forward_is_noticed_within_a_second() -> None:
    """Row 51: everything in the hour is late, the policy decides at once, and no lease ends early."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=15_000) if delivery.job_name == "slow" else Act()
        world.start()
        await world.run(12_000)
        world.clock.jump(3_600_000)
        await world.run(1_000)
        assert len(world.sent("a")) == 2 and world.sent("a")[1].wall_ms - START == 3_612_000
        await world.run(30_000)

    world = play(scenario, declare("a", "every 10s"), declare("slow", "at 2026-01-01T00:00:11Z"))
    assert len(world.sent("slow")) == 1
    assert world.rules.hits["reaped"] == 0 and world.told(LeaseLost) == []
    assert [sent.late_ms for sent in world.sent("a")][-3:] == [0, 0, 0]
    audit(world, bound_ms=1_000)


def test_a_clock_that_jumps_while_nothing_is_due_starts_nothing_early() -> None:
    """A jump to just before a slot starts that slot in its millisecond."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(500)
        world.clock.set_wall(START + 3_599_400)
        await world.run(2_000)

    world = play(scenario, declare("a", "0 * * * *"))
    assert [sent.late_ms for sent in world.sent()] == [0]


def test_a_suspended_machine_takes_its_lock_again() -> None:
    """Row 48: after a suspend the process does not trust its lock, takes it anew, and decides what it slept over."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(12_000)
        world.clock.suspend(300_000)
        await world.run(3_000)
        assert process.engine.authority.term == 2
        await world.run(30_000)

    world = play(scenario, declare("a", "every 10s"))
    [told] = world.told(SlotsMissed)
    assert (told.missed, told.chosen) == (29, 1)
    assert [sent.late_ms for sent in world.sent()][-3:] == [0, 0, 0]
    audit(world, bound_ms=1_000)


def test_after_a_reboot_no_lease_counts() -> None:
    """Leases and the lock of another boot say nothing: what was in flight is taken up at once."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=5_000)
        world.start()
        await world.run(11_000)
        world.end()
        world.clock.reboot(boot_id="boot-2", down_ms=2_000)
        world.start()
        await world.run(20_000)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z"))
    assert [sent.delivery.redelivery for sent in world.sent()] == [0, 1]
    assert [run.status for run in world.runs()] == [RunStatus.SUCCEEDED]


def test_a_lost_entry_is_found_by_the_overdue_check() -> None:
    """A job whose entry is gone fires at most overdue grace plus one reconcile late, and the next slots are on time."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(15_000)
        assert world.state.queue.file is not None
        for member in list(world.state.queue.file.due):
            world.state.queue.file.drop(member)
        await world.run(60_000)

    world = play(scenario, declare("a", "every 10s"))
    late = [sent.late_ms for sent in world.sent()]
    assert late[0] == 0 and 10_000 < late[1] <= GRACE + 1_000
    assert late[-2:] == [0, 0]
    assert sum(event.count for event in world.told(EntriesRepaired) if not event.full) == 1
