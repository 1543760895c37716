"""The pure decisions of the engine: staleness, lateness, missed windows, where a job goes next, and when a bell rings."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cronpad_core.api import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Job,
    JobSpec,
    JobStatus,
    MisfireRule,
    Replay,
    ReplayPlan,
    ScheduleSpec,
    SinkSpec,
    parse_schedule,
)
from cronpad_core.builtin.misfire import All, Earliest, Latest, Skip
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.advancer import next_step
from cronpad_core.engine.catchup import missed_window, sound
from cronpad_core.engine.gate import is_late, is_stale
from cronpad_core.engine.ticket import Holding, Ticket
from cronpad_core.engine.wakeup import WakeUp

NOW = 1_767_225_600_000 + 14 * DAY
EACH_SECOND = parse_schedule("* * * * * *")
HOURLY = parse_schedule("0 * * * *")


def job(next_ms: int, *, replay: Replay | None = None, status: JobStatus = JobStatus.ACTIVE, **rule: object) -> Job:
    spec = JobSpec(
        name="a",
        schedule=ScheduleSpec(texts=("* * * * * *",)),
        sink=SinkSpec(type="none"),
        misfire=replace(MisfireRule(), **rule),
    )
    return Job(
        id="job_a", origin="test", version=1, status=status, spec=spec, next_run_at_ms=next_ms, valid_from_ms=0, replay=replay
    )


def ticket(of: Job, slot_ms: int, *, held: int | None = None) -> Ticket:
    occurrence = of.slot(slot_ms)
    holding = Holding(occurrence=occurrence, fence=1, term=1)
    return Ticket(occurrence=occurrence, holding=holding, due_at_ms=slot_ms, claimed_at_ms=slot_ms, held_since_ms=held)


def test_an_entry_is_stale_unless_its_job_waits_for_just_it() -> None:
    """Another slot, version or status, and a job that is gone, make an entry stale."""
    waiting = job(1_000)
    entry = waiting.slot(1_000)
    assert not is_stale(entry, waiting)
    for other in (None, job(2_000), replace(waiting, version=2), job(1_000, status=JobStatus.PAUSED)):
        assert is_stale(entry, other)


def test_lateness_begins_after_the_grace_and_holds_and_decisions_excuse_it() -> None:
    """The grace is the job's own, and never less than what the overdue check needs."""
    tuning, waiting = Tuning(), job(0)
    assert not is_late(ticket(waiting, 0), waiting, 0, 60 * SECOND, tuning)
    assert is_late(ticket(waiting, 0), waiting, 0, 60 * SECOND + 1, tuning)
    assert not is_late(ticket(waiting, 0), waiting, 5 * SECOND, 65 * SECOND, tuning)
    assert not is_late(ticket(waiting, 0, held=1), waiting, 0, HOUR, tuning)
    decided = job(0, replay=Replay(until_ms=0, then_ms=SECOND))
    assert not is_late(ticket(decided, 0), decided, 0, HOUR, tuning)
    assert tuning.grace_ms(1) == 40 * SECOND


@pytest.mark.parametrize("span", [MINUTE, DAY, 14 * DAY])
@pytest.mark.parametrize(
    ("policy", "first", "until"),
    [(Latest(), "newest", "newest"), (Earliest(), "earliest", "earliest"), (Skip(), None, None), (All(), "all", "newest")],
)
def test_the_policies_over_a_job_each_second(span: int, policy: object, first: str | None, until: str | None) -> None:
    """Each policy chooses what it says, out of a minute, a day and two weeks of slots, and the plan keeps its promises."""
    waiting = job(NOW - span)
    window = missed_window(waiting, NOW - span, NOW + 500, EACH_SECOND)
    assert window.newest_ms == NOW
    assert window.earliest_ms == max(NOW - span, NOW + SECOND - DAY)
    chosen = {"newest": NOW, "earliest": window.earliest_ms, "all": max(window.earliest_ms, NOW - 999 * SECOND), None: None}
    plan = policy.decide(window)
    assert (plan.first_ms, plan.until_ms) == (chosen[first], chosen[until])
    assert sound(plan, window)


def test_the_window_is_never_shorter_than_the_jobs_own_period() -> None:
    """A job each hour with a window of a minute still runs its newest slot."""
    window = missed_window(job(NOW - 3 * HOUR, window_ms=MINUTE), NOW - 3 * HOUR, NOW + 30 * MINUTE, HOURLY)
    assert (window.earliest_ms, window.newest_ms) == (NOW, NOW)
    assert Latest().decide(window) == ReplayPlan(first_ms=NOW, until_ms=NOW)


def test_plans_outside_the_window_are_unsound() -> None:
    """A policy may choose only slots, in order, within the window."""
    window = missed_window(job(NOW - MINUTE), NOW - MINUTE, NOW, EACH_SECOND)
    for first, until in [(NOW, None), (NOW, NOW - SECOND), (NOW - HOUR, NOW), (NOW, NOW + SECOND), (NOW - 1, NOW)]:
        assert not sound(ReplayPlan(first_ms=first, until_ms=until), window)
    assert sound(ReplayPlan(), window)


def test_a_job_goes_on_from_its_slot_and_past_a_catch_up_to_what_lies_behind() -> None:
    """Next is counted from the scheduled time; inside a decided catch-up one by one, and after it at the slot behind the window."""
    assert next_step(job(NOW), NOW, EACH_SECOND) == (NOW + SECOND, None)
    replay = Replay(until_ms=NOW + SECOND, then_ms=NOW + HOUR)
    assert next_step(job(NOW, replay=replay), NOW, EACH_SECOND) == (NOW + SECOND, replay)
    assert next_step(job(NOW, replay=replay), NOW + SECOND, EACH_SECOND) == (NOW + HOUR, None)
    once = parse_schedule("at 2026-01-01T00:00:00Z")
    assert next_step(job(1_767_225_600_000), 1_767_225_600_000, once) == (None, None)


def test_a_bell_rings_for_what_is_due_sooner() -> None:
    """Offers later than the planned look are no reason to wake; earlier ones, and everything between two waits, are."""

    async def main() -> list[bool]:
        bell, rung = WakeUp(), []
        loop = asyncio.get_running_loop()
        loop.call_soon(bell.offer, 500)
        rung.append(await bell.wait(400, 5))
        loop.call_soon(bell.offer, 300)
        rung.append(await bell.wait(400, 60_000))
        bell.offer(10**15)
        rung.append(await bell.wait(400, 60_000))
        loop.call_soon(bell.freed)
        rung.append(await bell.wait(400, 5))
        bell.starved = True
        loop.call_soon(bell.freed)
        rung.append(await bell.wait(400, 60_000))
        return rung

    assert asyncio.run(main()) == [False, True, True, False, True]
