"""The queue: which attempts are due, and who holds which lease. An index; control and history are the truth.

Each operation is one immediate transaction, or its like; times come in as arguments and no implementation reads a clock. Due
times are wall milliseconds; ``*_lease_ms`` and lease ends are lease time (see ``QueueLook``). A *lease* is a member with the
fence under which it was claimed.

Raises, all operations: ``StoreBusyError`` (nothing was applied), ``StoreDamagedError`` (the file is damaged, gone or another
one), ``CommitUnknownError`` (it may have been applied), ``TermRefusedError`` where a term is compared.

Promises, proved by ``QueueStoreSuite``:

=====  =========================================================================================================
Q1     ``put`` twice moves an entry and never duplicates it, nor puts it beside its own in-flight entry
Q2     ``claim`` answers in the order (due time, member)
Q3     ``claim`` answers at most ``limit`` entries, all of them due
Q4     two claims never share an entry
Q5     a failed claim leaves no trace; a claim's cost follows what is claimed
Q6     after ``ack`` with a retry the run is queued, or nothing was changed
Q7     a stale fence changes nothing: ``ack`` and ``release`` answer ``LOST``
Q8     ``extend`` answers for each lease whether it was kept, taken back from ``due`` (only under the same fence), or lost
Q9     ``release`` never loses an entry; ``held_since`` is set once and kept
Q10    ``reap`` moves only leases that have ended, ready now, keeping the fence of the ended lease
Q11    ``requeue`` never moves an entry that is to be spared; it clears fences and works in bounded batches
Q12    the lock changes hands only against the row and the file that the taker judged by
Q13    a lock row that has expired, or is another's, is not renewed
Q14    a malformed member is handed out like any other and can be acknowledged
=====  =========================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from cronpad_core.domain.dispatch import LockRow, QueueLook
from cronpad_core.domain.timing import Millis
from cronpad_core.domain.values import value

__all__ = ["Claimed", "Entry", "Lease", "LeaseState", "QueueCounts", "QueueStore", "QueuedEntry"]


@value
class Entry:
    """A member and when it is due (wall)."""

    member: str
    at_ms: Millis


@value
class Claimed:
    """An entry that is now ours. ``due_at_ms`` is when it was due; ``held_since_ms`` since when a limit had kept it waiting."""

    member: str
    due_at_ms: Millis
    fence: int
    held_since_ms: Millis | None = None


@value
class Lease:
    """A claimed entry as its holder names it."""

    member: str
    fence: int


class LeaseState(StrEnum):
    """What became of a lease. ``DONE`` is the good answer of ``ack`` and ``release``."""

    DONE = "done"
    KEPT = "kept"
    RECLAIMED = "reclaimed"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedEntry:
    """An entry as ``scan`` and ``peek`` show it; ``owner`` and ``fence`` are set while it is in flight."""

    member: str
    at_ms: Millis
    in_flight: bool
    owner: str | None = None
    fence: int | None = None
    held_since_ms: Millis | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """How many entries are due or later, and how many are in flight."""

    due: int
    in_flight: int


class QueueStore(Protocol):
    """See the module for what all operations share. Called by the step that is named with each."""

    async def look(self) -> QueueLook:
        """Reads lock and identity from outside, without opening for writing; a missing or unreadable queue has no identity.

        Called by the dispatcher, standby included: it creates, moves and changes nothing.
        """

    async def open(self) -> str | None:
        """Opens the queue for writing, or opens it anew: the file that is at its place now.

        A damaged file is moved aside and one of another schema is recreated; the answer is the reason (``"missing"``,
        ``"corrupt"``, ``"schema"``) where the queue begins empty, else ``None``. Raises ``StateRefusedError`` for somebody else's
        database. Called by the dispatcher in a taking or a rebuild.
        """

    def present(self) -> bool:
        """Whether the file at the queue's place is the one that is open, by its directory entry alone; cheap, never raises.

        Called before and after each claim, before each reap and delivery.
        """

    async def verify(self) -> bool:
        """As ``present``, and a fresh connection can read it and finds the same epoch. Called each reconcile."""

    async def close(self) -> None:
        """Closes it. Closed twice is closed once."""

    async def acquire(
        self, row: LockRow, *, seen: QueueLook, boot_id: str, boot_base_ms: Millis, epoch: str, guard: Callable[[], bool]
    ) -> bool:
        """Writes the lock row, unless file or row are no longer as ``seen``, or ``guard`` says no inside the transaction. (Q12)

        Also stores the term, the boot id and base, and the epoch. Called by the dispatcher in a taking.
        """

    async def reassert(self, row: LockRow, *, boot_id: str, boot_base_ms: Millis, epoch: str, guard: Callable[[], bool]) -> bool:
        """Writes our row into another file under the same term, unless a higher term, or another's, stands there. (Q12)"""

    async def renew(self, row: LockRow, *, now_lease_ms: Millis, heartbeat_ms: Millis) -> bool:
        """Moves the expiry of our own unexpired row (same token, same term), and writes the heartbeat. (Q13)"""

    async def release_lock(self, *, token: str, term: int) -> bool:
        """Removes our own row. Called by a clean stop."""

    async def put(self, entries: Sequence[Entry], *, term: int) -> frozenset[str]:
        """Puts or moves entries; answers the members that are in flight and were left alone. (Q1)"""

    async def claim(
        self, *, term: int, owner: str, now_ms: Millis, limit: int, lease_until_ms: Millis, fence_from: int
    ) -> list[Claimed]:
        """Takes due entries; the i-th gets fence ``fence_from + i`` (or the backend's own growing number). (Q2–Q5)"""

    async def claimed_since(self, *, owner: str, fence_from: int) -> list[Claimed]:
        """The in-flight entries of ``owner`` from that fence on: reads back a claim whose commit is unknown."""

    async def ack(self, lease: Lease, *, retry: Entry | None = None) -> LeaseState:
        """Ends the lease and puts ``retry`` in the same transaction; ``DONE`` or ``LOST``. (Q6, Q7)

        A copy that the reaper put back is cleared where it still carries this fence. A retry that is in flight is left alone.
        """

    async def extend(self, leases: Sequence[Lease], *, owner: str, until_ms: Millis) -> Mapping[Lease, LeaseState]:
        """Moves the ends of many leases: ``KEPT``, ``RECLAIMED`` or ``LOST`` for each. (Q8)"""

    async def release(self, lease: Lease, *, at_ms: Millis, held_since_ms: Millis | None = None) -> LeaseState:
        """Gives the entry back, due at ``at_ms``; sets ``held_since`` where none is set. ``DONE`` or ``LOST``. (Q7, Q9)"""

    async def reap(self, *, term: int, now_lease_ms: Millis, now_ms: Millis, limit: int) -> list[str]:
        """Puts back at most ``limit`` entries whose lease ended, due at ``now_ms``; answers their members. (Q10)"""

    async def requeue(self, *, term: int, now_ms: Millis, limit: int, spare: Collection[str]) -> list[str]:
        """Puts back at most ``limit`` in-flight entries, except those to spare, due at ``now_ms``. (Q11)"""

    async def earliest(self) -> Millis | None:
        """When the first entry is due; ``None`` for an empty queue."""

    async def contains(self, members: Collection[str]) -> frozenset[str]:
        """Which of these are in the queue, due or in flight."""

    async def scan(self, *, after: str, limit: int) -> list[QueuedEntry]:
        """Entries with a member above ``after``, in the order of members; the whole queue in pages."""

    async def peek(self, *, limit: int) -> list[QueuedEntry]:
        """The next entries in the order of claims, then none in flight."""

    async def counts(self) -> QueueCounts:
        """How many entries there are."""
