"""What a queue's file holds, and the place where it is: kept apart so that a simulation can lose or replace it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from itertools import count

from cronpad_core.api import Entry, LockRow, Millis

__all__ = ["Due", "Held", "QueueFile", "QueuePlace"]


@dataclass(frozen=True, slots=True)
class Due:
    """An entry that waits; ``fence`` is that of the lease that the reaper ended."""

    at_ms: Millis
    fence: int | None = None
    held_since_ms: Millis | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """An entry in flight; ``until_ms`` is lease time."""

    until_ms: Millis
    owner: str
    fence: int
    due_at_ms: Millis
    held_since_ms: Millis | None


@dataclass(slots=True)
class QueueFile:
    """What a queue's file holds. ``fresh`` until it is opened for the first time."""

    identity: str = ""
    fresh: bool = True
    due: dict[str, Due] = field(default_factory=dict)
    inflight: dict[str, Held] = field(default_factory=dict)
    lock: LockRow | None = None
    term: int = 0
    boot_id: str | None = None
    boot_base_ms: Millis = 0
    epoch: str | None = None
    heartbeat_ms: Millis | None = None
    _heap: list[tuple[Millis, str]] = field(default_factory=list)
    _members: list[str] | None = None

    def set_due(self, member: str, entry: Due) -> None:
        """Makes this the only entry of its member, due."""
        before = self.due.get(member)
        if before is None and self.inflight.pop(member, None) is None:
            self._members = None
        self.due[member] = entry
        if before is None or before.at_ms != entry.at_ms:
            heapq.heappush(self._heap, (entry.at_ms, member))
            if len(self._heap) > 2 * len(self.due) + 64:
                self._heap = [(known.at_ms, name) for name, known in self.due.items()]
                heapq.heapify(self._heap)

    def set_held(self, member: str, entry: Held) -> None:
        """Makes this the only entry of its member, in flight."""
        if self.due.pop(member, None) is None and member not in self.inflight:
            self._members = None
        self.inflight[member] = entry

    def drop(self, member: str) -> None:
        """Removes the entry of this member."""
        self.due.pop(member, None)
        self.inflight.pop(member, None)
        self._members = None

    def first(self) -> tuple[Millis, str] | None:
        """The due time and member of the first entry."""
        heap = self._heap
        while heap:
            at_ms, member = heap[0]
            known = self.due.get(member)
            if known is not None and known.at_ms == at_ms:
                return heap[0]
            heapq.heappop(heap)
        return None

    def members(self) -> list[str]:
        """All members in order."""
        if self._members is None:
            self._members = sorted([*self.due, *self.inflight])
        return self._members

    def put(self, entry: Entry) -> bool:
        """Puts or moves an entry and keeps what is known of it; answers whether it is in flight, and then does nothing."""
        if entry.member in self.inflight:
            return True
        known = self.due.get(entry.member)
        self.set_due(entry.member, replace(known, at_ms=entry.at_ms) if known else Due(entry.at_ms))
        return False


@dataclass(slots=True)
class QueuePlace:
    """Where the queue's file is. Deleting or replacing it here is what ``rm`` and ``mv`` do to a real one."""

    file: QueueFile | None = None
    _names: count[int] = field(default_factory=lambda: count(1))

    def delete(self) -> None:
        """Removes the file; whoever has it open goes on with a file that nobody else can see."""
        self.file = None

    def set(self, file: QueueFile) -> QueueFile:
        """Puts another file here; one that was here before comes back under its old identity."""
        if not file.identity:
            file.identity = f"memory-{next(self._names)}"
        self.file = file
        return file
