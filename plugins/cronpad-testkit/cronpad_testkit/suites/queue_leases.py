"""The promises Q6 to Q11 of a queue store: what becomes of leases."""

from __future__ import annotations

from cronpad_core.api import Entry, Lease, LeaseState, QueueCounts, QueuedEntry, Storage
from cronpad_testkit.samples import T0, fence
from cronpad_testkit.suites.queue_lock import QueueLockSuite
from cronpad_testkit.suites.queue_steps import LEASE, claim, contents, due, lease_of, take_lock
from cronpad_testkit.suites.storage import on_storage

__all__ = ["QueueLeaseSuite"]


class QueueLeaseSuite(QueueLockSuite):
    """Settling, extending, reaping and requeueing; a part of ``QueueStoreSuite``."""

    @on_storage
    async def test_q6_ack_puts_the_retry_with_it(self, storage: Storage) -> None:
        """Q6: after an ack the entry is gone and its retry queued; a retry that is in flight is left alone."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(due(("a", 0), ("b", 0), ("c", 0)), term=1)
        a, b, c = await claim(queue, 1)
        assert await queue.ack(lease_of(a), retry=Entry(member="a-again", at_ms=T0 + 5_000)) is LeaseState.DONE
        assert await queue.ack(lease_of(b), retry=Entry(member="c", at_ms=T0 + 5_000)) is LeaseState.DONE
        entries = await contents(queue)
        assert {member: entry.in_flight for member, entry in entries.items()} == {"a-again": False, "c": True}
        assert entries["a-again"].at_ms == T0 + 5_000
        assert await queue.ack(lease_of(c)) is LeaseState.DONE
        assert await queue.counts() == QueueCounts(due=1, in_flight=0)

    @on_storage
    async def test_q6_ack_clears_the_copy_that_the_reaper_put_back(self, storage: Storage) -> None:
        """Q6: an ack under the fence that a reaped entry still carries removes it and puts the retry."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(due(("a", 0)), term=1)
        (a,) = await claim(queue, 1)
        assert await queue.reap(term=1, now_lease_ms=LEASE, now_ms=T0 + 70_000, limit=9) == ["a"]
        assert await queue.ack(lease_of(a), retry=Entry(member="r", at_ms=T0)) is LeaseState.DONE
        assert set(await contents(queue)) == {"r"}

    @on_storage
    async def test_q7_a_stale_fence_changes_nothing(self, storage: Storage) -> None:
        """Q7: ack, release and extend under an older, another or a never given fence answer ``LOST`` and change nothing."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(due(("a", 0)), term=1)
        (old,) = await claim(queue, 1)
        await queue.reap(term=1, now_lease_ms=LEASE, now_ms=T0 + 1, limit=9)
        (new,) = await claim(queue, 2, until=2 * LEASE)
        before = await queue.scan(after="", limit=10)
        for lease in (lease_of(old), Lease(member="a", fence=fence(77)), Lease(member="b", fence=new.fence)):
            assert await queue.ack(lease, retry=Entry(member="r", at_ms=T0)) is LeaseState.LOST
            assert await queue.release(lease, at_ms=T0, held_since_ms=T0) is LeaseState.LOST
            assert await queue.extend([lease], owner="x", until_ms=9 * LEASE) == {lease: LeaseState.LOST}
            assert await queue.scan(after="", limit=10) == before
        assert await queue.reap(term=1, now_lease_ms=2 * LEASE - 1, now_ms=T0, limit=9) == []
        assert await queue.ack(lease_of(new)) is LeaseState.DONE
        assert await queue.ack(lease_of(new)) is LeaseState.LOST

    @on_storage
    async def test_q8_extend_answers_for_each_lease(self, storage: Storage) -> None:
        """Q8: kept, taken back from the reaper under the same fence (even where a put moved it), or lost."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(due(("a", 0), ("b", 0), ("c", 0), ("d", 0)), term=1)
        a, b, c, d = await claim(queue, 1, until=10)
        await queue.extend([lease_of(a)], owner="here", until_ms=20)
        assert sorted(await queue.reap(term=1, now_lease_ms=10, now_ms=T0, limit=9)) == ["b", "c", "d"]
        await queue.put(due(("b", 500)), term=1)
        await queue.claim(term=1, owner="x", now_ms=T0, limit=1, lease_until_ms=99, fence_from=fence(9))
        answers = await queue.extend([lease_of(lease) for lease in (a, b, c, d)], owner="here", until_ms=1_000)
        assert answers == {
            lease_of(a): LeaseState.KEPT,
            lease_of(b): LeaseState.RECLAIMED,
            lease_of(c): LeaseState.LOST,
            lease_of(d): LeaseState.RECLAIMED,
        }
        assert await queue.reap(term=1, now_lease_ms=999, now_ms=T0, limit=9) == ["c"]
        held = {claimed.member: claimed.fence for claimed in await queue.claimed_since(owner="here", fence_from=0)}
        assert held == {"a": a.fence, "b": b.fence, "d": d.fence}
        assert await queue.extend([], owner="here", until_ms=5) == {}

    @on_storage
    async def test_q9_release_gives_back_and_keeps_since_when_it_was_held(self, storage: Storage) -> None:
        """Q9: a released entry is due again, not lost; ``held_since`` is set once and stays through claims, puts and reaping."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(due(("a", 0)), term=1)
        (first,) = await claim(queue, 1)
        assert first.held_since_ms is None
        assert await queue.release(lease_of(first), at_ms=T0 + 250, held_since_ms=T0 + 1) is LeaseState.DONE
        assert (await queue.peek(limit=1))[0] == QueuedEntry(member="a", at_ms=T0 + 250, in_flight=False, held_since_ms=T0 + 1)
        assert await queue.extend([lease_of(first)], owner="here", until_ms=9) == {lease_of(first): LeaseState.LOST}
        await queue.put(due(("a", 300)), term=1)
        (second,) = await claim(queue, 2)
        assert (second.due_at_ms, second.held_since_ms) == (T0 + 300, T0 + 1)
        assert await queue.release(lease_of(second), at_ms=T0 + 500, held_since_ms=T0 + 400) is LeaseState.DONE
        (third,) = await claim(queue, 3)
        await queue.reap(term=1, now_lease_ms=LEASE, now_ms=T0 + 600, limit=1)
        (fourth,) = await claim(queue, 4)
        assert (third.held_since_ms, fourth.held_since_ms) == (T0 + 1, T0 + 1)
        assert await queue.release(lease_of(fourth), at_ms=T0) is LeaseState.DONE
        assert (await contents(queue))["a"].held_since_ms == T0 + 1

    @on_storage
    async def test_q10_reap_moves_only_leases_that_have_ended(self, storage: Storage) -> None:
        """Q10: a lease that ends now has ended, one that ends later has not; at most ``limit`` of them, due now."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(due(("a", 0), ("b", 1), ("c", 2)), term=1)
        for number, until in enumerate((10, 11, 12)):
            await claim(queue, 1 + number, limit=1, until=until)
        assert await queue.reap(term=1, now_lease_ms=9, now_ms=T0, limit=9) == []
        moved = await queue.reap(term=1, now_lease_ms=11, now_ms=T0 + 5_000, limit=1)
        assert len(moved) == 1
        moved += await queue.reap(term=1, now_lease_ms=11, now_ms=T0 + 5_000, limit=9)
        assert sorted(moved) == ["a", "b"]
        assert {member: entry.at_ms for member, entry in (await contents(queue)).items() if not entry.in_flight} == {
            "a": T0 + 5_000,
            "b": T0 + 5_000,
        }

    @on_storage
    async def test_q11_requeue_spares_and_works_in_batches(self, storage: Storage) -> None:
        """Q11: every in-flight entry but the spared ones, at most ``limit`` at a time, due now, without their fences."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(due(("a", 0), ("b", 0), ("c", 0), ("d", 90_000)), term=1)
        claimed = {entry.member: entry for entry in await claim(queue, 1, until=10)}
        first = await queue.requeue(term=1, now_ms=T0 + 7, limit=1, spare={"b"})
        second = await queue.requeue(term=1, now_ms=T0 + 7, limit=9, spare={"b"})
        assert len(first) == 1
        assert sorted(first + second) == ["a", "c"]
        assert await queue.requeue(term=1, now_ms=T0 + 7, limit=9, spare=["b"]) == []
        entries = await contents(queue)
        assert {member for member, entry in entries.items() if entry.in_flight} == {"b"}
        assert (entries["a"].at_ms, entries["c"].at_ms, entries["d"].at_ms) == (T0 + 7, T0 + 7, T0 + 90_000)
        assert await queue.ack(lease_of(claimed["a"])) is LeaseState.LOST
