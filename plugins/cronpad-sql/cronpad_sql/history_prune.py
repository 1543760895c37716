"""Removing what is old, one bounded batch in one transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from cronpad_core.api import Millis, Pruned, PruneRequest, Trigger
from cronpad_sql.history_rows import Row
from cronpad_sql.history_specs import SpecRows
from cronpad_sql.terms import require_term

__all__ = ["LEDGER_BEGINS", "Crowded", "find_crowded", "prune"]

_AT_ONCE = 10
"""While the file is too large, so many runs are removed between looks at its size."""

LEDGER_BEGINS = (
    "INSERT INTO ledger (job_id, from_at) VALUES (?, ?) "
    "ON CONFLICT (job_id) DO UPDATE SET from_at = max(from_at, excluded.from_at)"
)
_CROWDED_JOBS = "SELECT job_id FROM runs GROUP BY job_id HAVING count(*) > ?"
_CROWDED_VERSIONS = "SELECT job_id, version FROM ranges GROUP BY job_id, version HAVING count(*) > ?"

_RUN = "SELECT seq, job_id, scheduled_at, trigger, spec_id FROM runs"
_MAY_GO = (  # the run at which a backfill stands says how far it got
    "ended = 1 AND NOT (trigger = 'b' AND EXISTS (SELECT 1 FROM backfills b "
    "WHERE b.job_id = runs.job_id AND b.status = 'open' AND b.cursor_at = runs.scheduled_at))"
)
_IN_ORDER = "ORDER BY created_at, id LIMIT ?"
_OLD_RUNS = f"{_RUN} WHERE {_MAY_GO} AND created_at < ? {_IN_ORDER}"
_TOO_MANY = (
    "SELECT job_id, created_at, id FROM runs WHERE job_id = ? AND ended = 1 ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET ?"
)
_RUNS_UP_TO = f"{_RUN} WHERE job_id = ? AND {_MAY_GO} AND (created_at, id) <= (?, ?) {_IN_ORDER}"
_OLDEST_RUNS = f"{_RUN} WHERE {_MAY_GO} {_IN_ORDER}"
_DELETE_RUNS = (
    "DELETE FROM outputs WHERE run_seq = ?",
    "DELETE FROM attempts WHERE run_seq = ?",
    "DELETE FROM runs WHERE seq = ?",
)
_DELETE_SPEC = (
    "DELETE FROM specs WHERE id = ? AND NOT EXISTS (SELECT 1 FROM runs INDEXED BY runs_of_job "
    "WHERE runs.job_id = specs.job_id AND runs.spec_id = specs.id)"
)

_RANGE = "SELECT job_id, version, first_at, last_at FROM ranges"
_OLD_RANGES = f"{_RANGE} WHERE last_at < ? ORDER BY last_at LIMIT ?"
_TOO_MANY_RANGES = (
    "SELECT job_id, version, first_at FROM ranges WHERE job_id = ? AND version = ? ORDER BY first_at DESC LIMIT 1 OFFSET ?"
)
_RANGES_UP_TO = f"{_RANGE} WHERE job_id = ? AND version = ? AND first_at <= ? ORDER BY first_at LIMIT ?"
_DELETE_RANGE = "DELETE FROM ranges WHERE job_id = ? AND version = ? AND first_at = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowded:
    """Jobs that may have too many runs, and versions that may have too many ranges."""

    jobs: tuple[str, ...] = ()
    versions: tuple[tuple[str, int], ...] = ()


def find_crowded(db: sqlite3.Connection, keep: int) -> Crowded:
    """Finds them over whole indexes: to be asked where nobody waits, not in the lane."""
    jobs = db.execute(_CROWDED_JOBS, (keep,)).fetchall()
    versions = db.execute(_CROWDED_VERSIONS, (keep,)).fetchall()
    return Crowded(jobs=tuple(job_id for (job_id,) in jobs), versions=tuple(versions))


@dataclass(slots=True)
class _Batch:
    """``room`` is how many rows more may go, ``more`` that some were left for want of it; ``begins``: where ledgers begin now."""

    db: sqlite3.Connection
    room: int
    removed: int = 0
    more: bool = False
    begins: dict[str, Millis] = field(default_factory=dict)
    specs: set[int] = field(default_factory=set)

    def runs(self, statement: str, *values: object, at_most: int | None = None) -> int:
        """Removes runs that the statement finds, with what belongs to them; answers how many."""
        taken = self._take(statement, values, at_most)
        seqs = [(row[0],) for row in taken]
        for delete in _DELETE_RUNS:
            self.db.executemany(delete, seqs)
        for _, job_id, scheduled_at_ms, trigger, spec_id in taken:
            self.specs.add(spec_id)
            if trigger == Trigger.SCHEDULED.value:
                self._begin_after(job_id, scheduled_at_ms)
        return len(taken)

    def ranges(self, statement: str, *values: object) -> None:
        """Removes ranges that the statement finds."""
        taken = self._take(statement, values, None)
        self.db.executemany(_DELETE_RANGE, [row[:3] for row in taken])
        for job_id, _, _, last_ms in taken:
            self._begin_after(job_id, last_ms)

    def _take(self, statement: str, values: tuple[object, ...], at_most: int | None) -> list[Row]:
        most = self.room if at_most is None else min(self.room, at_most)
        rows = self.db.execute(statement, (*values, most + 1)).fetchall()
        self.more = self.more or len(rows) > self.room
        self.room -= len(rows[:most])
        self.removed += len(rows[:most])
        return rows[:most]

    def _begin_after(self, job_id: str, slot_ms: Millis) -> None:
        self.begins[job_id] = max(slot_ms + 1, self.begins.get(job_id, slot_ms + 1))


def prune(db: sqlite3.Connection, specs: SpecRows, *, request: PruneRequest, crowded: Crowded, term: int) -> Pruned:
    """Removes one batch, and moves the begin of the ledgers past it. (H11)"""
    require_term(db, term)
    limit = max(request.limit, 0)
    runs, ranges = _Batch(db, limit), _Batch(db, limit)
    if request.before_ms is not None:
        runs.runs(_OLD_RUNS, request.before_ms)
        ranges.ranges(_OLD_RANGES, request.before_ms)
    if request.keep is not None:
        _thin_out(runs, ranges, crowded, request.keep)
    if request.max_bytes is not None:
        while not runs.more and _bytes(db) > request.max_bytes and runs.runs(_OLDEST_RUNS, at_most=_AT_ONCE):
            pass
    db.executemany(LEDGER_BEGINS, [*runs.begins.items(), *ranges.begins.items()])
    if db.executemany(_DELETE_SPEC, [(spec_id,) for spec_id in runs.specs]).rowcount > 0:
        specs.forget()
    return Pruned(runs=runs.removed, ranges=ranges.removed, more=runs.more or ranges.more)


def _thin_out(runs: _Batch, ranges: _Batch, crowded: Crowded, keep: int) -> None:
    for job_id in crowded.jobs:
        if runs.more:
            break
        newest = runs.db.execute(_TOO_MANY, (job_id, keep)).fetchone()
        if newest is not None:
            runs.runs(_RUNS_UP_TO, *newest)
    for version in crowded.versions:
        if ranges.more:
            break
        newest = ranges.db.execute(_TOO_MANY_RANGES, (*version, keep)).fetchone()
        if newest is not None:
            ranges.ranges(_RANGES_UP_TO, *newest)


def _bytes(db: sqlite3.Connection) -> int:
    """What the file holds; pages that were freed are used again and do not count."""
    pages, free, size = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size
