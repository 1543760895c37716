"""A wall clock that is set back, set forward again, and a machine that sleeps, in virtual time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from faults import pause
from jobs import START, allow, declare, id_of, play
from ledger import settled
from world import Act, World

from cronpad_core.domain.events import ClockStepped, JobsRewound, LeaseLost, SlotsMissed
from cronpad_core.domain.outcome import Failed
from cronpad_core.domain.retry import RetryRule
from cronpad_core.domain.run import RunStatus

HOUR, MINUTE = 3_600_000, 60_000
BEGIN = START + 2 * HOUR


def repeated(world: World) -> list[object]:
    """What was delivered more than once."""
    counts = Counter((sent.key, sent.delivery.attempt) for sent in world.sent())
    return [key for key, count in counts.items() if count > 1]


@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_goes_back_an_hour_repeats_no_slot(restart: bool) -> None:
    """Jobs run again within a minute, at slots of the hour that comes again only where those had not run.

    The same where the clock was set while nothing ran.
    """

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(95_000)
        if restart:
            await process.stop()
        world.clock.jump(-HOUR)
        if restart:
            world.start()
        since = len(world.sent("tens"))
        await world.until(lambda: len(world.sent("tens")) > since, within_ms=MINUTE)
        await world.run(5 * MINUTE)
        settled(world, bound_ms=30_000)

    world = play(scenario, declare("tens", "*/10 * * * * *"), declare("hourly", "0 * * * *"), wall_ms=BEGIN - 90_000)
    assert repeated(world) == []
    late = [sent for sent in world.sent("tens") if sent.boot_ms > world.sent("tens")[9].boot_ms]
    assert len(late) >= 30 and {sent.late_ms for sent in late[1:]} == {0}
    assert [sent.key.scheduled_at_ms for sent in world.sent("hourly")] == [BEGIN], "it has run, and is not run again"
    assert sum(one.count for one in world.told(JobsRewound)) == 2
    assert len(world.told(ClockStepped)) == (0 if restart else 1)


def test_a_paused_job_is_put_right_where_another_shows_that_the_clock_was_ahead() -> None:
    """Found at a start that knows of no step, with the queue gone: the end of the paused job's version is cut to now as well."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(65_000)
        assert await pause(world, process, id_of("idle"))
        await process.stop()
        world.state.queue.file = None
        world.clock.jump(-HOUR)
        world.start()
        await world.run(5_000)
        ended = world.state.catalog.versions[id_of("idle")][1].valid_until_ms
        assert ended is not None and ended <= world.clock.wall_ms()

    world = play(scenario, declare("live", "*/10 * * * * *"), declare("idle", "*/10 * * * * *"), wall_ms=BEGIN)
    assert sum(one.count for one in world.told(JobsRewound)) == 2


def test_the_hour_that_comes_again_is_gone_through_once() -> None:
    """Slots that ran in it run no more; from where the clock had been before, everything is as ever."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(30 * MINUTE)
        world.clock.jump(-20 * MINUTE)
        await world.run(40 * MINUTE + 500)
        settled(world, bound_ms=MINUTE)

    world = play(scenario, declare("a", "*/30 * * * * *"), wall_ms=BEGIN)
    slots = [sent.key.scheduled_at_ms for sent in world.sent("a")]
    assert len(slots) == len(set(slots))
    assert max(slots) == BEGIN + 50 * MINUTE
    assert set(slots) == set(range(min(slots), max(slots) + 1, 30_000)), "no slot of either time is left out"
    assert [run.key.scheduled_at_ms for run in world.runs("a")] == sorted(slots)


def test_a_retry_that_was_planned_ahead_comes_within_its_longest_delay() -> None:
    """Planned on a clock that was an hour ahead, it counts as due now, and so does what was being held."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(outcome=Failed(reason="no")) if delivery.attempt == 0 else Act()
        world.start()
        await world.until(lambda: any(run.status is RunStatus.RETRYING for run in world.runs("a")))
        world.clock.jump(-HOUR)
        await world.run(25_000)

    rule = RetryRule(max=1, base_ms=5_000, factor=1.0)
    world = play(scenario, declare("a", "at 2026-01-01T02:00:10Z", retry=rule), wall_ms=BEGIN)
    [run] = world.runs("a")
    assert (run.status, run.attempt) == (RunStatus.SUCCEEDED, 1)


