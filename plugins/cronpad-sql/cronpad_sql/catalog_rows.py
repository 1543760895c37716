"""Statements and rows of jobs and their versions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cronpad_core.api import Job, JobStatus, JobVersion, Millis, Replay
from cronpad_sql.specs import spec_of, spec_text

__all__ = [
    "AMEND_VERSION",
    "MARK_LEDGERED",
    "MOVE",
    "PUT_JOB",
    "PUT_VERSION",
    "SELECT_BY_ID",
    "SELECT_BY_IDS",
    "SELECT_BY_NAME",
    "SELECT_OVERDUE",
    "SELECT_OWED",
    "SELECT_PAGE",
    "SELECT_PAGE_IN",
    "SELECT_VERSIONS",
    "SET_COMPLETED",
    "SET_MOVED",
    "SET_NEXT",
    "job_of",
    "job_row",
    "moved_row",
    "same_job",
    "statuses_json",
    "version_of",
    "version_bounds",
    "version_row",
]

Row = Sequence[Any]

_STATUSES = {status.value: status for status in JobStatus}

_JOB = (
    "id, origin, version, status, spec, next_run_at, valid_from, replay_until, replay_then, clock_epoch, "
    "paused_reason, paused_until"
)
_VERSION = "job_id, version, spec, valid_from, valid_until, open_from"

SELECT_BY_ID = f"SELECT {_JOB} FROM jobs WHERE id = ?"
SELECT_BY_IDS = f"SELECT {_JOB} FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
SELECT_BY_NAME = f"SELECT {_JOB} FROM jobs WHERE name = ? AND status <> 'deleted' ORDER BY id"
SELECT_PAGE = f"SELECT {_JOB} FROM jobs WHERE id > ? ORDER BY id LIMIT ?"
SELECT_PAGE_IN = f"SELECT {_JOB} FROM jobs WHERE id > ? AND status IN (SELECT value FROM json_each(?)) ORDER BY id LIMIT ?"
SELECT_OVERDUE = (
    f"SELECT {_JOB} FROM jobs WHERE status = 'active' AND next_run_at IS NOT NULL AND next_run_at < ? "
    "ORDER BY next_run_at, id LIMIT ?"
)
PUT_JOB = (
    f"INSERT INTO jobs ({_JOB}, name) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
    "origin = excluded.origin, version = excluded.version, status = excluded.status, spec = excluded.spec, "
    "next_run_at = excluded.next_run_at, valid_from = excluded.valid_from, replay_until = excluded.replay_until, "
    "replay_then = excluded.replay_then, clock_epoch = excluded.clock_epoch, paused_reason = excluded.paused_reason, "
    "paused_until = excluded.paused_until, name = excluded.name"
)
MOVE = (
    "UPDATE jobs SET next_run_at = ?1, replay_until = ?2, replay_then = ?3, "
    "status = CASE WHEN ?1 IS NULL THEN 'completed' ELSE status END "
    "WHERE id = ?4 AND version = ?5 AND clock_epoch = ?6 AND next_run_at = ?7 AND status = 'active' "
    f"RETURNING {_JOB}"
)
# Of rows that were read in the same transaction.
SET_NEXT = "UPDATE jobs SET next_run_at = ? WHERE id = ?"
SET_COMPLETED = "UPDATE jobs SET next_run_at = NULL, status = 'completed', replay_until = NULL, replay_then = NULL WHERE id = ?"
SET_MOVED = "UPDATE jobs SET next_run_at = ?, status = ?, replay_until = ?, replay_then = ? WHERE id = ?"

SELECT_VERSIONS = f"SELECT {_VERSION} FROM job_versions WHERE job_id = ? ORDER BY version"
SELECT_OWED = f"SELECT {_VERSION} FROM job_versions WHERE owed = 1 ORDER BY valid_until, job_id, version LIMIT ?"
PUT_VERSION = (
    f"INSERT INTO job_versions ({_VERSION}, owed) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job_id, version) DO UPDATE SET "
    "spec = excluded.spec, valid_from = excluded.valid_from, valid_until = excluded.valid_until, "
    "open_from = excluded.open_from, owed = excluded.owed"
)
AMEND_VERSION = (
    "UPDATE job_versions SET valid_from = ?1, valid_until = ?2, open_from = ?3, owed = ?4 WHERE job_id = ?5 AND version = ?6 "
    "AND NOT (valid_from = ?1 AND valid_until IS ?2 AND open_from IS ?3)"
)
MARK_LEDGERED = (
    "UPDATE job_versions SET owed = 0 WHERE job_id = ? AND version = ? AND valid_from = ? AND valid_until IS ? AND open_from IS ?"
)


def job_of(row: Row) -> Job:
    """The job of one row."""
    return Job(
        id=row[0],
        origin=row[1],
        version=row[2],
        status=_STATUSES.get(row[3]) or JobStatus(row[3]),
        spec=spec_of(row[4]),
        next_run_at_ms=row[5],
        valid_from_ms=row[6],
        replay=None if row[7] is None else Replay(until_ms=row[7], then_ms=row[8]),
        clock_epoch=row[9],
        paused_reason=row[10],
        paused_until_ms=row[11],
    )


def moved_row(row: Row, to_ms: Millis | None, replay: Replay | None) -> Row:
    """The row of an active job as it is once the job was moved."""
    until_ms, then_ms = (None, None) if replay is None else (replay.until_ms, replay.then_ms)
    status = row[3] if to_ms is not None else JobStatus.COMPLETED.value
    return *row[:3], status, row[4], to_ms, row[6], until_ms, then_ms, *row[9:]


def job_row(job: Job) -> Row:
    """The parameters of ``PUT_JOB``."""
    replay = job.replay
    return (
        job.id,
        job.origin,
        job.version,
        job.status.value,
        spec_text(job.spec),
        job.next_run_at_ms,
        job.valid_from_ms,
        None if replay is None else replay.until_ms,
        None if replay is None else replay.then_ms,
        job.clock_epoch,
        job.paused_reason,
        job.paused_until_ms,
        job.spec.name,
    )


def same_job(stored: Row | None, expected: Job | None) -> bool:
    """Whether the row is the job as the caller read it."""
    if stored is None or expected is None:
        return stored is None and expected is None
    # A spec that never was a row may hold tuples where JSON has lists; as text they are the same.
    return job_of(stored) == expected or tuple(stored) == tuple(job_row(expected)[:12])


def version_of(row: Row) -> JobVersion:
    """The version of one row."""
    return JobVersion(
        job_id=row[0], version=row[1], spec=spec_of(row[2]), valid_from_ms=row[3], valid_until_ms=row[4], open_from_ms=row[5]
    )


def version_row(version: JobVersion) -> Row:
    """The parameters of ``PUT_VERSION``."""
    return version.job_id, version.version, spec_text(version.spec), *_bounds(version)


def version_bounds(version: JobVersion) -> Row:
    """The parameters of ``AMEND_VERSION``."""
    return *_bounds(version), version.job_id, version.version


def _bounds(version: JobVersion) -> tuple[object, ...]:
    until_ms, open_ms = version.valid_until_ms, version.open_from_ms
    owed = until_ms is not None and open_ms is not None and open_ms <= until_ms
    return version.valid_from_ms, until_ms, open_ms, int(owed)


def statuses_json(statuses: Sequence[JobStatus]) -> str:
    """The statuses as ``json_each`` takes them."""
    return json.dumps([status.value for status in statuses])
