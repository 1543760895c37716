"""The queue in SQLite: an index that may be lost at any time, in a file of its own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from cronpad_core.api import (
    Claimed,
    Entry,
    Lease,
    LeaseState,
    LockRow,
    Millis,
    QueueCounts,
    QueuedEntry,
    QueueLook,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
)
from cronpad_sql import queue_moves as moves
from cronpad_sql import queue_sql as sql
from cronpad_sql.connections import connect_read, connect_write
from cronpad_sql.faults import store_error
from cronpad_sql.files import Watch, stamp_of
from cronpad_sql.lane import Lane
from cronpad_sql.queue_file import LOCK, MODE, identity_of, lock_of, lock_text, look_at, open_file, readable_with
from cronpad_sql.reader import Reader

__all__ = ["SqliteQueue"]

T = TypeVar("T")


class SqliteQueue:
    """The queue in ``cronpad-queue.db``: one lane writes, a reader answers questions, fresh connections look at it."""

    def __init__(self, path: Path, *, wall_ms: Callable[[], int], batch_limit: int, read_only: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self._wall_ms = wall_ms
        self._batch_limit = batch_limit
        self._lane: Lane | None = None
        self._reader: Reader | None = None
        self._watch: Watch | None = None
        self._epoch: str | None = None
        self._damaged: tuple[int, int] | None = None
        self._outside: ThreadPoolExecutor | None = None

    async def _from_outside(self, action: Callable[[], T]) -> T:
        """Runs what makes connections of its own in a thread of its own: the loop's threads may all be busy with user code."""
        if self._outside is None:
            self._outside = ThreadPoolExecutor(1, f"cronpad-sql {self._path.name}")
        return await asyncio.get_running_loop().run_in_executor(self._outside, action)

    async def look(self) -> QueueLook:
        """What a fresh connection sees at the queue's place."""
        return await self._from_outside(partial(look_at, self._path))

    async def open(self) -> str | None:
        """Opens what stands at the place, made sound or made anew; the answer is why it begins empty."""
        if self._read_only:
            raise StoreError(f"{self._path} is open for reading only")
        watch = self._watch
        await self.close()
        if watch is not None:
            watch.drop_orphans()
        damaged = self._damaged is not None and self._damaged == stamp_of(self._path)
        try:
            reason = await self._from_outside(partial(open_file, self._path, self._wall_ms(), damaged=damaged))
        except sqlite3.Error as error:
            raise store_error(error, str(self._path)) or error from error
        except OSError as error:
            raise StoreBusyError(f"{self._path} cannot be made anew: {error}") from error
        lane = Lane(
            file=str(self._path),
            connect=partial(connect_write, self._path, MODE),
            path=self._path,
            batch_limit=self._batch_limit,
            on_damage=self._note_damage,
        )
        try:
            self._epoch = await lane.run(partial(moves.get_meta, key="epoch"))
            self._watch = Watch.of(self._path)
        except BaseException:
            await lane.close()
            raise
        self._lane, self._damaged = lane, None
        return reason

    def _note_damage(self) -> None:
        self._damaged = stamp_of(self._path)

    def present(self) -> bool:
        """Whether the file, its log and its shared memory are those that were opened."""
        return self._watch is not None and self._watch.missing() is None

    async def verify(self) -> bool:
        """As ``present``, and a fresh connection finds the same epoch."""
        if self._damaged is not None and self._damaged == stamp_of(self._path):
            return False
        return self.present() and await self._from_outside(partial(readable_with, self._path, self._epoch))

    async def close(self) -> None:
        """Flushes and closes the file."""
        lane, reader, watch = self._lane, self._reader, self._watch
        self._lane = self._reader = self._watch = None
        if reader is not None:
            await reader.close()
        if lane is not None:
            # Another file at this place is not ours to write into, not even by a checkpoint.
            lane.checkpoints = watch is not None and watch.missing() is None
            await lane.close()
        if self._outside is not None:
            self._outside.shutdown(wait=False)
            self._outside = None

    @property
    def _writing(self) -> Lane:
        if self._lane is None:
            raise StoreError("the queue is not open")
        return self._lane

    @property
    def _reading(self) -> Reader:
        if self._reader is None:
            self._reader = Reader(file=str(self._path), connect=self._connect_reader)
        return self._reader

    def _connect_reader(self) -> sqlite3.Connection:
        if stamp_of(self._path) is None:
            raise StoreDamagedError(f"{self._path} is gone")
        return connect_read(self._path, MODE.busy_ms)

    async def acquire(
        self, row: LockRow, *, seen: QueueLook, boot_id: str, boot_base_ms: Millis, epoch: str, guard: Callable[[], bool]
    ) -> bool:
        """Writes the lock row where file, row and term are as seen and ``guard`` agrees. (Q12)"""

        def take(db: sqlite3.Connection) -> bool:
            identity = identity_of(self._path, moves.get_meta(db, "file"))
            there, term = lock_of(moves.get_meta(db, LOCK)), int(moves.get_meta(db, "term") or 0)
            if not self.present() or identity != seen.identity or there != seen.lock or term >= row.term or not guard():
                return False
            _write_lock(db, row, boot_id, boot_base_ms, epoch)
            return True

        return await self._take(take, epoch)

    async def reassert(self, row: LockRow, *, boot_id: str, boot_base_ms: Millis, epoch: str, guard: Callable[[], bool]) -> bool:
        """Writes our row under its term, unless a higher term, or the same of another, stands there. (Q12)"""

        def take(db: sqlite3.Connection) -> bool:
            there, term = lock_of(moves.get_meta(db, LOCK)), int(moves.get_meta(db, "term") or 0)
            others = there is not None and there.token != row.token and there.term >= row.term
            if not self.present() or term > row.term or others or not guard():
                return False
            _write_lock(db, row, boot_id, boot_base_ms, epoch)
            return True

        return await self._take(take, epoch)

    async def _take(self, take: Callable[[sqlite3.Connection], bool], epoch: str) -> bool:
        taken = await self._writing.run(take)
        if taken:
            self._epoch = epoch
        return taken

    async def renew(self, row: LockRow, *, now_lease_ms: Millis, heartbeat_ms: Millis) -> bool:
        """Moves the expiry of our own unexpired row. (Q13)"""

        def move(db: sqlite3.Connection) -> bool:
            there = lock_of(moves.get_meta(db, LOCK))
            if there is None or (there.token, there.term) != (row.token, row.term) or there.expires_ms <= now_lease_ms:
                return False
            db.executemany(sql.SET_META, [(LOCK, lock_text(row)), ("heartbeat", str(heartbeat_ms))])
            return True

        return await self._writing.run(move)

    async def release_lock(self, *, token: str, term: int) -> bool:
        """Removes our own row; the term that it had stays known."""

        def remove(db: sqlite3.Connection) -> bool:
            there = lock_of(moves.get_meta(db, LOCK))
            if there is None or (there.token, there.term) != (token, term):
                return False
            db.execute(sql.DROP_META, (LOCK,))
            return True

        return await self._writing.run(remove)

    async def put(self, entries: Sequence[Entry], *, term: int) -> frozenset[str]:
        """Puts or moves entries; answers those in flight. (Q1)"""
        return await self._writing.ask(moves.put_all, moves.Put(entries, term))

    async def claim(
        self, *, term: int, owner: str, now_ms: Millis, limit: int, lease_until_ms: Millis, fence_from: int
    ) -> list[Claimed]:
        """Takes due entries in the order (due time, member). (Q2–Q5)"""
        return await self._writing.run(
            lambda db: moves.claim(
                db, term=term, owner=owner, now_ms=now_ms, limit=limit, until_ms=lease_until_ms, fence_from=fence_from
            )
        )

    async def claimed_since(self, *, owner: str, fence_from: int) -> list[Claimed]:
        """What ``owner`` holds from that fence on, in the order of fences."""
        return await self._writing.run(lambda db: moves.claimed_since(db, owner=owner, fence_from=fence_from))

    async def ack(self, lease: Lease, *, retry: Entry | None = None) -> LeaseState:
        """Ends the lease, or clears its copy that was put back, and puts the retry. (Q6, Q7)"""
        return await self._writing.ask(moves.ack_all, moves.Ack(lease, retry))

    async def extend(self, leases: Sequence[Lease], *, owner: str, until_ms: Millis) -> Mapping[Lease, LeaseState]:
        """Moves the ends of leases, taking back what the reaper put back under the same fence. (Q8)"""
        return await self._writing.run(lambda db: moves.extend(db, leases, owner=owner, until_ms=until_ms))

    async def release(self, lease: Lease, *, at_ms: Millis, held_since_ms: Millis | None = None) -> LeaseState:
        """Gives the entry back, without a fence. (Q7, Q9)"""
        return await self._writing.ask(moves.release_all, moves.Release(lease, at_ms, held_since_ms))

    async def reap(self, *, term: int, now_lease_ms: Millis, now_ms: Millis, limit: int) -> list[str]:
        """Puts back entries whose lease ended, the longest ended first; their fences stay. (Q10)"""
        return await self._writing.run(
            lambda db: moves.reap(db, term=term, now_lease_ms=now_lease_ms, now_ms=now_ms, limit=limit)
        )

    async def requeue(self, *, term: int, now_ms: Millis, limit: int, spare: Collection[str]) -> list[str]:
        """Puts back in-flight entries except those to spare, in the order of members; no fence stays. (Q11)"""
        return await self._writing.run(lambda db: moves.requeue(db, term=term, now_ms=now_ms, limit=limit, spare=spare))

    async def earliest(self) -> Millis | None:
        """When the first entry is due that is not in flight."""
        row = await self._reading.run(lambda db: db.execute(sql.EARLIEST).fetchone())
        return None if row is None else int(row[0])

    async def contains(self, members: Collection[str]) -> frozenset[str]:
        """Which of these are in the queue."""
        return await self._reading.run(lambda db: moves.contains(db, members))

    async def scan(self, *, after: str, limit: int) -> list[QueuedEntry]:
        """A page of all entries; ``at_ms`` of one in flight is the end of its lease."""
        return await self._reading.run(lambda db: moves.entries(db, sql.SCAN, (after, max(limit, 0))))

    async def peek(self, *, limit: int) -> list[QueuedEntry]:
        """What would be claimed next."""
        return await self._reading.run(lambda db: moves.entries(db, sql.PEEK, (max(limit, 0),)))

    async def counts(self) -> QueueCounts:
        """How many entries there are."""
        row = await self._reading.run(lambda db: db.execute(sql.COUNTS).fetchone())
        return QueueCounts(due=row[0], in_flight=row[1])


def _write_lock(db: sqlite3.Connection, row: LockRow, boot_id: str, boot_base_ms: Millis, epoch: str) -> None:
    values = {LOCK: lock_text(row), "term": str(row.term), "boot_id": boot_id, "boot_base": str(boot_base_ms), "epoch": epoch}
    db.executemany(sql.SET_META, list(values.items()))
