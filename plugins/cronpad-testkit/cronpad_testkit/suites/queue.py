"""The promises Q1 to Q14 of a queue store."""

from __future__ import annotations

import asyncio

import pytest

from cronpad_core.api import Claimed, Entry, Lease, LeaseState, QueueCounts, QueuedEntry, QueueStore, Storage, TermRefusedError
from cronpad_testkit.samples import T0, fence
from cronpad_testkit.suites.queue_lock import QueueLockSuite, take_lock
from cronpad_testkit.suites.queue_machine import check_against_model
from cronpad_testkit.suites.storage import BuildStorage, NewState, on_state, on_storage, opened

__all__ = ["QueueStoreSuite"]

_LEASE = 60_000


def _entries(*pairs: tuple[str, int]) -> list[Entry]:
    return [Entry(member=member, at_ms=T0 + offset) for member, offset in pairs]


async def _claim(
    queue: QueueStore, number: int, *, now: int = 1_000, limit: int = 10, owner: str = "here", until: int = _LEASE
) -> list[Claimed]:
    return await queue.claim(term=1, owner=owner, now_ms=T0 + now, limit=limit, lease_until_ms=until, fence_from=fence(number))


def _lease(claimed: Claimed) -> Lease:
    return Lease(member=claimed.member, fence=claimed.fence)


async def _all(queue: QueueStore) -> dict[str, QueuedEntry]:
    return {entry.member: entry for entry in await queue.scan(after="", limit=1_000)}


