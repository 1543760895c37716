"""The promises of the lock and of the file in a queue store: Q12, Q13, and what ``look``, ``open`` and ``verify`` say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronpad_core.api import Entry, LockRow, QueueStore, Storage, TermRefusedError
from cronpad_testkit.samples import T0
from cronpad_testkit.suites.queue_steps import TTL, acquire, lock_row, take_lock
from cronpad_testkit.suites.storage import BuildStorage, StorageSuite, on_state, on_storage, opened

__all__ = ["QueueLockSuite"]


async def _reassert(queue: QueueStore, row: LockRow, *, agreed: bool = True) -> bool:
    return await queue.reassert(row, boot_id="boot-1", boot_base_ms=77, epoch="epoch-2", guard=lambda: agreed)


class QueueLockSuite(StorageSuite):
    """Lock and file of a queue store; a part of ``QueueStoreSuite``."""

    @on_state
    async def test_look_changes_nothing_and_open_creates(self, build: BuildStorage) -> None:
        """``look`` at no queue has no identity and creates none; the ``open`` that creates says ``missing``, the next none."""
        storage = build()
        await storage.open()
        try:
            await storage.prepare()
            assert (await storage.queue.look()).identity is None
            assert (await storage.queue.look()).identity is None
            assert not storage.queue.present()
            assert await storage.queue.open() == "missing"
            assert (await storage.queue.look()).identity is not None
            assert storage.queue.present()
            assert await storage.queue.open() is None
        finally:
            await storage.close()
            await storage.close()

    @on_state
    async def test_what_was_put_is_there_for_the_next_process(self, build: BuildStorage) -> None:
        """Entries, lock row and identity outlive the process that wrote them, and the next ``open`` is no beginning."""
        async with opened(build) as storage:
            row = await take_lock(storage.queue)
            await storage.queue.put([Entry(member="m", at_ms=T0)], term=1)
            identity = (await storage.queue.look()).identity
        storage = build()
        await storage.open()
        try:
            look = await storage.queue.look()
            assert (look.identity, look.lock) == (identity, row)
            assert await storage.queue.open() is None
            assert await storage.queue.contains(["m"]) == frozenset({"m"})
        finally:
            await storage.close()

    @on_storage
    async def test_q12_the_lock_is_taken_from_what_was_seen(self, storage: Storage) -> None:
        """Q12: a taking writes row, term, boot and epoch where file and row are as seen; another look at them shows all."""
        queue = storage.queue
        row = await take_lock(queue)
        look = await queue.look()
        assert (look.lock, look.term, look.boot_id, look.boot_base_ms, look.epoch) == (row, 1, "boot-1", 77, "epoch-1")
        assert await queue.verify()
        assert await acquire(queue, lock_row(2, token="there"), epoch="epoch-9")
        look = await queue.look()
        assert (look.lock, look.term, look.epoch) == (lock_row(2, token="there"), 2, "epoch-9")

    @on_storage
    async def test_q12_the_lock_is_not_taken_from_anything_else(self, storage: Storage) -> None:
        """Q12: another file, a row that was renewed, removed or replaced since, or a guard that says no: nothing is written."""
        queue = storage.queue
        nobody = await queue.look()
        row = await take_lock(queue)
        seen = await queue.look()
        assert not await acquire(queue, lock_row(2, token="there"), seen=nobody)
        assert not await acquire(queue, lock_row(2, token="there"), seen=replace(seen, identity="another"))
        assert not await acquire(queue, lock_row(2, token="there"), seen=replace(seen, identity=None))
        assert not await acquire(queue, lock_row(2, token="there"), seen=seen, agreed=False)
        assert await queue.look() == seen
        renewed = replace(row, expires_ms=TTL + 5_000)
        assert await queue.renew(renewed, now_lease_ms=5_000, heartbeat_ms=T0)
        assert not await acquire(queue, lock_row(2, token="there"), seen=seen)
        seen = await queue.look()
        assert await queue.release_lock(token="here", term=1)
        assert not await acquire(queue, lock_row(2, token="there"), seen=seen)
        assert (await queue.look()).lock is None

    @on_state
    async def test_q12_of_two_takers_one_wins(self, build: BuildStorage) -> None:
        """Q12: two that judged by the same look do not both get the lock, and the loser's term is refused (``shared``)."""
        self.needs("shared")
        async with opened(build) as one, opened(build) as two:
            seen_one, seen_two = await one.queue.look(), await two.queue.look()
            assert await acquire(one.queue, lock_row(1, token="one"), seen=seen_one)
            assert not await acquire(two.queue, lock_row(2, token="two"), seen=seen_two)
            assert await acquire(two.queue, lock_row(2, token="two"))
            with pytest.raises(TermRefusedError):
                await one.queue.put([Entry(member="m", at_ms=T0)], term=1)
            assert not await one.queue.renew(lock_row(1, token="one"), now_lease_ms=0, heartbeat_ms=T0)
            await two.queue.put([Entry(member="m", at_ms=T0)], term=2)
            assert await one.queue.contains(["m"]) == frozenset({"m"})

    @on_storage
    async def test_q12_reassert_yields_to_a_higher_term(self, storage: Storage) -> None:
        """Q12: our row is written into a file without one, never over a higher term, another holder of ours, or the guard."""
        queue = storage.queue
        assert not await _reassert(queue, lock_row(3), agreed=False)
        assert await _reassert(queue, lock_row(3))
        look = await queue.look()
        assert (look.lock, look.term, look.boot_id, look.boot_base_ms, look.epoch) == (lock_row(3), 3, "boot-1", 77, "epoch-2")
        assert await queue.verify()
        assert not await _reassert(queue, lock_row(3, token="there"))
        assert not await _reassert(queue, lock_row(2, token="there"))
        assert await queue.release_lock(token="here", term=3)
        assert not await _reassert(queue, lock_row(2))
        assert (await queue.look()).lock is None

    @on_storage
    async def test_q13_only_our_own_living_row_is_renewed(self, storage: Storage) -> None:
        """Q13: a row that has expired, is another's, of another term or gone is not renewed; ours is, with the heartbeat."""
        queue = storage.queue
        assert not await queue.renew(lock_row(1), now_lease_ms=0, heartbeat_ms=T0)
        await take_lock(queue)
        longer = lock_row(1, expires_ms=2 * TTL)
        assert not await queue.renew(replace(longer, token="there"), now_lease_ms=0, heartbeat_ms=T0)
        assert not await queue.renew(replace(longer, term=2), now_lease_ms=0, heartbeat_ms=T0)
        assert not await queue.renew(longer, now_lease_ms=TTL, heartbeat_ms=T0)
        assert (await queue.look()).lock == lock_row(1)
        assert await queue.renew(longer, now_lease_ms=TTL - 1, heartbeat_ms=T0 + 3)
        look = await queue.look()
        assert (look.lock, look.heartbeat_ms) == (longer, T0 + 3)

    @on_storage
    async def test_a_clean_stop_removes_its_ownlock_row(self, storage: Storage) -> None:
        """``release_lock`` removes the row of this token and term, no other; the term stays known and its writes are refused."""
        queue = storage.queue
        await take_lock(queue, term=4)
        assert not await queue.release_lock(token="there", term=4)
        assert not await queue.release_lock(token="here", term=3)
        assert await queue.release_lock(token="here", term=4)
        assert not await queue.release_lock(token="here", term=4)
        look = await queue.look()
        assert (look.lock, look.term) == (None, 4)
        with pytest.raises(TermRefusedError):
            await queue.put([Entry(member="m", at_ms=T0)], term=4)

    @on_storage
    async def test_a_lost_file_is_noticed_and_made_anew(self, storage: Storage) -> None:
        """A queue whose file was taken away is neither present nor verified; ``open`` makes an empty one (``queue_loss``)."""
        self.needs("queue_loss")
        queue = storage.queue
        row = await take_lock(queue)
        await queue.put([Entry(member="m", at_ms=T0)], term=1)
        seen = await queue.look()
        assert queue.present()
        assert await queue.verify()
        self.lose_queue(storage)
        assert not queue.present()
        assert not await queue.verify()
        assert (await queue.look()).identity is None
        assert await queue.open() == "missing"
        assert queue.present()
        look = await queue.look()
        assert look.lock is None
        assert look.identity != seen.identity
        assert await queue.contains(["m"]) == frozenset()
        assert not await acquire(queue, lock_row(2), seen=seen)
        assert await _reassert(queue, row)
        assert await queue.put([Entry(member="m", at_ms=T0)], term=1) == frozenset()
        assert await queue.verify()
