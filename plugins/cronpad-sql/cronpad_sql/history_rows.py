"""Statements and rows of runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from cronpad_core.api import RetryPlan, Run, RunKey, RunStatus, SkipReason, Trigger
from cronpad_sql.specs import spec_of

__all__ = ["keys_json", "listing", "run_change", "run_of", "run_row", "started_row"]

Row = Sequence[Any]

_RUN = (
    "r.seq, r.spec_id, s.spec, r.id, r.job_id, r.scheduled_at, r.trigger, r.job_version, r.status, r.attempt, r.fence, "
    "r.slot_at, r.created_at, r.opened_at, r.finished_at, r.retry_attempt, r.retry_at, r.retry_of, r.skip_reason, r.reason, "
    "r.redeliveries, r.clean, r.cancel_requested, r.payload, r.token"
)
_FROM = f"SELECT {_RUN} FROM runs r JOIN specs s ON s.id = r.spec_id"

RUN_BY_KEY = f"{_FROM} WHERE r.job_id = ? AND r.scheduled_at = ? AND r.trigger = ?"
RUN_BY_ID = f"{_FROM} WHERE r.id = ?"
RUNS_BY_KEYS = (
    f"SELECT {_RUN} FROM json_each(?) k CROSS JOIN runs r ON r.job_id = json_extract(k.value, '$[0]') "
    "AND r.scheduled_at = json_extract(k.value, '$[1]') AND r.trigger = json_extract(k.value, '$[2]') "
    "JOIN specs s ON s.id = r.spec_id"
)
RUN_BY_TOKEN = f"{_FROM} WHERE r.job_id = ? AND r.token = ?"
STANDING_BY_JOBS = (
    "SELECT j.value, (SELECT count(*) FROM runs WHERE ended = 0 AND status = 'running' AND job_id = j.value), "
    "(SELECT count(*) FROM runs WHERE ended = 0 AND status = 'waiting' AND job_id = j.value) FROM json_each(?) j"
)
WAITING_OF_JOBS = (
    "SELECT r.job_id, r.created_at, r.id FROM json_each(?) j CROSS JOIN runs r INDEXED BY runs_unfinished "
    "ON r.ended = 0 AND r.status = 'waiting' AND r.job_id = j.value ORDER BY r.created_at, r.id"
)
RUNNING_BY_SCOPE = (
    "SELECT job_id, workspace, scope_key, count(*) FROM runs INDEXED BY runs_unfinished "
    "WHERE ended = 0 AND status = 'running' GROUP BY job_id, workspace, scope_key"
)
FREE_FROM = (
    "WITH RECURSIVE taken (at) AS (VALUES (?1) UNION ALL SELECT at + 1 FROM taken WHERE EXISTS "
    "(SELECT 1 FROM runs WHERE job_id = ?2 AND scheduled_at = taken.at AND trigger = ?3)) SELECT max(at) FROM taken"
)
LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM runs"
UNFINISHED = (
    f"SELECT {_RUN} FROM runs r INDEXED BY runs_unfinished_by_id JOIN specs s ON s.id = r.spec_id "
    "WHERE r.ended = 0 AND r.id > ? ORDER BY r.id LIMIT ?"
)
AGE_OF = "SELECT created_at, id FROM runs WHERE id = ?"

# The driver asks for an adapter of every value that is no plain number or text, NULL too, so rows that have few others get a
# statement of their own.
ADD_STARTED = (
    "INSERT INTO runs (seq, id, job_id, scheduled_at, trigger, job_version, spec_id, status, attempt, fence, slot_at, created_at, "
    "opened_at, reason, redeliveries, clean, cancel_requested, ended, workspace) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, '', 0, 0, 0, 0, ?)"
)
ADD_RUN = f"INSERT INTO runs VALUES ({', '.join('?' * 27)})"
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
ASK_TO_END = (
    "UPDATE runs SET cancel_requested = 1 WHERE job_id = ? AND scheduled_at = ? AND trigger = ? AND ended = 0 "
    "AND cancel_requested = 0"
)
ASK_OTHERS_TO_END = (
    "UPDATE runs SET cancel_requested = 1 WHERE ended = 0 AND status = 'running' AND job_id = ? AND id <> ? "
    "AND cancel_requested = 0"
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
        payload=None if row[23] is None else json.loads(row[23]),
        token=row[24],
    )


def _moving(run: Run) -> tuple[object, ...]:
    """What may change of a run, first part: retry plan."""
    retry = run.retry
    return (None, None) if retry is None else (retry.attempt, retry.at_ms)


def run_row(seq: int, spec_id: int, run: Run) -> Row:
    """The parameters of ``ADD_RUN``, in the order of the table."""
    key, rule = run.key, run.spec.concurrency
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
        run.spec.workspace,
        None if rule is None else rule.key,
        None if run.payload is None else json.dumps(run.payload),
        run.token,
    )


def started_row(seq: int, spec_id: int, run: Run) -> Row | None:
    """The parameters of ``ADD_STARTED`` for a run whose first attempt begins, ``None`` for any that has more to it."""
    key, spec = run.key, run.spec
    usual = (
        run.status is RunStatus.RUNNING
        and run.finished_at_ms is None
        and run.retry is None
        and run.retry_of is None
        and run.skip_reason is None
        and run.payload is None
        and run.token is None
        and spec.concurrency is None
        and not (run.reason or run.redeliveries or run.clean or run.cancel_requested)
    )
    if not usual:
        return None
    return (
        seq,
        run.id,
        key.job_id,
        key.scheduled_at_ms,
        key.trigger._value_,
        run.job_version,
        spec_id,
        run.attempt,
        run.fence,
        run.slot_at_ms,
        run.created_at_ms,
        run.opened_at_ms,
        spec.workspace,
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
    return json.dumps([(key.job_id, key.scheduled_at_ms, key.trigger) for key in keys])
