"""The promises Q1 to Q14 of a queue store."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from cronpad_core.api import LeaseState, QueueCounts, Storage, TermRefusedError
from cronpad_testkit.samples import T0, fence
from cronpad_testkit.suites.queue_leases import QueueLeaseSuite
from cronpad_testkit.suites.queue_machine import check_against_model
from cronpad_testkit.suites.queue_steps import LEASE, claim, contents, due, lease_of, take_lock
from cronpad_testkit.suites.storage import BuildStorage, NewState, on_state, on_storage, opened

__all__ = ["QueueStoreSuite"]


class QueueStoreSuite(QueueLeaseSuite):
    """Adopt with the fixture ``new_state``; see the README of cronpad-testkit.

    ``examples`` and ``steps`` size the comparison with a model; ``CRONPAD_TESTKIT_EXAMPLES`` overrides the first.
    """

    examples: ClassVar[int] = 150
    steps: ClassVar[int] = 40

    @on_storage
    async def test_q1_put_twice_moves_and_never_duplicates(self, storage: Storage) -> None:
        """Q1: a second put moves the entry, forwards and back, within one call too; there is one entry all the time."""
        queue = storage.queue
        await take_lock(queue)
        for offset in (500, 900, 100):
            assert await queue.put(due(("m", offset)), term=1) == frozenset()
            assert [entry.at_ms for entry in await queue.scan(after="", limit=10)] == [T0 + offset]
            assert await queue.earliest() == T0 + offset
        await queue.put(due(("m", 7), ("m", 9)), term=1)
        assert [entry.at_ms for entry in await queue.peek(limit=10)] == [T0 + 9]

    @on_storage
    async def test_q1_put_leaves_an_entry_in_flight_alone(self, storage: Storage) -> None:
        """Q1: putting a member that is in flight is answered with it, changes nothing, and the others are put."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(due(("a", 0)), term=1)
        claimed = await claim(queue, 1)
        assert await queue.put(due(("a", 0), ("b", 5)), term=1) == frozenset({"a"})
        entries = await contents(queue)
        assert {member: entry.in_flight for member, entry in entries.items()} == {"a": True, "b": False}
        assert await queue.ack(lease_of(claimed[0])) is LeaseState.DONE
        assert set(await contents(queue)) == {"b"}

    @on_storage
    async def test_q2_claims_come_in_order_of_due_time_and_member(self, storage: Storage) -> None:
        """Q2: (due time, member), members compared by code point, over several claims."""
        queue = storage.queue
        await take_lock(queue)
        members = ["b", "B", "a", "é", "z", "_", "10", "9", "ａ", "𝒶"]
        pairs = [(f"{member}{offset}", offset) for member in members for offset in (3, 1, 2)]
        await queue.put(due(*pairs), term=1)
        expected = [member for member, _ in sorted(pairs, key=lambda pair: (pair[1], pair[0]))]
        assert [entry.member for entry in await queue.peek(limit=100)] == expected
        got = await claim(queue, 1, limit=7)
        got += await claim(queue, 8, limit=100)
        assert [claimed.member for claimed in got] == expected
        assert [claimed.due_at_ms for claimed in got] == sorted(T0 + offset for _, offset in pairs)

    @on_storage
    async def test_q3_at_most_limit_and_only_what_is_due(self, storage: Storage) -> None:
        """Q3: never more than ``limit``, nothing that is due later; due exactly now is due."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(due(("a", 0), ("b", 10), ("c", 11), ("d", -5)), term=1)
        assert await claim(queue, 1, now=10, limit=0) == []
        assert [claimed.member for claimed in await claim(queue, 1, now=10, limit=2)] == ["d", "a"]
        assert [claimed.member for claimed in await claim(queue, 3, now=10)] == ["b"]
        assert await claim(queue, 4, now=10) == []
        assert await queue.earliest() == T0 + 11

    @on_state
    async def test_q4_two_claimers_never_share_an_entry(self, build: BuildStorage) -> None:
        """Q4: of two claims at once each entry goes to one, and none is left out (capability ``shared``)."""
        self.needs("shared")
        async with opened(build) as one, opened(build) as two:
            await take_lock(one.queue)
            await one.queue.put(due(*((f"m{number:03}", 0) for number in range(200))), term=1)
            claims = [claim((one, two)[turn % 2].queue, 1 + 20 * turn, limit=20, owner=f"owner{turn % 2}") for turn in range(10)]
            got = [claimed for answer in await asyncio.gather(*claims) for claimed in answer]
            assert sorted(claimed.member for claimed in got) == [f"m{number:03}" for number in range(200)]
            assert len({claimed.fence for claimed in got}) == 200

    @on_storage
    async def test_q5_a_claim_can_be_read_back(self, storage: Storage) -> None:
        """Q5: ``claimed_since`` answers what a claim of this owner answered, from that fence on; a refused claim left nothing."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(due(("a", 1), ("b", 2), ("c", 3)), term=1)
        first = await claim(queue, 1, limit=1)
        other = await claim(queue, 2, limit=1, owner="there")
        last = await claim(queue, 3, limit=1)
        assert await queue.claimed_since(owner="here", fence_from=0) == first + last
        assert await queue.claimed_since(owner="here", fence_from=last[0].fence) == last
        assert await queue.claimed_since(owner="there", fence_from=0) == other
        assert await queue.claimed_since(owner="nobody", fence_from=0) == []

    @on_storage
    async def test_q5_another_term_is_refused_and_leaves_no_trace(self, storage: Storage) -> None:
        """Q5: put, claim, reap and requeue under a term that is not the lock's raise ``TermRefusedError`` and change nothing."""
        queue = storage.queue
        await take_lock(queue)
        await queue.put(due(("a", 0), ("b", 0)), term=1)
        await claim(queue, 1, limit=1)
        before = await queue.scan(after="", limit=10)
        for term in (0, 2):
            with pytest.raises(TermRefusedError):
                await queue.put(due(("c", 0)), term=term)
            with pytest.raises(TermRefusedError):
                await queue.claim(term=term, owner="x", now_ms=T0 + 9, limit=9, lease_until_ms=9, fence_from=fence(9, term=term))
            with pytest.raises(TermRefusedError):
                await queue.reap(term=term, now_lease_ms=LEASE, now_ms=T0, limit=9)
            with pytest.raises(TermRefusedError):
                await queue.requeue(term=term, now_ms=T0, limit=9, spare=())
            assert await queue.scan(after="", limit=10) == before

    @on_storage
    async def test_q14_a_malformed_member_is_an_entry_like_any_other(self, storage: Storage) -> None:
        """Q14: texts that name no occurrence, quotes and wildcards among them, are handed out and can be acknowledged."""
        queue = storage.queue
        await take_lock(queue)
        members = ["not a member", "|", "a|b|c|d|e", "'; drop table due; --", "100%_", '"[1]"', " ", "\n", "ü" * 500]
        await queue.put(due(*((member, 0) for member in members)), term=1)
        assert await queue.contains([*members, "missing"]) == frozenset(members)
        claimed = await claim(queue, 1, limit=100)
        assert [entry.member for entry in claimed] == sorted(members)
        answers = await queue.extend([lease_of(entry) for entry in claimed], owner="here", until_ms=1)
        assert set(answers.values()) == {LeaseState.KEPT}
        for entry in claimed:
            assert await queue.ack(lease_of(entry)) is LeaseState.DONE
        assert await queue.counts() == QueueCounts(due=0, in_flight=0)

    @on_storage
    async def test_reading_shows_what_is_there(self, storage: Storage) -> None:
        """``scan`` pages through all in the order of members; ``peek``, ``earliest``, ``contains`` and ``counts`` agree."""
        queue = storage.queue
        await take_lock(queue)
        assert await queue.earliest() is None
        assert await queue.scan(after="", limit=5) == []
        await queue.put(due(*((f"m{number:02}", 100 - number) for number in range(25))), term=1)
        claimed = await claim(queue, 1, limit=4)
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