def test_a_clock_that_goes_back_and_forth_loses_and_repeats_nothing() -> None:
    """Ahead by an hour, back, and ahead again by less: each slot has one outcome at most, and the jobs run at the end."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=300)
        world.start()
        for by_ms in (HOUR, -HOUR, 10 * MINUTE, -5 * MINUTE, 30_000, -30_000, -2 * HOUR):
            await world.run(47_000)
            world.clock.jump(by_ms)
        await world.run(3 * MINUTE)
        settled(world, bound_ms=30_000)

    world = play(
        scenario, declare("a", "*/10 * * * * *"), declare("b", "*/15 * * * * *", policy="all"), wall_ms=START + 48 * HOUR
    )
    assert repeated(world) == []
    now = world.clock.wall_ms()
    for name in ("a", "b"):
        ran = [run.key.scheduled_at_ms for run in world.runs(name)]
        assert len(ran) == len(set(ran))
        assert max(sent.wall_ms for sent in world.sent(name)[-3:]) >= now - 30_000


def test_a_step_of_less_than_a_minute_moves_no_job() -> None:
    """Jobs wait for the clock to come there again; nothing is rewound, and no slot is repeated or left out."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(65_000)
        world.clock.jump(-40_000)
        await world.run(3 * MINUTE)

    world = play(scenario, declare("a", "*/10 * * * * *"), wall_ms=BEGIN)
    assert world.told(JobsRewound) == [] and repeated(world) == []
    slots = [sent.key.scheduled_at_ms for sent in world.sent("a")]
    assert slots == list(range(BEGIN + 10_000, max(slots) + 1, 10_000))
    assert max(slots) >= world.clock.wall_ms() - 10_000


@pytest.mark.parametrize("policy", ["latest", "all", "skip"])
def test_a_machine_that_sleeps_through_a_delivery_ends_it_once(policy: str) -> None:
    """Time went on for all clocks: what was slept over is missed and decided once, and what ran ends once."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=5_000)
        world.start()
        await world.run(62_000)
        world.clock.suspend(10 * MINUTE)
        await world.run(3 * MINUTE)
        settled(world, bound_ms=MINUTE)

    job = declare("a", "*/20 * * * * *", policy=policy, timeout_ms=MINUTE, overlap=allow(50))
    world = play(scenario, job, wall_ms=BEGIN)
    [told] = world.told(SlotsMissed)
    assert told.missed + told.chosen == 30
    assert told.chosen == {"latest": 1, "all": 30, "skip": 0}[policy]
    assert all(event.suspended_ms == 10 * MINUTE for event in world.told(ClockStepped)) and world.told(ClockStepped)
    assert len(repeated(world)) <= 1, "what ran while it slept is delivered again at most, since its lease has ended"
    assert {run.status for run in world.runs("a")} <= {RunStatus.SUCCEEDED, RunStatus.RUNNING}


def test_a_short_sleep_is_a_late_start_and_no_miss() -> None:
    """Within its grace a slot still starts; the lock and the leases are kept."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(18_000)
        world.clock.suspend(4_000)
        await world.run(20_000)
        assert process.engine.authority.term == 1

    world = play(scenario, declare("a", "every 10s"))
    assert [sent.late_ms >= 2_000 for sent in world.sent("a")] == [False, True, False, False]
    assert world.told(SlotsMissed) == [] and world.told(LeaseLost) == []


def test_versions_that_began_ahead_are_cut() -> None:
    """An edit on a clock that was a day ahead does not keep its job from running when the clock is right again."""

    async def scenario(world: World) -> None:
        world.clock.jump(24 * HOUR)
        process = world.start()
        await world.run(25_000)
        world.declared = [replace(one, spec=replace(one.spec, tags=("edited",))) for one in world.declared]
        await process.spawn(process.reload())
        await world.run(15_000)
        world.clock.jump(-24 * HOUR)
        await world.run(2 * MINUTE)
        settled(world, bound_ms=MINUTE)

    world = play(scenario, declare("a", "*/10 * * * * *"), wall_ms=BEGIN)
    now = world.clock.wall_ms()
    assert len([sent for sent in world.sent("a") if sent.wall_ms < BEGIN + HOUR]) >= 6
    assert all(one.valid_from_ms <= now for one in world.state.catalog.versions[id_of("a")].values())
