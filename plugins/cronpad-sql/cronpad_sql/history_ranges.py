"""Range rows: whatever has an outcome already is cut out before one is written, and what reaches too far is cut off."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from cronpad_core.api import CutRequest, RangeKind, RangeRequest, SlotRange, without_holes
from cronpad_sql.alert_rows import tell
from cronpad_sql.history_rows import Row
from cronpad_sql.terms import require_term

__all__ = ["COVERED", "RANGES", "add_ranges", "cut_ranges", "range_of"]

_RANGE = "job_id, version, first_at, last_at, kind, slots, reason"
_ADD_RANGE = f"INSERT INTO ranges ({_RANGE}) VALUES (?, ?, ?, ?, ?, ?, ?)"
RANGES = f"SELECT {_RANGE} FROM ranges WHERE job_id = ? ORDER BY version, first_at"
_RANGES_WITHIN = "SELECT first_at, last_at FROM ranges WHERE job_id = ? AND version = ? AND first_at <= ? AND last_at >= ?"
COVERED = (
    "SELECT k.key FROM json_each(?) k WHERE (SELECT last_at FROM ranges WHERE job_id = json_extract(k.value, '$[0]') "
    "AND version = json_extract(k.value, '$[1]') AND first_at <= json_extract(k.value, '$[2]') "
    "ORDER BY first_at DESC LIMIT 1) >= json_extract(k.value, '$[2]')"
)
_SLOTS_WITHIN = "SELECT scheduled_at FROM runs WHERE job_id = ? AND trigger = 's' AND scheduled_at BETWEEN ? AND ?"
_BEYOND = f"SELECT {_RANGE} FROM ranges WHERE job_id = ? AND version = ? AND last_at > ? ORDER BY first_at"
_CUT = "UPDATE ranges SET last_at = ?, slots = ? WHERE job_id = ? AND version = ? AND first_at = ?"
_DROP = "DELETE FROM ranges WHERE job_id = ? AND version = ? AND first_at = ?"


def range_of(row: Row) -> SlotRange:
    """The range of one row."""
    return SlotRange(
        job_id=row[0], version=row[1], first_ms=row[2], last_ms=row[3], kind=RangeKind(row[4]), count=row[5], reason=row[6]
    )


def add_ranges(db: sqlite3.Connection, requests: Sequence[RangeRequest], *, term: int) -> list[SlotRange]:
    """Writes what is left of each range, in order; answers the rows written. (H5)"""
    require_term(db, term)
    return [row for request in requests for row in _add(db, request)]


def _add(db: sqlite3.Connection, request: RangeRequest) -> list[SlotRange]:
    wanted = request.range
    slots = db.execute(_SLOTS_WITHIN, (wanted.job_id, wanted.first_ms, wanted.last_ms)).fetchall()
    holes = [(slot, slot) for (slot,) in slots]
    holes += db.execute(_RANGES_WITHIN, (wanted.job_id, wanted.version, wanted.last_ms, wanted.first_ms)).fetchall()
    written = []
    for first_ms, last_ms in without_holes(wanted.first_ms, wanted.last_ms, sorted(holes)):
        count = request.slots(first_ms, last_ms)
        if count:
            row = replace(wanted, first_ms=first_ms, last_ms=last_ms, count=count)
            values = (row.job_id, row.version, row.first_ms, row.last_ms, row.kind.value, row.count, row.reason)
            db.execute(_ADD_RANGE, values)
            written.append(row)
    if written and request.alerts is not None:
        tell(db, (request.alerts,))
    return written


def cut_ranges(db: sqlite3.Connection, requests: Sequence[CutRequest], *, term: int) -> list[SlotRange]:
    """Cuts ranges, counting anew what is left; answers those that were changed or removed, as they were. (H13)"""
    require_term(db, term)
    return [row for request in requests for row in _cut(db, request)]


def _cut(db: sqlite3.Connection, request: CutRequest) -> list[SlotRange]:
    rows = db.execute(_BEYOND, (request.job_id, request.version, request.last_ms)).fetchall()
    beyond = [range_of(row) for row in rows]
    for row in beyond:
        key = (row.job_id, row.version, row.first_ms)
        count = request.slots(row.first_ms, request.last_ms) if row.first_ms <= request.last_ms else 0
        if count:
            db.execute(_CUT, (request.last_ms, count, *key))
        else:
            db.execute(_DROP, key)
    return beyond
