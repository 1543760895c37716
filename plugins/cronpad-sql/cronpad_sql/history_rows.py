"""Statements and rows of history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from cronpad_core.api import (
    Attempt,
    AttemptStatus,
    RangeKind,
    RetryPlan,
    Run,
    RunKey,
    RunStatus,
    SkipReason,
    SlotRange,
    StreamCapture,
    Trigger,
)
from cronpad_sql.specs import spec_of

__all__ = ["attempt_of", "attempt_row", "keys_json", "output_rows", "range_of", "run_of", "run_row"]

Row = Sequence[Any]

# --------------------------------------------------------------------------------------------------------------- specs

FIND_SPECS = (
    "SELECT s.job_id, s.version, s.hash, s.id FROM json_each(?) k CROSS JOIN specs s ON s.job_id = json_extract(k.value, '$[0]') "
    "AND s.version = json_extract(k.value, '$[1]') AND s.hash = json_extract(k.value, '$[2]')"
)
ADD_SPEC = "INSERT INTO specs (id, job_id, version, hash, spec) VALUES (?, ?, ?, ?, ?)"
LAST_SPEC = "SELECT coalesce(max(id), 0) FROM specs"

# ---------------------------------------------------------------------------------------------------------------- runs

_RUN = (
    "r.seq, r.spec_id, s.spec, r.id, r.job_id, r.scheduled_at, r.trigger, r.job_version, r.status, r.attempt, r.fence, "
    "r.slot_at, r.created_at, r.opened_at, r.finished_at, r.retry_attempt, r.retry_at, r.retry_of, r.skip_reason, r.reason, "
    "r.redeliveries, r.clean, r.cancel_requested"
)
_FROM = f"SELECT {_RUN} FROM runs r JOIN specs s ON s.id = r.spec_id"

RUN_BY_KEY = f"{_FROM} WHERE r.job_id = ? AND r.scheduled_at = ? AND r.trigger = ?"
RUN_BY_ID = f"{_FROM} WHERE r.id = ?"
RUNS_BY_KEYS = (
    f"SELECT {_RUN} FROM json_each(?) k CROSS JOIN runs r ON r.job_id = json_extract(k.value, '$[0]') "
    "AND r.scheduled_at = json_extract(k.value, '$[1]') AND r.trigger = json_extract(k.value, '$[2]') "
    "JOIN specs s ON s.id = r.spec_id"
)
RUNNING_BY_JOBS = (
    "SELECT j.value, (SELECT count(*) FROM runs WHERE ended = 0 AND job_id = j.value AND status = 'running') FROM json_each(?) j"
)
LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM runs"
UNFINISHED = (
    f"SELECT {_RUN} FROM runs r INDEXED BY runs_unfinished_by_id JOIN specs s ON s.id = r.spec_id "
    "WHERE r.ended = 0 AND r.id > ? ORDER BY r.id LIMIT ?"
)
AGE_OF = "SELECT created_at, id FROM runs WHERE id = ?"

ADD_RUN = f"INSERT INTO runs VALUES ({', '.join('?' * 23)})"
SET_RUN = (
    "UPDATE runs SET status = ?, attempt = ?, fence = ?, opened_at = ?, finished_at = ?, retry_attempt = ?, retry_at = ?, "
    "skip_reason = ?, reason = ?, redeliveries = ?, clean = ?, cancel_requested = ?, ended = ? WHERE seq = ?"
)
STATE = (
    "SELECT r.seq, r.status, r.attempt, r.fence, r.retry_attempt, r.retry_at, a.status, a.finished_at FROM runs r "
    "LEFT JOIN attempts a ON a.run_seq = r.seq AND a.attempt = ? AND a.fence = ? "
    "WHERE r.job_id = ? AND r.scheduled_at = ? AND r.trigger = ?"
)
STATES = (
    "SELECT k.key, r.seq, r.status, r.attempt, r.fence, r.retry_attempt, r.retry_at, a.status, a.finished_at "
    "FROM json_each(?) k CROSS JOIN runs r ON r.job_id = json_extract(k.value, '$[2]') "
    "AND r.scheduled_at = json_extract(k.value, '$[3]') AND r.trigger = json_extract(k.value, '$[4]') "
    "LEFT JOIN attempts a ON a.run_seq = r.seq AND a.attempt = json_extract(k.value, '$[0]') "
    "AND a.fence = json_extract(k.value, '$[1]')"
)
FINISH = "UPDATE runs SET status = ?, reason = ?, finished_at = ?, retry_attempt = NULL, retry_at = NULL, ended = 1 WHERE seq = ?"
RETRY = "UPDATE runs SET status = 'retrying', retry_attempt = ?, retry_at = ? WHERE seq = ?"
MARK_CLEAN = "UPDATE runs SET clean = 1 WHERE seq = ?"
RAISE_RUN = (
    "UPDATE runs SET fence = ?4 WHERE job_id = ?1 AND scheduled_at = ?2 AND trigger = ?3 AND attempt = ?5 AND fence = ?6 "
    "AND status = 'running' AND ?4 >= ?6 RETURNING seq"
)
END_RUN = (
    "UPDATE runs SET status = ?4, reason = ?5, fence = ?6, finished_at = ?7, retry_attempt = NULL, retry_at = NULL, ended = 1 "
    "WHERE job_id = ?1 AND scheduled_at = ?2 AND trigger = ?3 AND status = ?8 AND attempt = ?9 AND fence <= ?6 RETURNING seq"
)
SLOTS_WITHIN = "SELECT scheduled_at FROM runs WHERE job_id = ? AND trigger = 's' AND scheduled_at BETWEEN ? AND ?"
LATEST_VERSION = (
    "SELECT max(coalesce((SELECT max(version) FROM specs WHERE job_id = ?1), 0), "
    "coalesce((SELECT max(version) FROM ranges WHERE job_id = ?1), 0))"
)


def listing(*, job: bool, statuses: bool, before: bool) -> str:
    """The statement that lists runs, newest first."""
    wheres = []
    if job:
        wheres.append("r.job_id = :job_id")
    if statuses:
        wheres.append("r.status IN (SELECT value FROM json_each(:statuses))")
    if before:
        wheres.append("(r.created_at, r.id) < (:created_at, :id)")
    where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
    return f"{_FROM}{where} ORDER BY r.created_at DESC, r.id DESC LIMIT :limit"


def run_of(row: Row) -> Run:
    """The run of one row."""
    return Run(
        id=row[3],
        key=RunKey(job_id=row[4], scheduled_at_ms=row[5], trigger=Trigger(row[6])),
        job_version=row[7],
        spec=spec_of(row[2]),
        status=RunStatus(row[8]),
        attempt=row[9],
        fence=row[10],
        slot_at_ms=row[11],
        created_at_ms=row[12],
        opened_at_ms=row[13],
        finished_at_ms=row[14],
        retry=None if row[15] is None else RetryPlan(attempt=row[15], at_ms=row[16]),
        retry_of=row[17],
        skip_reason=None if row[18] is None else SkipReason(row[18]),
        reason=row[19],
        redeliveries=row[20],
        clean=bool(row[21]),
        cancel_requested=bool(row[22]),
    )


def _moving(run: Run) -> tuple[object, ...]:
    """What may change of a run, first part: retry plan."""
    retry = run.retry
    return (None, None) if retry is None else (retry.attempt, retry.at_ms)


def run_row(seq: int, spec_id: int, run: Run) -> Row:
    """The parameters of ``ADD_RUN``, in the order of the table."""
    key = run.key
    return (
        seq,
        run.id,
        key.job_id,
        key.scheduled_at_ms,
        key.trigger.value,
        run.job_version,
        spec_id,
        run.status.value,
        run.attempt,
        run.fence,
        run.slot_at_ms,
        run.created_at_ms,
        run.opened_at_ms,
        run.finished_at_ms,
        *_moving(run),
        run.retry_of,
        None if run.skip_reason is None else run.skip_reason.value,
        run.reason,
        run.redeliveries,
        run.clean,
        run.cancel_requested,
        run.status.terminal,
    )


def run_change(seq: int, run: Run) -> Row:
    """The parameters of ``SET_RUN``."""
    return (
        run.status.value,
        run.attempt,
        run.fence,
        run.opened_at_ms,
        run.finished_at_ms,
        *_moving(run),
        None if run.skip_reason is None else run.skip_reason.value,
        run.reason,
        run.redeliveries,
        run.clean,
        run.cancel_requested,
        run.status.terminal,
        seq,
    )


def keys_json(keys: Iterable[RunKey]) -> str:
    """Keys as ``json_each`` takes them."""
    return json.dumps([(key.job_id, key.scheduled_at_ms, key.trigger.value) for key in keys])


# ------------------------------------------------------------------------------------------------------------ attempts

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


# -------------------------------------------------------------------------------------------------------------- ranges

_RANGE = "job_id, version, first_at, last_at, kind, slots, reason"
ADD_RANGE = f"INSERT INTO ranges ({_RANGE}) VALUES (?, ?, ?, ?, ?, ?, ?)"
RANGES = f"SELECT {_RANGE} FROM ranges WHERE job_id = ? ORDER BY version, first_at"
RANGES_WITHIN = "SELECT first_at, last_at FROM ranges WHERE job_id = ? AND version = ? AND first_at <= ? AND last_at >= ?"
COVERED = (
    "SELECT k.key FROM json_each(?) k WHERE (SELECT last_at FROM ranges WHERE job_id = json_extract(k.value, '$[0]') "
    "AND version = json_extract(k.value, '$[1]') AND first_at <= json_extract(k.value, '$[2]') "
    "ORDER BY first_at DESC LIMIT 1) >= json_extract(k.value, '$[2]')"
)


def range_of(row: Row) -> SlotRange:
    """The range of one row."""
    return SlotRange(
        job_id=row[0], version=row[1], first_ms=row[2], last_ms=row[3], kind=RangeKind(row[4]), count=row[5], reason=row[6]
    )
