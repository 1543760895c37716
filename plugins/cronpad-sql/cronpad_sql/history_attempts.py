"""Statements and rows of attempts and their outputs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cronpad_core.api import Attempt, AttemptStatus, StreamCapture
from cronpad_sql.history_rows import Row

__all__ = ["attempt_of", "attempt_row", "output_rows"]

_ATTEMPT = "attempt, fence, status, due_at, claimed_at, opened_at, sent_at, finished_at, held_since, reason, exit_code, facts"
OPEN_ATTEMPT = (
    "INSERT INTO attempts (run_seq, attempt, fence, status, due_at, claimed_at, opened_at, held_since, reason) "
    "VALUES (?, ?, ?, 'running', ?, ?, ?, ?, '') ON CONFLICT DO NOTHING"
)
PUT_ATTEMPT = f"INSERT OR REPLACE INTO attempts (run_seq, {_ATTEMPT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INTERRUPT = "UPDATE attempts SET status = 'interrupted', finished_at = ? WHERE run_seq = ? AND status = 'running' AND fence <> ?"
RAISE_ATTEMPT = "UPDATE OR REPLACE attempts SET fence = ? WHERE run_seq = ? AND attempt = ? AND fence = ?"
RAISE_OUTPUTS = "UPDATE OR REPLACE outputs SET fence = ? WHERE run_seq = ? AND attempt = ? AND fence = ?"
ATTEMPTS = f"SELECT {_ATTEMPT} FROM attempts WHERE run_seq = (SELECT seq FROM runs WHERE id = ?) ORDER BY attempt, fence"
DROP_OUTPUTS = "DELETE FROM outputs WHERE run_seq = ? AND attempt = ? AND fence = ?"
ADD_OUTPUT = "INSERT INTO outputs (run_seq, attempt, fence, position, name, total, head, tail) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
OUTPUTS = (
    "SELECT attempt, fence, name, total, head, tail FROM outputs WHERE run_seq = (SELECT seq FROM runs WHERE id = ?) "
    "ORDER BY attempt, fence, position"
)


def attempt_row(seq: int, attempt: Attempt, status: AttemptStatus) -> Row:
    """The parameters of ``PUT_ATTEMPT``."""
    return (
        seq,
        attempt.attempt,
        attempt.fence,
        status.value,
        attempt.due_at_ms,
        attempt.claimed_at_ms,
        attempt.opened_at_ms,
        attempt.sent_at_ms,
        attempt.finished_at_ms,
        attempt.held_since_ms,
        attempt.reason,
        attempt.exit_code,
        json.dumps(dict(attempt.facts)) if attempt.facts else None,
    )


def output_rows(seq: int, attempt: Attempt) -> list[Row]:
    """The parameters of ``ADD_OUTPUT``, one for each stream."""
    return [
        (seq, attempt.attempt, attempt.fence, position, one.name, one.total, one.head, one.tail)
        for position, one in enumerate(attempt.output)
    ]


def attempt_of(run_id: str, row: Row, output: Sequence[StreamCapture]) -> Attempt:
    """The attempt of one row with its output."""
    return Attempt(
        run_id=run_id,
        attempt=row[0],
        fence=row[1],
        status=AttemptStatus(row[2]),
        due_at_ms=row[3],
        claimed_at_ms=row[4],
        opened_at_ms=row[5],
        sent_at_ms=row[6],
        finished_at_ms=row[7],
        held_since_ms=row[8],
        reason=row[9],
        exit_code=row[10],
        facts={} if row[11] is None else json.loads(row[11]),
        output=tuple(output),
    )
