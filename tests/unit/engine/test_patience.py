"""Waiting out a store that fails, trust that ends by itself, and a bell that outlives its waiter."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from bench import Bench, HandClock, run

from cronpad_core.domain.errors import CommitUnknownError, StoreBusyError, StoreDamagedError, StoreError, TermRefusedError
from cronpad_core.domain.events import Event, StoreFailed, StoreRecovered
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.patience import Patience
from cronpad_core.engine.wakeup import WakeUp

CALM = 6_000
"""Long enough without a failure for an episode to be over."""


class Store:
    """Answers after a number of failures, and notes when it was asked."""

    def __init__(self, clock: HandClock, *errors: StoreError) -> None:
        self.clock, self.errors, self.asked = clock, list(errors), list[int]()

    async def call(self) -> str:
        """Fails, or answers."""
        self.asked.append(self.clock.boot)
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def patient(clock: HandClock) -> tuple[Patience, Authority, list[Event]]:
    """Patience, and what it tells."""
    events: list[Event] = []
    authority = Authority(clock)
    return Patience(clock, authority, events.append), authority, events


def test_a_store_is_asked_again_with_longer_and_longer_pauses() -> None:
    """100 ms, doubled each time, five seconds at most, for as long as it takes."""
    clock = HandClock()
    patience, _, events = patient(clock)
    store = Store(clock, *[StoreBusyError("busy")] * 12)
    assert run(patience.insist("history", store.call)) == "answer"
    pauses = [later - earlier for earlier, later in pairwise(store.asked)]
    assert pauses == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000]
    # It has answered once; the episode is over when it goes on answering.
    assert events == [StoreFailed(store="history", error="busy")]
    clock.move(CALM)
    patience.answered("history")
    assert events[1:] == [StoreRecovered(store="history", after_ms=sum(pauses) + CALM)]


def test_an_episode_is_told_once_however_many_call() -> None:
    """Many callers of one failing store are one episode; another store has its own."""
    clock = HandClock()
    patience, _, events = patient(clock)

    async def main() -> None:
        calls = [patience.insist("queue", Store(clock, *[StoreBusyError("busy")] * 3).call) for _ in range(20)]
        calls.append(patience.insist("control", Store(clock, StoreBusyError("full")).call))
        await asyncio.gather(*calls)

    run(main())
    assert sorted(event.store for event in events if isinstance(event, StoreFailed)) == ["control", "queue"]
    clock.move(CALM)
    for store in ("control", "queue", "queue"):
        patience.answered(store)
    assert sorted(event.store for event in events if isinstance(event, StoreRecovered)) == ["control", "queue"]
    assert patience.failing == frozenset()


def test_what_may_have_been_applied_is_remembered() -> None:
    """One unknown commit among the failures makes the answer one that may be our own echo."""
    clock = HandClock()
    patience, _, _ = patient(clock)
    plain = Store(clock, StoreBusyError("busy"))
    assert run(patience.insist_knowing("queue", plain.call)) == ("answer", False)
    unknown = Store(clock, CommitUnknownError("?"), StoreBusyError("busy"))
    assert run(patience.insist_knowing("queue", unknown.call)) == ("answer", True)


def test_an_attempt_is_one_call_and_its_error_is_the_callers() -> None:
    """A single attempt keeps the book and raises; refusals are no failures of the store."""
    clock = HandClock()
    patience, _, events = patient(clock)
    with pytest.raises(StoreBusyError):
        run(patience.attempt("queue", Store(clock, StoreBusyError("busy")).call))
    assert patience.failing == {"queue"}

    async def refused() -> None:
        raise TermRefusedError("another came")

    with pytest.raises(TermRefusedError):
        run(patience.insist("history", refused))
    assert len(events) == 1


def test_only_a_damaged_queue_is_doubted() -> None:
    """Damage of control or history says nothing about the queue's file; a queue that is busy is not damaged."""
    clock = HandClock()
    patience, authority, _ = patient(clock)
    patience.failed("history", StoreDamagedError("malformed"))
    patience.failed("queue", StoreBusyError("busy"))
    assert not authority.doubts.is_set()
    patience.failed("queue", StoreDamagedError("malformed"))
    assert authority.doubts.is_set()


def test_trust_ends_by_itself() -> None:
    """Trust is a point on the boot clock: a wall clock that jumps does not move it, and nobody has to take it away."""
    clock = HandClock()
    authority = Authority(clock)
    assert not authority.trusted()
    authority.grant(3, trust_until_ms=clock.boot + 1_000, lease_base_ms=7)
    clock.wall += 10**9
    assert authority.trusted() and authority.may_claim()
    assert authority.lease_ms() == clock.boot + 7 and authority.lease_ms(5) == 12
    clock.boot += 999
    assert authority.trusted()
    clock.boot += 1
    assert not authority.trusted() and authority.term == 3


def test_a_rebuild_forbids_claims_and_no_more() -> None:
    """While the queue is being refilled nothing is claimed, although the lock is trusted; a lost lock ends the rebuild."""
    clock = HandClock()
    authority = Authority(clock)
    authority.grant(1, trust_until_ms=clock.boot + 1_000, lease_base_ms=0)
    authority.rebuilding = True
    assert authority.trusted() and not authority.may_claim()
    authority.revoke()
    assert (authority.term, authority.trusted(), authority.rebuilding) == (None, False, False)
    assert authority.changed.is_set()


def test_a_renewal_is_no_change() -> None:
    """Only another term wakes those who wait for a change."""
    clock = HandClock()
    authority = Authority(clock)
    authority.grant(1, trust_until_ms=1, lease_base_ms=0)
    assert authority.changed.is_set()
    authority.changed.clear()
    authority.grant(1, trust_until_ms=2, lease_base_ms=0)
    assert not authority.changed.is_set()
    authority.grant(2, trust_until_ms=3, lease_base_ms=0)
    assert authority.changed.is_set()


def test_a_bell_that_nobody_waits_for_keeps_every_offer() -> None:
    """A wait that was broken off leaves no plan behind: what is offered before the next one rings, however late it is due."""

    async def main() -> bool:
        bell = WakeUp()
        waiting = asyncio.ensure_future(bell.wait(400, 60_000))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        bell.offer(500)
        return await bell.wait(10**15, 1)

    assert asyncio.run(main())


def test_a_bench_moves_time() -> None:
    """The workbench itself: sleeping moves both lines."""
    bench = Bench()
    before = bench.clock.wall, bench.clock.boot
    run(bench.clock.sleep(250))
    assert (bench.clock.wall, bench.clock.boot) == (before[0] + 250, before[1] + 250)
