"""What is noticed when the wall clock is set or the machine sleeps, and for how long it is remembered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cronpad_core.domain.events import ClockStepped, Event
from cronpad_core.engine.clock_watch import ClockWatch
from cronpad_testkit.clock import VirtualClock, run_virtual

MINUTE = 60_000


def watched(story: Callable[[VirtualClock, ClockWatch, list[Event]], None]) -> None:
    """Plays a story with a watch and what it tells."""

    async def main(clock: VirtualClock) -> None:
        told: list[Event] = []
        story(clock, ClockWatch(clock, told.append), told)

    run_virtual(main)


@pytest.mark.parametrize("by_ms", [501, -501, 3_600_000, -3_600_000])
def test_a_step_is_noticed_once(by_ms: int) -> None:
    """Either way, and by how much; the next look finds all well."""

    def story(clock: VirtualClock, watch: ClockWatch, told: list[Event]) -> None:
        assert not watch.look()
        clock.jump(by_ms)
        assert watch.look() and not watch.look()
        assert told == [ClockStepped(by_ms=by_ms)]

    watched(story)


@pytest.mark.parametrize("by_ms", [0, 500, -500, 20])
def test_a_clock_that_is_slewed_is_none_that_was_set(by_ms: int) -> None:
    """Half a second between two looks is a clock that is being disciplined, time and again."""

    def story(clock: VirtualClock, watch: ClockWatch, told: list[Event]) -> None:
        for _ in range(10):
            clock.jump(by_ms)
            assert not watch.look()
        assert told == []

    watched(story)


def test_a_sleep_of_the_machine_is_told_as_such() -> None:
    """Both lines of time went on, so nobody has set the clock; a second is not worth a word."""

    def story(clock: VirtualClock, watch: ClockWatch, told: list[Event]) -> None:
        clock.suspend(1_000)
        assert not watch.look()
        clock.suspend(300_000)
        assert watch.look() and not watch.look()
        assert told == [ClockStepped(by_ms=0, suspended_ms=300_000)]
        assert not watch.went_back

    watched(story)


def test_a_clock_that_was_set_while_the_machine_slept() -> None:
    """Both are told in one word."""

    def story(clock: VirtualClock, watch: ClockWatch, told: list[Event]) -> None:
        clock.suspend(300_000)
        clock.jump(-2 * MINUTE)
        assert watch.look() and watch.went_back
        assert told == [ClockStepped(by_ms=-2 * MINUTE, suspended_ms=300_000)]

    watched(story)


@pytest.mark.parametrize(
    ("steps", "back"),
    [
        ([-MINUTE], False),
        ([-MINUTE - 1], True),
        ([-40_000, -40_000], True),
        ([-40_000, 30_000, -40_000], False),
        ([-2 * MINUTE, 2 * MINUTE], False),
        ([3_600_000, -30_000], False),
        ([3_600_000, -3_600_000], True),
        ([-2 * MINUTE, 30_000], True),
    ],
)
def test_going_back_adds_up(steps: list[int], back: bool) -> None:
    """Small steps back together count as one; a step forward takes away from what lies before it, and from nothing later."""

    def story(clock: VirtualClock, watch: ClockWatch, _: list[Event]) -> None:
        for step in steps:
            clock.jump(step)
            watch.look()
        assert watch.went_back is back

    watched(story)


def test_what_is_settled_is_forgotten() -> None:
    """Put right once, it needs another step of more than a minute."""

    def story(clock: VirtualClock, watch: ClockWatch, _: list[Event]) -> None:
        clock.jump(-2 * MINUTE)
        watch.look()
        watch.settled()
        assert not watch.went_back
        clock.jump(-MINUTE)
        watch.look()
        assert not watch.went_back
        clock.jump(-1_000)
        watch.look()
        assert watch.went_back

    watched(story)
