"""What the tests of a queue do over and over: take the lock, put, claim, look at everything."""

from __future__ import annotations

from cronpad_core.api import Claimed, Entry, Lease, LockRow, QueuedEntry, QueueLook, QueueStore
from cronpad_testkit.samples import T0, fence

__all__ = ["LEASE", "TTL", "acquire", "claim", "contents", "due", "lease_of", "lock_row", "take_lock"]

TTL = 15_000
LEASE = 60_000


def lock_row(term: int, *, token: str = "here", expires_ms: int = TTL) -> LockRow:
    """A row that expires a TTL after the lease time 0."""
    return LockRow(token=token, term=term, expires_ms=expires_ms)


async def acquire(
    queue: QueueStore, row: LockRow, *, seen: QueueLook | None = None, agreed: bool = True, epoch: str = "epoch-1"
) -> bool:
    """Takes the lock judging by ``seen``, or by a look now; ``agreed`` is what the guard says."""
    look = await queue.look() if seen is None else seen
    return await queue.acquire(row, seen=look, boot_id="boot-1", boot_base_ms=77, epoch=epoch, guard=lambda: agreed)


async def take_lock(queue: QueueStore, *, term: int = 1, token: str = "here") -> LockRow:
    """Takes the lock of an open queue under this term, as a dispatcher would."""
    row = lock_row(term, token=token)
    assert await acquire(queue, row)
    return row


def due(*pairs: tuple[str, int]) -> list[Entry]:
    """Entries from (member, milliseconds after ``T0``)."""
    return [Entry(member=member, at_ms=T0 + offset) for member, offset in pairs]


async def claim(
    queue: QueueStore, number: int, *, now: int = 1_000, limit: int = 10, owner: str = "here", until: int = LEASE
) -> list[Claimed]:
    """Claims under term 1, the first entry under its ``number``-th fence."""
    return await queue.claim(term=1, owner=owner, now_ms=T0 + now, limit=limit, lease_until_ms=until, fence_from=fence(number))


def lease_of(claimed: Claimed) -> Lease:
    """The lease of a claimed entry."""
    return Lease(member=claimed.member, fence=claimed.fence)


async def contents(queue: QueueStore) -> dict[str, QueuedEntry]:
    """All entries by member."""
    return {entry.member: entry for entry in await queue.scan(after="", limit=1_000)}
