"""Random operations on a queue store and on a model of it; after each one both must hold the same, in the same order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from cronpad_core.api import Claimed, Entry, Lease, LeaseState, LockRow, QueueStore, TermRefusedError
from cronpad_testkit.samples import T0, fence
from cronpad_testkit.suites.queue_model import QueueModel
from cronpad_testkit.suites.storage import BuildStorage, NewState

__all__ = ["QueueMachine", "check_against_model"]

_T = TypeVar("_T")
_MEMBERS = ["a", "B", "job_1|5|0|1|s", "ü%_'"]
_OWNERS = st.sampled_from(["here", "there"])
_OFFSETS = st.sampled_from([-1, 0, 0, 1, 7, 40])
_LIMITS = st.integers(0, 4)
_PICKS = st.integers(0, 5)
_ENTRIES = st.builds(lambda member, offset: (member, offset), st.sampled_from(_MEMBERS), _OFFSETS)


def check_against_model(new_state: NewState, *, examples: int, steps: int, shrink: bool = True) -> None:
    """Runs the machine; ``CRONPAD_TESTKIT_EXAMPLES`` overrides ``examples``. Without ``shrink`` a failure is only raised."""

    class Machine(QueueMachine):
        def make_state(self) -> BuildStorage:
            return new_state()

    run = settings(
        max_examples=int(os.environ.get("CRONPAD_TESTKIT_EXAMPLES", examples)),
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    if not shrink:
        run = settings(run, phases=[Phase.generate], database=None, derandomize=True)
    run_state_machine_as_test(Machine, settings=run)


class QueueMachine(RuleBasedStateMachine):
    """One dispatcher after another on one queue: put, claim, settle, extend, reap, requeue, lock operations, time."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = QueueModel()
        self.wall, self.lease_time, self.fences = T0, 1_000, 0
        self.leases: list[Lease] = []
        build: BuildStorage = self.make_state()
        self.storage = build()
        self.run(self.start())

    def make_state(self) -> BuildStorage:
        """To be overridden: a new, empty state."""
        raise NotImplementedError

    @property
    def queue(self) -> QueueStore:
        return self.storage.queue

    def run(self, call: Coroutine[Any, Any, _T]) -> _T:
        return self.runner.run(call)

    async def start(self) -> None:
        await self.storage.open()
        await self.storage.prepare()
        await self.queue.open()

    def teardown(self) -> None:
        self.run(self.storage.close())
        self.runner.close()

    def lease(self, pick: int) -> Lease:
        """Any lease that was ever given out, the newest most often."""
        return self.leases[-1 - pick % len(self.leases)] if self.leases else Lease(member="a", fence=1)

    def refused(self, call: Coroutine[Any, Any, object]) -> None:
        with pytest.raises(TermRefusedError):
            self.run(call)

    # ------------------------------------------------------------------------------------------------ time and the lock

    @initialize()
    def begin(self) -> None:
        """Most operations need a lock, so there is one to begin with."""
        self.take()

    def take(self) -> None:
        """Another dispatcher takes the lock, whatever stood there."""
        row = LockRow(token=f"t{self.model.term + 1}", term=self.model.term + 1, expires_ms=self.lease_time + 15)
        look = self.run(self.queue.look())
        assert self.run(self.queue.acquire(row, seen=look, boot_id="b", boot_base_ms=0, epoch="e", guard=lambda: True))
        self.model.lock, self.model.term, self.fences = row, row.term, 0

    @rule(delta=st.sampled_from([1, 5, 16]), jump=st.sampled_from([0, 0, -30, 5_000]))
    def time_passes(self, delta: int, jump: int) -> None:
        """Both clocks go on; the wall clock may jump."""
        self.wall += delta + jump
        self.lease_time += delta

    @rule(change=st.sampled_from(["take", "renew", "not ours", "another term", "stop", "reassert", "refuse"]))
    def lock(self, change: str) -> None:
        """Q5, Q12, Q13: one of the things that happen to a lock; there is always one afterwards."""
        there = self.model.lock
        assert there is not None
        if change == "take":
            self.take()
        elif change == "stop":
            self._stop(there)
        elif change == "reassert":
            self._reassert(there)
        elif change == "refuse":
            self._refuse()
        else:
            token = "x" if change == "not ours" else there.token
            term = 99 if change == "another term" else there.term
            row = LockRow(token=token, term=term, expires_ms=self.lease_time + 15)
            done = self.run(self.queue.renew(row, now_lease_ms=self.lease_time, heartbeat_ms=self.wall))
            assert done == (change == "renew" and there.expires_ms > self.lease_time)
            self.model.lock = row if done else there

    def _stop(self, there: LockRow) -> None:
        assert not self.run(self.queue.release_lock(token="x", term=there.term))
        assert self.run(self.queue.release_lock(token=there.token, term=there.term))
        self.model.lock = None
        self._refuse()
        self.refused(self.queue.put([Entry(member="a", at_ms=0)], term=there.term))
        self.take()

    def _reassert(self, there: LockRow) -> None:
        row = LockRow(token=there.token, term=there.term, expires_ms=self.lease_time + 15)
        for wanted in (replace(row, term=there.term - 1), row):
            done = self.run(self.queue.reassert(wanted, boot_id="b", boot_base_ms=0, epoch="e", guard=lambda: True))
            assert done == (wanted is row)
        self.model.lock = row

    def _refuse(self) -> None:
        """Q5: nobody else's term does anything."""
        for term in (self.model.term - 1, self.model.term + 1):
            self.refused(self.queue.put([Entry(member="a", at_ms=0)], term=term))
            self.refused(
                self.queue.claim(
                    term=term, owner="x", now_ms=self.wall, limit=9, lease_until_ms=9, fence_from=fence(1, term=term)
                )
            )
            self.refused(self.queue.reap(term=term, now_lease_ms=10**9, now_ms=0, limit=9))
            self.refused(self.queue.requeue(term=term, now_ms=0, limit=9, spare=()))

    # ------------------------------------------------------------------------------------------------------- operations

    @rule(pairs=st.lists(_ENTRIES, min_size=1, max_size=4))
    def put(self, pairs: list[tuple[str, int]]) -> None:
        """Q1."""
        entries = [Entry(member=member, at_ms=self.wall + offset) for member, offset in pairs]
        assert self.run(self.queue.put(entries, term=self.model.term)) == self.model.put(entries)

    @rule(limit=_LIMITS, owner=_OWNERS, lasts=st.sampled_from([0, 10, 60]))
    def claim(self, limit: int, owner: str, lasts: int) -> None:
        """Q2 to Q5; fences grow."""
        first, until = fence(self.fences + 1, term=self.model.term), self.lease_time + lasts
        call = self.queue.claim(
            term=self.model.term, owner=owner, now_ms=self.wall, limit=limit, lease_until_ms=until, fence_from=first
        )
        got: list[Claimed] = self.run(call)
        fences = [claimed.fence for claimed in got]
        assert fences == sorted(set(fences))
        assert all(number > max((lease.fence for lease in self.leases), default=0) for number in fences)
        answer = [(claimed.member, claimed.due_at_ms, claimed.held_since_ms) for claimed in got]
        assert answer == self.model.claim(self.wall, limit, until, owner, fences)
        self.fences += len(got)
        self.leases += [Lease(member=claimed.member, fence=claimed.fence) for claimed in got]
        if fences:
            assert self.run(self.queue.claimed_since(owner=owner, fence_from=fences[0])) == got

    @rule(pick=_PICKS, retry=st.none() | _ENTRIES)
    def ack(self, pick: int, retry: tuple[str, int] | None) -> None:
        """Q6, Q7."""
        entry = None if retry is None else Entry(member=retry[0], at_ms=self.wall + retry[1])
        lease = self.lease(pick)
        assert self.run(self.queue.ack(lease, retry=entry)) is self.model.ack(lease, entry)

    @rule(picks=st.sets(_PICKS, min_size=1, max_size=4), owner=_OWNERS, lasts=st.sampled_from([5, 60]))
    def extend(self, picks: set[int], owner: str, lasts: int) -> None:
        """Q8."""
        leases = list(dict.fromkeys(self.lease(pick) for pick in sorted(picks)))
        answers = self.run(self.queue.extend(leases, owner=owner, until_ms=self.lease_time + lasts))
        expected: dict[Lease, LeaseState] = {lease: self.model.extend(lease, owner, self.lease_time + lasts) for lease in leases}
        assert dict(answers) == expected

    @rule(pick=_PICKS, offset=_OFFSETS, held=st.booleans())
    def release(self, pick: int, offset: int, held: bool) -> None:
        """Q7, Q9."""
        lease, at, since = self.lease(pick), self.wall + offset, self.wall if held else None
        answer = self.run(self.queue.release(lease, at_ms=at, held_since_ms=since))
        assert answer is self.model.release(lease, at, since)

    @rule(limit=_LIMITS)
    def reap(self, limit: int) -> None:
        """Q10: which of the ended leases come first is the backend's choice."""
        call = self.queue.reap(term=self.model.term, now_lease_ms=self.lease_time, now_ms=self.wall, limit=limit)
        members, ended = self.run(call), self.model.ended(self.lease_time)
        assert set(members) <= ended
        assert len(members) == len(set(members)) == min(limit, len(ended))
        self.model.put_back(members, self.wall, keep_fence=True)

    @rule(limit=_LIMITS, spare=st.sets(st.sampled_from(_MEMBERS)))
    def requeue(self, limit: int, spare: set[str]) -> None:
        """Q11: which come first is the backend's choice."""
        call = self.queue.requeue(term=self.model.term, now_ms=self.wall, limit=limit, spare=spare)
        members, free = self.run(call), set(self.model.inflight) - spare
        assert set(members) <= free
        assert len(members) == len(set(members)) == min(limit, len(free))
        self.model.put_back(members, self.wall, keep_fence=False)

    @rule(limit=st.integers(1, 4), owner=_OWNERS, then=st.sampled_from(["claim", "extend", "ack"]), pick=_PICKS)
    def come_late(self, limit: int, owner: str, then: str, pick: int) -> None:
        """Leases end and are reaped; then another claims, or a holder comes back."""
        self.time_passes(delta=61, jump=0)
        self.reap(limit=limit)
        if then == "claim":
            self.claim(limit=limit, owner=owner, lasts=60)
        elif then == "extend":
            self.extend(picks={pick, 0, 1}, owner=owner, lasts=60)
        else:
            self.ack(pick=pick, retry=None)

    # --------------------------------------------------------------------------------------------------------- equality

    @invariant()
    def equals_the_model(self) -> None:
        """S1 and contents, exactly, order included."""
        self.run(self._compare())

    async def _compare(self) -> None:
        model, queue = self.model, self.queue
        shown, after = [], ""
        while page := await queue.scan(after=after, limit=3):
            assert len(page) <= 3
            shown += page
            after = page[-1].member
        assert [replace(row, at_ms=0) if row.in_flight else row for row in shown] == model.scan()
        assert [row.member for row in await queue.peek(limit=4)] == model.order()[:4]
        assert await queue.earliest() == (min(entry.at for entry in model.due.values()) if model.due else None)
        assert await queue.contains([*_MEMBERS, "x"]) == frozenset({*model.due, *model.inflight})
        counts = await queue.counts()
        assert (counts.due, counts.in_flight) == (len(model.due), len(model.inflight))
        look = await queue.look()
        assert (look.lock, look.term) == (model.lock, model.term)
