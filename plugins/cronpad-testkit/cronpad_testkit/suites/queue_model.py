"""A queue as two dictionaries, so plain that it can be checked by reading: what the machine compares a store with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from cronpad_core.api import Entry, Lease, LeaseState, LockRow, QueuedEntry

__all__ = ["InFlight", "QueueModel", "Waiting"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """An entry that is due at ``at``; ``fence`` of the lease that the reaper ended."""

    at: int
    fence: int | None = None
    held: int | None = None


@dataclass(frozen=True, slots=True)
class InFlight:
    """An entry that ``owner`` holds until ``until``."""

    until: int
    owner: str
    fence: int
    due: int
    held: int | None


@dataclass(slots=True)
class QueueModel:
    """What a queue store must hold; each method is one sentence of the port."""

    due: dict[str, Waiting] = field(default_factory=dict)
    inflight: dict[str, InFlight] = field(default_factory=dict)
    lock: LockRow | None = None
    term: int = 0

    def put(self, entries: Collection[Entry]) -> frozenset[str]:
        """Q1."""
        for entry in entries:
            if entry.member not in self.inflight:
                self.due[entry.member] = replace(self.due.get(entry.member, Waiting(0)), at=entry.at_ms)
        return frozenset(entry.member for entry in entries if entry.member in self.inflight)

    def order(self) -> list[str]:
        """Members in the order in which they are claimed."""
        return sorted(self.due, key=lambda member: (self.due[member].at, member))

    def claim(self, now: int, limit: int, until: int, owner: str, fences: list[int]) -> list[tuple[str, int, int | None]]:
        """Q2, Q3: (member, due time, held since) of each; the i-th under ``fences[i]``."""
        taken = [member for member in self.order() if self.due[member].at <= now][:limit]
        answer = []
        for member, fence in zip(taken, fences, strict=True):
            was = self.due.pop(member)
            self.inflight[member] = InFlight(until, owner, fence, was.at, was.held)
            answer.append((member, was.at, was.held))
        return answer

    def ack(self, lease: Lease, retry: Entry | None) -> LeaseState:
        """Q6, Q7."""
        for table in (self.inflight, self.due):
            if lease.member in table and table[lease.member].fence == lease.fence:
                del table[lease.member]
                self.put([retry] if retry else [])
                return LeaseState.DONE
        return LeaseState.LOST

    def extend(self, lease: Lease, owner: str, until: int) -> LeaseState:
        """Q8."""
        held, due = self.inflight.get(lease.member), self.due.get(lease.member)
        if held and held.fence == lease.fence:
            self.inflight[lease.member] = replace(held, until=until)
            return LeaseState.KEPT
        if due and due.fence == lease.fence:
            del self.due[lease.member]
            self.inflight[lease.member] = InFlight(until, owner, lease.fence, due.at, due.held)
            return LeaseState.RECLAIMED
        return LeaseState.LOST

    def release(self, lease: Lease, at: int, held_since: int | None) -> LeaseState:
        """Q7, Q9."""
        held = self.inflight.get(lease.member)
        if held is None or held.fence != lease.fence:
            return LeaseState.LOST
        del self.inflight[lease.member]
        self.due[lease.member] = Waiting(at, None, held_since if held.held is None else held.held)
        return LeaseState.DONE

    def ended(self, now_lease: int) -> set[str]:
        """Which leases have ended."""
        return {member for member, held in self.inflight.items() if held.until <= now_lease}

    def put_back(self, members: Collection[str], at: int, *, keep_fence: bool) -> None:
        """What reaping (Q10) and requeueing (Q11) do to each of these."""
        for member in members:
            held = self.inflight.pop(member)
            self.due[member] = Waiting(at, held.fence if keep_fence else None, held.held)

    def scan(self) -> list[QueuedEntry]:
        """All entries in the order of members; the time of one in flight is 0, for backends differ there."""
        rows = [
            QueuedEntry(member=member, at_ms=entry.at, in_flight=False, held_since_ms=entry.held)
            for member, entry in self.due.items()
        ]
        rows += [
            QueuedEntry(member=member, at_ms=0, in_flight=True, owner=held.owner, fence=held.fence, held_since_ms=held.held)
            for member, held in self.inflight.items()
        ]
        return sorted(rows, key=lambda row: row.member)
