"""Control in SQLite: jobs, their versions, workspaces, and the record of the holder."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from cronpad_core.api import (
    Job,
    JobStatus,
    JobVersion,
    JobWrite,
    Millis,
    Move,
    MoveAnswer,
    MoveKind,
    StaleWriteError,
    Workspace,
)
from cronpad_sql import catalog_rows as sql
from cronpad_sql import workspace_rows
from cronpad_sql.terms import SqliteTerms, require_term

__all__ = ["SqliteCatalog"]


class SqliteCatalog(SqliteTerms):
    """Jobs, versions and workspaces in ``cronpad.db``."""

    async def job(self, job_id: str) -> Job | None:
        """One job by id, deleted ones included."""
        return await self._reader.ask(_jobs_of, job_id)

    async def jobs(self, *, statuses: Collection[JobStatus] | None = None, after: str = "", limit: int = 1_000) -> list[Job]:
        """A page of jobs in the order of ids."""
        if statuses is None:
            return await self._jobs(sql.SELECT_PAGE, after, max(limit, 0))
        return await self._jobs(sql.SELECT_PAGE_IN, after, sql.statuses_json(list(statuses)), max(limit, 0))

    async def jobs_named(self, name: str) -> list[Job]:
        """Jobs of this name that are not deleted, in the order of ids."""
        return await self._jobs(sql.SELECT_BY_NAME, name)

    async def overdue(self, *, before_ms: Millis, limit: int) -> list[Job]:
        """Active jobs that are due before ``before_ms``, oldest first; an index makes the cost follow what is found."""
        return await self._jobs(sql.SELECT_OVERDUE, before_ms, max(limit, 0))

    async def _jobs(self, statement: str, *values: object) -> list[Job]:
        return await self._reader.run(lambda db: [sql.job_of(row) for row in db.execute(statement, values).fetchall()])

    async def write(self, writes: Sequence[JobWrite], *, term: int | None) -> None:
        """Stores job changes, all or nothing. (C2, C5)"""
        await self._lane.run(partial(_write, writes=writes, term=term))

    async def move(self, moves: Sequence[Move]) -> list[MoveAnswer]:
        """Advances jobs by compare-and-set, one answer for each; a refused term refuses all. (C3, C4)"""
        return await self._lane.run_bulk(_move_all, moves)

    async def versions(self, job_id: str) -> list[JobVersion]:
        """All versions of a job, oldest first. (C5)"""
        return await self._versions(sql.SELECT_VERSIONS, job_id)

    async def ended_versions(self, *, limit: int) -> list[JobVersion]:
        """Versions that ended with open slots and are owed to the ledger, in the order of their ends."""
        return await self._versions(sql.SELECT_OWED, max(limit, 0))

    async def _versions(self, statement: str, *values: object) -> list[JobVersion]:
        return await self._reader.run(lambda db: [sql.version_of(row) for row in db.execute(statement, values).fetchall()])

    async def mark_ledgered(self, versions: Sequence[JobVersion]) -> None:
        """Forgets what was owed, where it still ends as the caller saw it."""
        rows = [(one.job_id, one.version, one.valid_from_ms, one.valid_until_ms, one.open_from_ms) for one in versions]

        def mark(db: sqlite3.Connection) -> None:
            db.executemany(sql.MARK_LEDGERED, rows)

        await self._lane.run(mark)

    async def workspace(self, name: str) -> Workspace | None:
        """One workspace by name."""
        return await self._reader.run(partial(workspace_rows.one, name=name))

    async def workspaces(self) -> list[Workspace]:
        """All workspaces that something was set of, by name."""
        return await self._reader.run(workspace_rows.every)

    async def set_workspace(self, new: Workspace, *, expected: Workspace | None, term: int) -> None:
        """Stores a workspace where it is what the caller read. (C6)"""

        def store(db: sqlite3.Connection) -> None:
            require_term(db, term)
            if workspace_rows.one(db, new.name) != expected:
                raise StaleWriteError(f"workspace {new.name} is not as it was read")
            workspace_rows.put(db, new)

        await self._lane.run(store)


def _jobs_of(db: sqlite3.Connection, job_ids: Sequence[str]) -> list[Job | None]:
    found = {job_id: sql.job_of(row) for job_id, row in _rows_of(db, job_ids).items()}
    return [found.get(job_id) for job_id in job_ids]


def _rows_of(db: sqlite3.Connection, job_ids: Sequence[str]) -> dict[str, sql.Row]:
    if len(job_ids) == 1:
        rows = db.execute(sql.SELECT_BY_ID, job_ids).fetchall()
    else:
        rows = db.execute(sql.SELECT_BY_IDS, (json.dumps(job_ids),)).fetchall()
    return {row[0]: row for row in rows}


def _write(db: sqlite3.Connection, *, writes: Sequence[JobWrite], term: int | None) -> None:
    if term is not None:
        require_term(db, term)
    for write in writes:
        job = write.job
        stored = db.execute(sql.SELECT_BY_ID, (job.id,)).fetchone()
        if not sql.same_job(stored, write.expected):
            raise StaleWriteError(f"job {job.id} is not as it was read")
        if stored is not None and job.version < stored[2]:
            raise ValueError(f"job {job.id}: version {job.version} after {stored[2]}")
        for version in (write.ends, write.begins):
            if version is not None:
                db.execute(sql.PUT_VERSION, sql.version_row(version))
        db.executemany(sql.AMEND_VERSION, [sql.version_bounds(version) for version in write.amends])
        db.execute(sql.PUT_JOB, sql.job_row(job))


def _move_all(db: sqlite3.Connection, moves: Sequence[Move]) -> list[MoveAnswer]:
    for term in {move.term for move in moves}:
        require_term(db, term)
    if len(moves) == 1 or len({move.job_id for move in moves}) < len(moves):
        return [_move(db, move) for move in moves]
    stored = _rows_of(db, [move.job_id for move in moves])
    writes = _Writes()
    answers = [_answer(writes, move, stored.get(move.job_id)) for move in moves]
    writes.flush(db)
    return answers


@dataclass(slots=True)
class _Writes:
    """What one call is going to write, by statement. The usual have no NULLs to bind: the driver is slow with them."""

    following: list[sql.Row] = field(default_factory=list)
    completed: list[sql.Row] = field(default_factory=list)
    others: list[sql.Row] = field(default_factory=list)

    def flush(self, db: sqlite3.Connection) -> None:
        for statement, rows in (
            (sql.SET_NEXT, self.following),
            (sql.SET_COMPLETED, self.completed),
            (sql.SET_MOVED, self.others),
        ):
            if rows:
                db.executemany(statement, rows)


def _answer(writes: _Writes, move: Move, row: sql.Row | None) -> MoveAnswer:
    """As :func:`_move`, of a row that was read in this transaction; what has to be written is noted."""
    job_id, to_ms, replay = move.job_id, move.to_ms, move.replay
    if row is None or (row[2], row[3], row[5], row[9]) != (move.version, "active", move.from_ms, move.clock_epoch):
        return _unmoved(None if row is None else sql.job_of(row), move)
    if replay is not None:
        writes.others.append((to_ms, "active" if to_ms is not None else "completed", replay.until_ms, replay.then_ms, job_id))
    elif to_ms is None:
        writes.completed.append((job_id,))
    elif row[7] is None and row[8] is None:
        writes.following.append((to_ms, job_id))
    else:
        writes.others.append((to_ms, "active", None, None, job_id))
    return MoveAnswer(kind=MoveKind.MOVED, job=sql.job_of(sql.moved_row(row, to_ms, replay)))


def _move(db: sqlite3.Connection, move: Move) -> MoveAnswer:
    replay = move.replay
    until_ms, then_ms = (None, None) if replay is None else (replay.until_ms, replay.then_ms)
    values = (move.to_ms, until_ms, then_ms, move.job_id, move.version, move.clock_epoch, move.from_ms)
    moved = db.execute(sql.MOVE, values).fetchall()
    if moved:
        return MoveAnswer(kind=MoveKind.MOVED, job=sql.job_of(moved[0]))
    row = db.execute(sql.SELECT_BY_ID, (move.job_id,)).fetchone()
    return _unmoved(None if row is None else sql.job_of(row), move)


def _unmoved(job: Job | None, move: Move) -> MoveAnswer:
    same = job is not None and job.status is JobStatus.ACTIVE
    if job is None or not same or (job.version, job.clock_epoch) != (move.version, move.clock_epoch):
        return MoveAnswer(kind=MoveKind.CHANGED, job=job)
    return MoveAnswer(kind=MoveKind.ALREADY, job=job)
