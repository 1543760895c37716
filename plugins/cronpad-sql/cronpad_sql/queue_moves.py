"""What the queue's operations do inside their transaction: plain functions over the writing connection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cronpad_core.api import Claimed, Entry, Lease, LeaseState, Millis, QueuedEntry, TermRefusedError
from cronpad_sql import queue_sql as sql
from cronpad_sql.queue_file import LOCK, lock_of

__all__ = [
    "Ack",
    "Put",
    "Release",
    "ack_all",
    "claim",
    "claimed_since",
    "contains",
    "entries",
    "extend",
    "put_all",
    "reap",
    "release_all",
    "requeue",
]


@dataclass(frozen=True, slots=True)
class Ack:
    """One acknowledgement."""

    lease: Lease
    retry: Entry | None


@dataclass(frozen=True, slots=True)
class Put:
    """Entries to put, under a term."""

    entries: Sequence[Entry]
    term: int


@dataclass(frozen=True, slots=True)
class Release:
    """One entry to give back."""

    lease: Lease
    at_ms: Millis
    held_since_ms: Millis | None


def get_meta(db: sqlite3.Connection, key: str) -> str | None:
    """The value of this key."""
    row = db.execute(sql.GET_META, (key,)).fetchone()
    return None if row is None else row[0]


def require_term(db: sqlite3.Connection, term: int) -> None:
    """Raises ``TermRefusedError`` unless the lock row is of this term."""
    lock = lock_of(get_meta(db, LOCK))
    if lock is None or lock.term != term:
        raise TermRefusedError(f"term {term} is not that of the lock ({lock.term if lock else 'none'})")


def _put(db: sqlite3.Connection, found: Sequence[Entry]) -> frozenset[str]:
    if not found:
        return frozenset()
    if len(found) == 1:
        only = found[0]
        if db.execute(sql.IS_IN_FLIGHT, (only.member,)).fetchone():
            return frozenset((only.member,))
        db.execute(sql.PUT, (only.member, only.at_ms))
        return frozenset()
    asked = json.dumps([entry.member for entry in found])
    busy = frozenset(row[0] for row in db.execute(sql.IN_FLIGHT, (asked,)).fetchall())
    db.execute(sql.PUT_ALL, (json.dumps([(entry.member, entry.at_ms) for entry in found if entry.member not in busy]),))
    return busy


def put_all(db: sqlite3.Connection, puts: Sequence[Put]) -> list[frozenset[str]]:
    """Puts or moves entries; those in flight are answered and left alone. (Q1)"""
    for term in {one.term for one in puts}:
        require_term(db, term)
    busy = _put(db, [entry for one in puts for entry in one.entries])
    return [busy and frozenset(entry.member for entry in one.entries if entry.member in busy) for one in puts]


def claim(
    db: sqlite3.Connection, *, term: int, owner: str, now_ms: Millis, limit: int, until_ms: Millis, fence_from: int
) -> list[Claimed]:
    """Takes due entries, in order. (Q2–Q5)"""
    require_term(db, term)
    rows = db.execute(sql.NEXT_DUE, (now_ms, max(limit, 0))).fetchall()
    if not rows:
        return []
    # One statement each, however many there are: between two rows the interpreter may go to another thread for a while.
    taken = [(member, fence, at_ms, held) for fence, (member, at_ms, held) in enumerate(rows, fence_from)]
    dropped = db.execute(sql.DROP_ALL_DUE, (json.dumps([row[0] for row in rows]),)).rowcount
    if dropped == len(rows):
        db.execute(sql.HOLD_ALL, (until_ms, owner, json.dumps(taken)))
    else:  # a member that is no sound text does not come through JSON as it was
        db.executemany(sql.DROP_DUE, [(row[0],) for row in rows])
        db.executemany(sql.HOLD, [(member, until_ms, owner, fence, at_ms, held) for member, fence, at_ms, held in taken])
    return [
        Claimed(member=member, due_at_ms=at_ms, fence=fence, held_since_ms=held)
        for fence, (member, at_ms, held) in enumerate(rows, fence_from)
    ]


def claimed_since(db: sqlite3.Connection, *, owner: str, fence_from: int) -> list[Claimed]:
    """What ``owner`` holds from that fence on, in the order of fences."""
    rows = db.execute(sql.CLAIMED_SINCE, (owner, fence_from)).fetchall()
    return [Claimed(member=row[0], due_at_ms=row[1], fence=row[2], held_since_ms=row[3]) for row in rows]


def ack_all(db: sqlite3.Connection, acks: Sequence[Ack]) -> list[LeaseState]:
    """Ends leases, or clears their copies that were put back, and puts the retries. (Q6, Q7)"""
    leases = {(one.lease.member, one.lease.fence) for one in acks}
    if len(acks) > 1 and len(leases) == len(acks):
        keys = json.dumps(list(leases))
        if db.execute(sql.HELD_AMONG, (keys,)).fetchone()[0] == len(acks):
            db.execute(sql.ACK_ALL, (keys,))
            _put(db, [one.retry for one in acks if one.retry is not None])
            return [LeaseState.DONE] * len(acks)
    return [_ack(db, one) for one in acks]


def _ack(db: sqlite3.Connection, ack: Ack) -> LeaseState:
    key = (ack.lease.member, ack.lease.fence)
    if not db.execute(sql.ACK, key).rowcount and not db.execute(sql.ACK_PUT_BACK, key).rowcount:
        return LeaseState.LOST
    if ack.retry is not None:
        _put(db, (ack.retry,))
    return LeaseState.DONE


def extend(db: sqlite3.Connection, leases: Sequence[Lease], *, owner: str, until_ms: Millis) -> dict[Lease, LeaseState]:
    """Moves the ends of leases, taking back what the reaper put back under the same fence. (Q8)"""
    answers: dict[Lease, LeaseState] = {}
    for lease in leases:
        if db.execute(sql.EXTEND, (until_ms, lease.member, lease.fence)).rowcount:
            answers[lease] = LeaseState.KEPT
            continue
        taken = db.execute(sql.TAKE_BACK, (lease.member, lease.fence)).fetchall()
        if not taken:
            answers[lease] = LeaseState.LOST
            continue
        at_ms, held = taken[0]
        db.execute(sql.HOLD, (lease.member, until_ms, owner, lease.fence, at_ms, held))
        answers[lease] = LeaseState.RECLAIMED
    return answers


def release_all(db: sqlite3.Connection, releases: Sequence[Release]) -> list[LeaseState]:
    """Gives entries back, without a fence. (Q7, Q9)"""
    return [_release(db, one) for one in releases]


def _release(db: sqlite3.Connection, one: Release) -> LeaseState:
    gone = db.execute(sql.RELEASE, (one.lease.member, one.lease.fence)).fetchall()
    if not gone:
        return LeaseState.LOST
    held = one.held_since_ms if gone[0][0] is None else gone[0][0]
    db.execute(sql.PUT_BACK, (one.lease.member, one.at_ms, None, held))
    return LeaseState.DONE


def reap(db: sqlite3.Connection, *, term: int, now_lease_ms: Millis, now_ms: Millis, limit: int) -> list[str]:
    """Puts back entries whose lease ended, the longest ended first; their fences stay. (Q10)"""
    require_term(db, term)
    return _put_back(db, db.execute(sql.EXPIRED, (now_lease_ms, max(limit, 0))).fetchall(), now_ms)


def requeue(db: sqlite3.Connection, *, term: int, now_ms: Millis, limit: int, spare: Collection[str]) -> list[str]:
    """Puts back in-flight entries except those to spare, in the order of members; no fence stays. (Q11)"""
    require_term(db, term)
    return _put_back(db, db.execute(sql.NOT_SPARED, (json.dumps(list(spare)), max(limit, 0))).fetchall(), now_ms)


def _put_back(db: sqlite3.Connection, rows: Sequence[tuple[str, int | None, int | None]], now_ms: Millis) -> list[str]:
    if not rows:
        return []
    db.executemany(sql.DROP_HELD, [(row[0],) for row in rows])
    db.executemany(sql.PUT_BACK, [(member, now_ms, fence, held) for member, fence, held in rows])
    return [row[0] for row in rows]


def contains(db: sqlite3.Connection, members: Collection[str]) -> frozenset[str]:
    """Which of these are in the queue."""
    return frozenset(row[0] for row in db.execute(sql.CONTAINS, (json.dumps(list(members)),)).fetchall())


def entries(db: sqlite3.Connection, statement: str, values: Sequence[object]) -> list[QueuedEntry]:
    """The rows of ``SCAN`` or ``PEEK``."""
    return [
        QueuedEntry(member=row[0], at_ms=row[1], in_flight=bool(row[2]), owner=row[3], fence=row[4], held_since_ms=row[5])
        for row in db.execute(statement, values).fetchall()
    ]