class QueueStoreSuite(QueueLockSuite):
    """Adopt with the fixture ``new_state``; see the README of cronpad-testkit.

    ``examples`` and ``steps`` size the comparison with a model; ``CRONPAD_TESTKIT_EXAMPLES`` overrides the first.
    """

    examples: int = 150
    steps: int = 40

    @on_storage
    async def test_q1_put_twice_moves_and_never_duplicates(self, storage: Storage) -> None:
        """Q1: a second put moves the entry, forwards and back, within one call too; there is one entry all the time."""
        queue = storage.queue
        await take_lock(queue)
        for offset in (500, 900, 100):
            assert await queue.put(_entries(("m", offset)), term=1) == frozenset()
            assert [entry.at_ms for entry in await queue.scan(after="", limit=10)] == [T0 + offset]
            assert await queue.earliest() == T0 + offset
        await queue.put(_entries(("m", 7), ("m", 9)), term=1)
        assert [entry.at_ms for entry in await queue.peek(limit=10)] == [T0 + 9]

    @on_storage
    async def test_q1_put_leaves_an_entry_in_flight_alone(self, storage: Storage) -> None:
        """Q1: putting a member that is in flight is answered with it, changes nothing, and the others are put."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(_entries(("a", 0)), term=1)
        claimed = await _claim(queue, 1)
        assert await queue.put(_entries(("a", 0), ("b", 5)), term=1) == frozenset({"a"})
        entries = await _all(queue)
        assert {member: entry.in_flight for member, entry in entries.items()} == {"a": True, "b": False}
        assert await queue.ack(_lease(claimed[0])) is LeaseState.DONE
        assert set(await _all(queue)) == {"b"}

    @on_storage
    async def test_q2_claims_come_in_order_of_due_time_and_member(self, storage: Storage) -> None:
        """Q2: (due time, member), members compared by code point, over several claims."""
        queue = storage.queue
        await take_lock(queue)
        members = ["b", "B", "a", "é", "z", "_", "10", "9", "ａ", "𝒶"]
        pairs = [(f"{member}{offset}", offset) for member in members for offset in (3, 1, 2)]
        await queue.put(_entries(*pairs), term=1)
        expected = [member for member, _ in sorted(pairs, key=lambda pair: (pair[1], pair[0]))]
        assert [entry.member for entry in await queue.peek(limit=100)] == expected
        got = await _claim(queue, 1, limit=7)
        got += await _claim(queue, 8, limit=100)
        assert [claimed.member for claimed in got] == expected
        assert [claimed.due_at_ms for claimed in got] == sorted(T0 + offset for _, offset in pairs)

    @on_storage
    async def test_q3_at_most_limit_and_only_what_is_due(self, storage: Storage) -> None:
        """Q3: never more than ``limit``, nothing that is due later; due exactly now is due."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(_entries(("a", 0), ("b", 10), ("c", 11), ("d", -5)), term=1)
        assert await _claim(queue, 1, now=10, limit=0) == []
        assert [claimed.member for claimed in await _claim(queue, 1, now=10, limit=2)] == ["d", "a"]
        assert [claimed.member for claimed in await _claim(queue, 3, now=10)] == ["b"]
        assert await _claim(queue, 4, now=10) == []
        assert await queue.earliest() == T0 + 11

    @on_state
    async def test_q4_two_claimers_never_share_an_entry(self, build: BuildStorage) -> None:
        """Q4: of two claims at once each entry goes to one, and none is left out (capability ``shared``)."""
        self.needs("shared")
        async with opened(build) as one, opened(build) as two:
            await take_lock(one.queue)
            await one.queue.put(_entries(*((f"m{number:03}", 0) for number in range(200))), term=1)
            claims = [_claim((one, two)[turn % 2].queue, 1 + 20 * turn, limit=20, owner=f"owner{turn % 2}") for turn in range(10)]
            got = [claimed for answer in await asyncio.gather(*claims) for claimed in answer]
            assert sorted(claimed.member for claimed in got) == [f"m{number:03}" for number in range(200)]
            assert len({claimed.fence for claimed in got}) == 200

    @on_storage
    async def test_q5_a_claim_can_be_read_back(self, storage: Storage) -> None:
        """Q5: ``claimed_since`` answers what a claim of this owner answered, from that fence on; a refused claim left nothing."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(_entries(("a", 1), ("b", 2), ("c", 3)), term=1)
        first = await _claim(queue, 1, limit=1)
        other = await _claim(queue, 2, limit=1, owner="there")
        last = await _claim(queue, 3, limit=1)
        assert await queue.claimed_since(owner="here", fence_from=0) == first + last
        assert await queue.claimed_since(owner="here", fence_from=last[0].fence) == last
        assert await queue.claimed_since(owner="there", fence_from=0) == other
        assert await queue.claimed_since(owner="nobody", fence_from=0) == []

    @on_storage
    async def test_q5_another_term_is_refused_and_leaves_no_trace(self, storage: Storage) -> None:
        """Q5: put, claim, reap and requeue under a term that is not the lock's raise ``TermRefusedError`` and change nothing."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(_entries(("a", 0), ("b", 0)), term=1)
        await _claim(queue, 1, limit=1)
        before = await queue.scan(after="", limit=10)
        for term in (0, 2):
            with pytest.raises(TermRefusedError):
                await queue.put(_entries(("c", 0)), term=term)
            with pytest.raises(TermRefusedError):
                await queue.claim(term=term, owner="x", now_ms=T0 + 9, limit=9, lease_until_ms=9, fence_from=fence(9, term=term))
            with pytest.raises(TermRefusedError):
                await queue.reap(term=term, now_lease_ms=_LEASE, now_ms=T0, limit=9)
            with pytest.raises(TermRefusedError):
                await queue.requeue(term=term, now_ms=T0, limit=9, spare=())
            assert await queue.scan(after="", limit=10) == before

    @on_storage
    async def test_q6_ack_puts_the_retry_with_it(self, storage: Storage) -> None:
        """Q6: after an ack the entry is gone and its retry queued; a retry that is in flight is left alone."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(_entries(("a", 0), ("b", 0), ("c", 0)), term=1)
        a, b, c = await _claim(queue, 1)
        assert await queue.ack(_lease(a), retry=Entry(member="a-again", at_ms=T0 + 5_000)) is LeaseState.DONE
        assert await queue.ack(_lease(b), retry=Entry(member="c", at_ms=T0 + 5_000)) is LeaseState.DONE
        entries = await _all(queue)
        assert {member: entry.in_flight for member, entry in entries.items()} == {"a-again": False, "c": True}
        assert entries["a-again"].at_ms == T0 + 5_000
        assert await queue.ack(_lease(c)) is LeaseState.DONE
        assert await queue.counts() == QueueCounts(due=1, in_flight=0)

    @on_storage
    async def test_q6_ack_clears_the_copy_that_the_reaper_put_back(self, storage: Storage) -> None:
        """Q6: an ack under the fence that a reaped entry still carries removes it and puts the retry."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(_entries(("a", 0)), term=1)
        (a,) = await _claim(queue, 1)
        assert await queue.reap(term=1, now_lease_ms=_LEASE, now_ms=T0 + 70_000, limit=9) == ["a"]
        assert await queue.ack(_lease(a), retry=Entry(member="r", at_ms=T0)) is LeaseState.DONE
        assert set(await _all(queue)) == {"r"}

    @on_storage
    async def test_q7_a_stale_fence_changes_nothing(self, storage: Storage) -> None:
        """Q7: ack, release and extend under an older, another or a never given fence answer ``LOST`` and change nothing."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(_entries(("a", 0)), term=1)
        (old,) = await _claim(queue, 1)
        await queue.reap(term=1, now_lease_ms=_LEASE, now_ms=T0 + 1, limit=9)
        (new,) = await _claim(queue, 2, until=2 * _LEASE)
        before = await queue.scan(after="", limit=10)
        for lease in (_lease(old), Lease(member="a", fence=fence(77)), Lease(member="b", fence=new.fence)):
            assert await queue.ack(lease, retry=Entry(member="r", at_ms=T0)) is LeaseState.LOST
            assert await queue.release(lease, at_ms=T0, held_since_ms=T0) is LeaseState.LOST
            assert await queue.extend([lease], owner="x", until_ms=9 * _LEASE) == {lease: LeaseState.LOST}
            assert await queue.scan(after="", limit=10) == before
        assert await queue.reap(term=1, now_lease_ms=2 * _LEASE - 1, now_ms=T0, limit=9) == []
        assert await queue.ack(_lease(new)) is LeaseState.DONE
        assert await queue.ack(_lease(new)) is LeaseState.LOST

    @on_storage
    async def test_q8_extend_answers_for_each_lease(self, storage: Storage) -> None:
        """Q8: kept, taken back from the reaper under the same fence (even where a put moved it), or lost."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(_entries(("a", 0), ("b", 0), ("c", 0), ("d", 0)), term=1)
        a, b, c, d = await _claim(queue, 1, until=10)
        await queue.extend([_lease(a)], owner="here", until_ms=20)
        assert sorted(await queue.reap(term=1, now_lease_ms=10, now_ms=T0, limit=9)) == ["b", "c", "d"]
        await queue.put(_entries(("b", 500)), term=1)
        await queue.claim(term=1, owner="x", now_ms=T0, limit=1, lease_until_ms=99, fence_from=fence(9))
        answers = await queue.extend([_lease(lease) for lease in (a, b, c, d)], owner="here", until_ms=1_000)
        assert answers == {
            _lease(a): LeaseState.KEPT,
            _lease(b): LeaseState.RECLAIMED,
            _lease(c): LeaseState.LOST,
            _lease(d): LeaseState.RECLAIMED,
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
        await queue.put(_entries(("a", 0)), term=1)
        (first,) = await _claim(queue, 1)
        assert first.held_since_ms is None
        assert await queue.release(_lease(first), at_ms=T0 + 250, held_since_ms=T0 + 1) is LeaseState.DONE
        assert (await queue.peek(limit=1))[0] == QueuedEntry(member="a", at_ms=T0 + 250, in_flight=False, held_since_ms=T0 + 1)
        assert await queue.extend([_lease(first)], owner="here", until_ms=9) == {_lease(first): LeaseState.LOST}
        await queue.put(_entries(("a", 300)), term=1)
        (second,) = await _claim(queue, 2)
        assert (second.due_at_ms, second.held_since_ms) == (T0 + 300, T0 + 1)
        assert await queue.release(_lease(second), at_ms=T0 + 500, held_since_ms=T0 + 400) is LeaseState.DONE
        (third,) = await _claim(queue, 3)
        await queue.reap(term=1, now_lease_ms=_LEASE, now_ms=T0 + 600, limit=1)
        (fourth,) = await _claim(queue, 4)
        assert (third.held_since_ms, fourth.held_since_ms) == (T0 + 1, T0 + 1)
        assert await queue.release(_lease(fourth), at_ms=T0) is LeaseState.DONE
        assert (await _all(queue))["a"].held_since_ms == T0 + 1

    @on_storage
    async def test_q10_reap_moves_only_leases_that_have_ended(self, storage: Storage) -> None:
        """Q10: a lease that ends now has ended, one that ends later has not; at most ``limit`` of them, due now."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(_entries(("a", 0), ("b", 1), ("c", 2)), term=1)
        for number, until in enumerate((10, 11, 12)):
            await _claim(queue, 1 + number, limit=1, until=until)
        assert await queue.reap(term=1, now_lease_ms=9, now_ms=T0, limit=9) == []
        moved = await queue.reap(term=1, now_lease_ms=11, now_ms=T0 + 5_000, limit=1)
        assert len(moved) == 1
        moved += await queue.reap(term=1, now_lease_ms=11, now_ms=T0 + 5_000, limit=9)
        assert sorted(moved) == ["a", "b"]
        assert {member: entry.at_ms for member, entry in (await _all(queue)).items() if not entry.in_flight} == {
            "a": T0 + 5_000,
            "b": T0 + 5_000,
        }

    @on_storage
    async def test_q11_requeue_spares_and_works_in_batches(self, storage: Storage) -> None:
        """Q11: every in-flight entry but the spared ones, at most ``limit`` at a time, due now, without their fences."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(_entries(("a", 0), ("b", 0), ("c", 0), ("d", 90_000)), term=1)
        claimed = {entry.member: entry for entry in await _claim(queue, 1, until=10)}
        first = await queue.requeue(term=1, now_ms=T0 + 7, limit=1, spare={"b"})
        second = await queue.requeue(term=1, now_ms=T0 + 7, limit=9, spare={"b"})
        assert len(first) == 1
        assert sorted(first + second) == ["a", "c"]
        assert await queue.requeue(term=1, now_ms=T0 + 7, limit=9, spare=["b"]) == []
        entries = await _all(queue)
        assert {member for member, entry in entries.items() if entry.in_flight} == {"b"}
        assert (entries["a"].at_ms, entries["c"].at_ms, entries["d"].at_ms) == (T0 + 7, T0 + 7, T0 + 90_000)
        assert await queue.ack(_lease(claimed["a"])) is LeaseState.LOST

    @on_storage
    async def test_q14_a_malformed_member_is_an_entry_like_any_other(self, storage: Storage) -> None:
        """Q14: texts that name no occurrence, quotes and wildcards among them, are handed out and can be acknowledged."""
        queue = storage.queue
        await take_lock(queue)
        members = ["not a member", "|", "a|b|c|d|e", "'; drop table due; --", "100%_", '"[1]"', " ", "\n", "ü" * 500]
        await queue.put(_entries(*((member, 0) for member in members)), term=1)
        assert await queue.contains([*members, "missing"]) == frozenset(members)
        claimed = await _claim(queue, 1, limit=100)
        assert [entry.member for entry in claimed] == sorted(members)
        answers = await queue.extend([_lease(entry) for entry in claimed], owner="here", until_ms=1)
        assert set(answers.values()) == {LeaseState.KEPT}
        for entry in claimed:
            assert await queue.ack(_lease(entry)) is LeaseState.DONE
        assert await queue.counts() == QueueCounts(due=0, in_flight=0)

    @on_storage
    async def test_reading_shows_what_is_there(self, storage: Storage) -> None:
        """``scan`` pages through all in the order of members; ``peek``, ``earliest``, ``contains`` and ``counts`` agree."""
        queue = storage.queue
        await take_lock(queue)
        assert await queue.earliest() is None
        assert await queue.scan(after="", limit=5) == []
        await queue.put(_entries(*((f"m{number:02}", 100 - number) for number in range(25))), term=1)
        claimed = await _claim(queue, 1, limit=4)
        pages, after = [], ""
        while page := await queue.scan(after=after, limit=10):
            pages.append(page)
            after = page[-1].member
        assert [len(page) for page in pages] == [10, 10, 5]
        shown = [entry for page in pages for entry in page]
        assert [entry.member for entry in shown] == [f"m{number:02}" for number in range(25)]
        assert {(entry.member, entry.fence, entry.owner) for entry in shown if entry.in_flight} == {
            (entry.member, entry.fence, "here") for entry in claimed
        }
        assert {(entry.fence, entry.owner) for entry in shown if not entry.in_flight} == {(None, None)}
        assert [entry.member for entry in await queue.peek(limit=2)] == ["m20", "m19"]
        assert await queue.earliest() == T0 + 80
        assert await queue.contains({"m24", "m00", "x"}) == frozenset({"m24", "m00"})
        assert await queue.contains([]) == frozenset()
        assert await queue.counts() == QueueCounts(due=21, in_flight=4)

    def test_the_store_equals_a_model_whatever_is_done_to_it(self, new_state: NewState) -> None:
        """Q1 to Q13: after each of many random operations the contents, their order and each answer are the model's."""
        check_against_model(new_state, examples=self.examples, steps=self.steps)
