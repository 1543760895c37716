"""Range rows: whatever has an outcome already is cut out before one is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from cronpad_core.api import Millis, RangeRequest, SlotRange
from cronpad_sql import history_rows as sql
from cronpad_sql.terms import require_term

__all__ = ["add_ranges"]


def add_ranges(db: sqlite3.Connection, requests: Sequence[RangeRequest], *, term: int) -> list[SlotRange]:
    """Writes what is left of each range, in order; answers the rows written. (H5)"""
    require_term(db, term)
    return [row for request in requests for row in _add(db, request)]


def _add(db: sqlite3.Connection, request: RangeRequest) -> list[SlotRange]:
    wanted = request.range
    slots = db.execute(sql.SLOTS_WITHIN, (wanted.job_id, wanted.first_ms, wanted.last_ms)).fetchall()
    holes = [(slot, slot) for (slot,) in slots]
    holes += db.execute(sql.RANGES_WITHIN, (wanted.job_id, wanted.version, wanted.last_ms, wanted.first_ms)).fetchall()
    written = []
    for first_ms, last_ms in _pieces(wanted.first_ms, wanted.last_ms, sorted(holes)):
        count = request.slots(first_ms, last_ms)
        if count:
            row = SlotRange(
                job_id=wanted.job_id,
                version=wanted.version,
                kind=wanted.kind,
                first_ms=first_ms,
                last_ms=last_ms,
                count=count,
                reason=wanted.reason,
            )
            values = (row.job_id, row.version, row.first_ms, row.last_ms, row.kind.value, row.count, row.reason)
            db.execute(sql.ADD_RANGE, values)
            written.append(row)
    return written


def _pieces(first_ms: Millis, last_ms: Millis, holes: list[tuple[Millis, Millis]]) -> Iterator[tuple[Millis, Millis]]:
    """What [first, last] is without the holes, which are in order."""
    start_ms = first_ms
    for hole_first, hole_last in holes:
        if hole_first > start_ms:
            yield start_ms, hole_first - 1
        start_ms = max(start_ms, hole_last + 1)
    if start_ms <= last_ms:
        yield start_ms, last_ms
