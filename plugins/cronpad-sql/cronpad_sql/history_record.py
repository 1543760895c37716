"""Recording results: the attempt row, the run and the retry plan, only under the fence that runs it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field

from cronpad_core.api import AttemptStatus, RecordAnswer, RecordKind, RecordRequest, RetryPlan, RunStatus
from cronpad_sql import history_attempts as attempts_sql
from cronpad_sql import history_rows as sql
from cronpad_sql.alert_rows import tell
from cronpad_sql.history_rows import Row

__all__ = ["record_all"]

_PUT_PLAIN = (  # without NULLs, which cost the driver more than the rest of the row
    "INSERT OR REPLACE INTO attempts "
    "(run_seq, attempt, fence, status, due_at, claimed_at, opened_at, sent_at, finished_at, reason) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_REPLACEABLE = frozenset({None, AttemptStatus.RUNNING.value, AttemptStatus.INTERRUPTED.value, AttemptStatus.STALE.value})


@dataclass(slots=True)
class _Writes:
    """What one call is going to write, by statement."""

    plain: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    stale_outputs: list[Row] = field(default_factory=list)
    outputs: list[Row] = field(default_factory=list)
    finished: list[Row] = field(default_factory=list)
    retrying: list[Row] = field(default_factory=list)
    clean: list[Row] = field(default_factory=list)

    def flush(self, db: sqlite3.Connection) -> None:
        for statement, rows in (
            (_PUT_PLAIN, self.plain),
            (attempts_sql.PUT_ATTEMPT, self.attempts),
            (attempts_sql.DROP_OUTPUTS, self.stale_outputs),
            (attempts_sql.ADD_OUTPUT, self.outputs),
            (sql.FINISH, self.finished),
            (sql.RETRY, self.retrying),
            (sql.MARK_CLEAN, self.clean),
        ):
            if rows:
                db.executemany(statement, rows)


def record_all(db: sqlite3.Connection, requests: Sequence[RecordRequest]) -> list[RecordAnswer]:
    """Stores results in order, each under its fence. (H3, H4)"""
    if len({request.key for request in requests}) < len(requests):
        return [answer for request in requests for answer in _record(db, (request,))]
    return _record(db, requests)


def _record(db: sqlite3.Connection, requests: Sequence[RecordRequest]) -> list[RecordAnswer]:
    """Results of different runs: what is there is read at once, and what follows is written at once."""
    asked = []
    for request in requests:
        key, attempt = request.key, request.attempt
        asked.append((attempt.attempt, attempt.fence, key.job_id, key.scheduled_at_ms, key.trigger._value_))
    if len(asked) == 1:
        rows = [(0, *row) for row in db.execute(sql.STATE, asked[0]).fetchall()]
    else:
        rows = db.execute(sql.STATES, (json.dumps(asked),)).fetchall()
    states = {row[0]: row[1:] for row in rows}
    writes = _Writes()
    answers = [_decide(writes, request, states.get(index)) for index, request in enumerate(requests)]
    writes.flush(db)
    if any(request.alerts is not None for request in requests):
        done = zip(requests, answers, strict=True)
        tell(db, [request.alerts for request, answer in done if answer.kind is RecordKind.RECORDED])
    return answers


def _decide(writes: _Writes, request: RecordRequest, row: Row | None) -> RecordAnswer:
    attempt = request.attempt
    number, fence = attempt.attempt, attempt.fence
    if row is None:
        return RecordAnswer(kind=RecordKind.STALE, status=None)
    seq, status, run_attempt, run_fence, retry_attempt, retry_at, known, known_end = row
    if known is not None and known != "running" and (known, known_end) == (attempt.status.value, attempt.finished_at_ms):
        plan = RetryPlan(attempt=retry_attempt, at_ms=retry_at) if status == "retrying" and run_attempt == number else None
        return RecordAnswer(kind=RecordKind.ALREADY, status=RunStatus(status), retry=plan)
    if status != "running" or (run_attempt, run_fence) != (number, fence):
        if known in _REPLACEABLE:
            _put_attempt(writes, seq, request, AttemptStatus.STALE, known)
        return RecordAnswer(kind=RecordKind.STALE, status=RunStatus(status))
    _put_attempt(writes, seq, request, attempt.status, known)
    _move_run(writes, seq, request)
    return RecordAnswer(kind=RecordKind.RECORDED, status=request.status, retry=request.retry)


def _put_attempt(writes: _Writes, seq: int, request: RecordRequest, status: AttemptStatus, known: str | None) -> None:
    attempt = request.attempt
    if attempt.held_since_ms is None and attempt.exit_code is None and not attempt.facts:
        writes.plain.append(
            (
                seq,
                attempt.attempt,
                attempt.fence,
                status._value_,
                attempt.due_at_ms,
                attempt.claimed_at_ms,
                attempt.opened_at_ms,
                attempt.sent_at_ms,
                attempt.finished_at_ms,
                attempt.reason,
            )
        )
    else:
        writes.attempts.append(attempts_sql.attempt_row(seq, attempt, status))
    if known is not None and known != "running":
        writes.stale_outputs.append((seq, attempt.attempt, attempt.fence))
    if attempt.output:
        writes.outputs.extend(attempts_sql.output_rows(seq, attempt))


def _move_run(writes: _Writes, seq: int, request: RecordRequest) -> None:
    attempt, retry = request.attempt, request.retry
    if request.status is RunStatus.RUNNING:
        writes.clean.append((seq,))
    elif request.status is RunStatus.RETRYING:
        plan = (None, None) if retry is None else (retry.attempt, retry.at_ms)
        writes.retrying.append((*plan, seq))
    else:
        writes.finished.append((request.status._value_, attempt.reason, attempt.finished_at_ms, seq))
