"""Recording results: the attempt row, the run and the retry plan, only under the fence that runs it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from cronpad_core.api import AttemptStatus, RecordAnswer, RecordKind, RecordRequest, RetryPlan, RunStatus
from cronpad_sql import history_rows as sql

__all__ = ["record_all"]

_REPLACEABLE = frozenset({None, AttemptStatus.RUNNING.value, AttemptStatus.INTERRUPTED.value, AttemptStatus.STALE.value})


def record_all(db: sqlite3.Connection, requests: Sequence[RecordRequest]) -> list[RecordAnswer]:
    """Stores results in order, each under its fence. (H3, H4)"""
    return [_record(db, request) for request in requests]


def _record(db: sqlite3.Connection, request: RecordRequest) -> RecordAnswer:
    key, attempt = request.key, request.attempt
    number, fence = attempt.attempt, attempt.fence
    row = db.execute(sql.STATE, (number, fence, key.job_id, key.scheduled_at_ms, key.trigger.value)).fetchone()
    if row is None:
        return RecordAnswer(kind=RecordKind.STALE, status=None)
    seq, status, run_attempt, run_fence, retry_attempt, retry_at, known, known_end = row
    if known is not None and known != "running" and (known, known_end) == (attempt.status.value, attempt.finished_at_ms):
        plan = RetryPlan(attempt=retry_attempt, at_ms=retry_at) if status == "retrying" and run_attempt == number else None
        return RecordAnswer(kind=RecordKind.ALREADY, status=RunStatus(status), retry=plan)
    if status != "running" or (run_attempt, run_fence) != (number, fence):
        if known in _REPLACEABLE:
            _put_attempt(db, seq, request, AttemptStatus.STALE, known)
        return RecordAnswer(kind=RecordKind.STALE, status=RunStatus(status))
    _put_attempt(db, seq, request, attempt.status, known)
    _move_run(db, seq, request)
    return RecordAnswer(kind=RecordKind.RECORDED, status=request.status, retry=request.retry)


def _put_attempt(db: sqlite3.Connection, seq: int, request: RecordRequest, status: AttemptStatus, known: str | None) -> None:
    attempt = request.attempt
    db.execute(sql.PUT_ATTEMPT, sql.attempt_row(seq, attempt, status))
    if known is not None and known != "running":
        db.execute(sql.DROP_OUTPUTS, (seq, attempt.attempt, attempt.fence))
    if attempt.output:
        db.executemany(sql.ADD_OUTPUT, sql.output_rows(seq, attempt))


def _move_run(db: sqlite3.Connection, seq: int, request: RecordRequest) -> None:
    attempt, retry = request.attempt, request.retry
    if request.status is RunStatus.RUNNING:
        db.execute(sql.MARK_CLEAN, (seq,))
    elif request.status is RunStatus.RETRYING:
        plan = (None, None) if retry is None else (retry.attempt, retry.at_ms)
        db.execute(sql.RETRY, (*plan, seq))
    else:
        db.execute(sql.FINISH, (request.status.value, attempt.reason, attempt.finished_at_ms, seq))
