"""The budget that all slots of the past share: how fast they start, and how many run at once."""

from __future__ import annotations

import pytest
from bench import HandClock

from cronpad_core.domain.occurrence import Occurrence, Trigger
from cronpad_core.engine.budget import ReplayBudget
from cronpad_core.engine.ticket import Holding

NOW = 1_767_225_600_000


def holding(number: int) -> Holding:
    occurrence = Occurrence(job_id=f"job_{number}", scheduled_at_ms=NOW, attempt=0, job_version=1, trigger=Trigger.BACKFILL)
    return Holding(occurrence=occurrence, fence=number, term=1)


@pytest.mark.parametrize(("rate", "every_ms"), [(1, 1_000), (20, 50), (1_000, 1)])
def test_instants_are_given_out_at_the_rate(rate: int, every_ms: int) -> None:
    """The first is now, each further one a share of a second later."""
    budget = ReplayBudget(HandClock(), rate=rate, workers=4)
    assert [budget.next_ms(NOW) - NOW for _ in range(4)] == [number * every_ms for number in range(4)]


def test_what_was_not_used_is_not_saved_up() -> None:
    """After a quiet time the next instant is now, and the one after it no sooner than before."""
    clock = HandClock()
    budget = ReplayBudget(clock, rate=10, workers=4)
    budget.next_ms(NOW)
    clock.move(60_000)
    assert [budget.next_ms(NOW + 60_000), budget.next_ms(NOW + 60_000)] == [NOW + 60_000, NOW + 60_100]


@pytest.mark.parametrize("by_ms", [-3_600_000, -300_000, 300_000])
def test_a_clock_that_is_set_does_not_stop_it(by_ms: int) -> None:
    """Room is counted in time that no one sets: at most a share of a second lies between now and the next instant."""
    budget = ReplayBudget(HandClock(), rate=20, workers=4)
    budget.next_ms(NOW)
    assert budget.next_ms(NOW + by_ms) == NOW + by_ms + 50


@pytest.mark.parametrize(("workers", "most"), [(1, 1), (2, 1), (3, 1), (4, 2), (64, 32)])
def test_at_most_half_of_the_workers(workers: int, most: int) -> None:
    """Half of the workers stay free for what is due now; one may always run."""
    budget = ReplayBudget(HandClock(), rate=1_000, workers=workers)
    assert budget.most == most
    assert [budget.enter(holding(number)) for number in range(most + 1)] == [True] * most + [False]


def test_who_leaves_makes_room_once() -> None:
    """Leaving twice, or without having entered, makes no more room than one has taken."""
    budget = ReplayBudget(HandClock(), rate=20, workers=2)
    first = holding(1)
    assert budget.enter(first)
    budget.leave(holding(2))
    assert not budget.enter(holding(3))
    budget.leave(first)
    budget.leave(first)
    assert [budget.enter(holding(4)), budget.enter(holding(5))] == [True, False]
