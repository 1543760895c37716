"""Statements and rows of backfills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cronpad_core.api import Backfill, BackfillStatus, OverlapPolicy, OverlapRule

__all__ = ["ADD", "MOVE", "ONE", "backfill_of", "backfill_row", "listing"]

Row = Sequence[Any]

_COLUMNS = (
    "id, job_id, job_version, from_at, to_at, cursor_at, created_at, status, overlap_policy, overlap_max, started, passed, "
    "finished_at"
)
ONE = f"SELECT {_COLUMNS} FROM backfills WHERE id = ?"
ADD = f"INSERT INTO backfills ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
MOVE = f"INSERT OR REPLACE INTO backfills ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def listing(*, job: bool, unfinished: bool) -> str:
    """The statement that lists backfills, newest first; takes the job, where one is asked for, and how many."""
    wheres = ["job_id = ?"] * job + ["status = 'open'"] * unfinished
    where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
    return f"SELECT {_COLUMNS} FROM backfills{where} ORDER BY created_at DESC, id DESC LIMIT ?"


def backfill_of(row: Row) -> Backfill:
    """The backfill of one row."""
    return Backfill(
        id=row[0],
        job_id=row[1],
        job_version=row[2],
        from_ms=row[3],
        to_ms=row[4],
        cursor_ms=row[5],
        created_at_ms=row[6],
        status=BackfillStatus(row[7]),
        overlap=None if row[8] is None else OverlapRule(policy=OverlapPolicy(row[8]), max=row[9]),
        started=row[10],
        passed=row[11],
        finished_at_ms=row[12],
    )


def backfill_row(one: Backfill) -> Row:
    """The parameters of ``ADD`` and ``MOVE``."""
    rule = one.overlap
    return (
        one.id,
        one.job_id,
        one.job_version,
        one.from_ms,
        one.to_ms,
        one.cursor_ms,
        one.created_at_ms,
        one.status.value,
        *((None, None) if rule is None else (rule.policy.value, rule.max)),
        one.started,
        one.passed,
        one.finished_at_ms,
    )
