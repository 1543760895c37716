"""The queue in memory: the reference that other queue stores are compared with."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice

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
    StoreError,
    TermRefusedError,
)
from cronpad_core.builtin.memory_queue_file import Due, Held, QueueFile, QueuePlace

__all__ = ["MemoryQueue"]


class MemoryQueue:
    """A queue that lives as long as its :class:`QueuePlace`: each method is atomic because it never waits."""

    def __init__(self, place: QueuePlace) -> None:
        self._place = place
        self._file: QueueFile | None = None
        self._epoch: str | None = None

    @property
    def _opened(self) -> QueueFile:
        if self._file is None:
            raise StoreError("the queue is not open")
        return self._file

    @property
    def _seen(self) -> QueueFile:
        return self._file or self._place.file or QueueFile()

    def _under(self, term: int) -> QueueFile:
        file = self._opened
        if file.lock is None or file.lock.term != term:
            raise TermRefusedError(f"term {term} is not that of the lock ({file.lock.term if file.lock else 'none'})")
        return file

    async def look(self) -> QueueLook:
        """What stands at the queue's place, lock row included."""
        file = self._place.file
        if file is None:
            return QueueLook(identity=None)
        return QueueLook(
            identity=file.identity,
            lock=file.lock,
            term=file.term,
            boot_id=file.boot_id,
            boot_base_ms=file.boot_base_ms,
            epoch=file.epoch,
            heartbeat_ms=file.heartbeat_ms,
        )

    async def open(self) -> str | None:
        """Opens what stands at the place, or a new file; ``"missing"`` where it begins empty."""
        file = self._place.file or self._place.set(QueueFile())
        fresh, file.fresh = file.fresh, False
        self._file, self._epoch = file, file.epoch
        return "missing" if fresh else None

    def present(self) -> bool:
        """Whether the file at the place is the one that is open."""
        return self._file is not None and self._place.file is self._file

    async def verify(self) -> bool:
        """As ``present``, with the epoch that this store wrote or found."""
        return self.present() and self._opened.epoch == self._epoch

    async def close(self) -> None:
        """Lets go of the file."""
        self._file = None

    async def acquire(
        self, row: LockRow, *, seen: QueueLook, boot_id: str, boot_base_ms: Millis, epoch: str, guard: Callable[[], bool]
    ) -> bool:
        """Writes the lock row where file, row and term are as seen and ``guard`` agrees. (Q12)"""
        file = self._opened
        if file.identity != seen.identity or file.lock != seen.lock or file.term >= row.term or not guard():
            return False
        self._write_lock(file, row, boot_id, boot_base_ms, epoch)
        return True

    async def reassert(self, row: LockRow, *, boot_id: str, boot_base_ms: Millis, epoch: str, guard: Callable[[], bool]) -> bool:
        """Writes our row under its term, unless a higher term, or the same of another, stands there. (Q12)"""
        file = self._opened
        there = file.lock
        others = there is not None and there.token != row.token and there.term >= row.term
        if file.term > row.term or others or not guard():
            return False
        self._write_lock(file, row, boot_id, boot_base_ms, epoch)
        return True

    def _write_lock(self, file: QueueFile, row: LockRow, boot_id: str, boot_base_ms: Millis, epoch: str) -> None:
        file.lock, file.term = row, row.term
        file.boot_id, file.boot_base_ms = boot_id, boot_base_ms
        file.epoch = self._epoch = epoch

    async def renew(self, row: LockRow, *, now_lease_ms: Millis, heartbeat_ms: Millis) -> bool:
        """Moves the expiry of our own unexpired row. (Q13)"""
        file = self._opened
        there = file.lock
        if there is None or (there.token, there.term) != (row.token, row.term) or there.expires_ms <= now_lease_ms:
            return False
        file.lock, file.heartbeat_ms = row, heartbeat_ms
        return True

    async def release_lock(self, *, token: str, term: int) -> bool:
        """Removes our own row; the term that it had stays known."""
        file = self._opened
        if file.lock is None or (file.lock.token, file.lock.term) != (token, term):
            return False
        file.lock = None
        return True

    async def put(self, entries: Sequence[Entry], *, term: int) -> frozenset[str]:
        """Puts or moves entries; answers those in flight. (Q1)"""
        file = self._under(term)
        return frozenset(entry.member for entry in entries if file.put(entry))

    async def claim(
        self, *, term: int, owner: str, now_ms: Millis, limit: int, lease_until_ms: Millis, fence_from: int
    ) -> list[Claimed]:
        """Takes due entries in the order (due time, member). (Q2–Q5)"""
        file = self._under(term)
        taken: list[Claimed] = []
        while len(taken) < limit and (first := file.first()) is not None and first[0] <= now_ms:
            at_ms, member = first
            held_since_ms, fence = file.due[member].held_since_ms, fence_from + len(taken)
            file.set_held(member, Held(lease_until_ms, owner, fence, at_ms, held_since_ms))
            taken.append(Claimed(member=member, due_at_ms=at_ms, fence=fence, held_since_ms=held_since_ms))
        return taken

    async def claimed_since(self, *, owner: str, fence_from: int) -> list[Claimed]:
        """What ``owner`` holds from that fence on, in the order of fences."""
        found = [
            Claimed(member=member, due_at_ms=held.due_at_ms, fence=held.fence, held_since_ms=held.held_since_ms)
            for member, held in self._opened.inflight.items()
            if held.owner == owner and held.fence >= fence_from
        ]
        return sorted(found, key=lambda claimed: claimed.fence)

    async def ack(self, lease: Lease, *, retry: Entry | None = None) -> LeaseState:
        """Ends the lease, or clears its copy that was put back, and puts the retry. (Q6, Q7)"""
        file = self._opened
        if lease.fence not in (_fence(file.inflight.get(lease.member)), _fence(file.due.get(lease.member))):
            return LeaseState.LOST
        file.drop(lease.member)
        if retry is not None:
            file.put(retry)
        return LeaseState.DONE

    async def extend(self, leases: Sequence[Lease], *, owner: str, until_ms: Millis) -> Mapping[Lease, LeaseState]:
        """Moves the ends of leases, taking back what the reaper put back under the same fence. (Q8)"""
        file = self._opened
        answers: dict[Lease, LeaseState] = {}
        for lease in leases:
            held, due = file.inflight.get(lease.member), file.due.get(lease.member)
            if held is not None and held.fence == lease.fence:
                file.set_held(lease.member, replace(held, until_ms=until_ms))
                answers[lease] = LeaseState.KEPT
            elif due is not None and due.fence == lease.fence:
                file.set_held(lease.member, Held(until_ms, owner, lease.fence, due.at_ms, due.held_since_ms))
                answers[lease] = LeaseState.RECLAIMED
            else:
                answers[lease] = LeaseState.LOST
        return answers

    async def release(self, lease: Lease, *, at_ms: Millis, held_since_ms: Millis | None = None) -> LeaseState:
        """Gives the entry back, without a fence. (Q7, Q9)"""
        file = self._opened
        held = file.inflight.get(lease.member)
        if held is None or held.fence != lease.fence:
            return LeaseState.LOST
        since_ms = held_since_ms if held.held_since_ms is None else held.held_since_ms
        file.set_due(lease.member, Due(at_ms, None, since_ms))
        return LeaseState.DONE

    async def reap(self, *, term: int, now_lease_ms: Millis, now_ms: Millis, limit: int) -> list[str]:
        """Puts back entries whose lease ended, the longest ended first; their fences stay. (Q10)"""
        file = self._under(term)
        ended = sorted((held.until_ms, member) for member, held in file.inflight.items() if held.until_ms <= now_lease_ms)
        members = [member for _, member in ended[: max(limit, 0)]]
        for member in members:
            held = file.inflight[member]
            file.set_due(member, Due(now_ms, held.fence, held.held_since_ms))
        return members

    async def requeue(self, *, term: int, now_ms: Millis, limit: int, spare: Collection[str]) -> list[str]:
        """Puts back in-flight entries except those to spare, in the order of members; no fence stays. (Q11)"""
        file = self._under(term)
        members = sorted(member for member in file.inflight if member not in spare)[: max(limit, 0)]
        for member in members:
            file.set_due(member, Due(now_ms, None, file.inflight[member].held_since_ms))
        return members

    async def earliest(self) -> Millis | None:
        """When the first entry is due that is not in flight."""
        first = self._seen.first()
        return first[0] if first else None

    async def contains(self, members: Collection[str]) -> frozenset[str]:
        """Which of these are in the queue."""
        file = self._seen
        return frozenset(member for member in members if member in file.due or member in file.inflight)

    async def scan(self, *, after: str, limit: int) -> list[QueuedEntry]:
        """A page of all entries; ``at_ms`` of one in flight is the end of its lease."""
        file = self._seen
        members = file.members()
        start = bisect_right(members, after)
        return [_shown(file, member) for member in islice(members, start, start + max(limit, 0))]

    async def peek(self, *, limit: int) -> list[QueuedEntry]:
        """What would be claimed next."""
        file = self._seen
        first = heapq.nsmallest(max(limit, 0), ((entry.at_ms, member) for member, entry in file.due.items()))
        return [_shown(file, member) for _, member in first]

    async def counts(self) -> QueueCounts:
        """How many entries there are."""
        return QueueCounts(due=len(self._seen.due), in_flight=len(self._seen.inflight))


def _fence(entry: Due | Held | None) -> int | None:
    return None if entry is None else entry.fence


def _shown(file: QueueFile, member: str) -> QueuedEntry:
    held = file.inflight.get(member)
    if held is None:
        due = file.due[member]
        return QueuedEntry(member=member, at_ms=due.at_ms, in_flight=False, held_since_ms=due.held_since_ms)
    return QueuedEntry(
        member=member,
        at_ms=held.until_ms,
        in_flight=True,
        owner=held.owner,
        fence=held.fence,
        held_since_ms=held.held_since_ms,
    )
