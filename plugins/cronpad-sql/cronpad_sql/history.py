"""History in SQLite: runs, attempts, outputs, the ledger, and what people asked for."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from functools import partial

from cronpad_core.api import (
    MOVES,
    Attempt,
    EndRequest,
    OpenDecision,
    OpenRequest,
    RangeRequest,
    RecordAnswer,
    RecordRequest,
    Run,
    RunKey,
    RunStatus,
    SlotRange,
    StreamCapture,
)
from cronpad_sql import history_attempts as attempts_sql
from cronpad_sql import history_rows as sql
from cronpad_sql.alert_rows import tell
from cronpad_sql.history_asked import SqliteAsked
from cronpad_sql.history_keeping import SqliteKeeping
from cronpad_sql.history_open import Opener
from cronpad_sql.history_outbox import SqliteOutbox
from cronpad_sql.history_ranges import RANGES, add_ranges, range_of
from cronpad_sql.history_record import record_all
from cronpad_sql.history_specs import LATEST_VERSION, SpecRows
from cronpad_sql.lane import Lane
from cronpad_sql.reader import Reader

__all__ = ["SqliteHistory"]


class SqliteHistory(SqliteAsked, SqliteKeeping, SqliteOutbox):
    """Runs, attempts, ranges and backfills in ``history.db``."""

    def __init__(self, lane: Lane, reader: Reader) -> None:
        super().__init__(lane, reader)
        self._specs = SpecRows()
        lane.on_rollback = self._specs.forget
        self._open_all = Opener(self._specs).open_all

    async def open_runs(self, requests: Sequence[OpenRequest]) -> list[OpenDecision]:
        """Opens runs in order, each as ``decide_open`` says. (H1, H2, H6)"""
        return await self._lane.run_bulk(self._open_all, requests)

    async def record(self, requests: Sequence[RecordRequest]) -> list[RecordAnswer]:
        """Stores results in order, each under its fence. (H3, H4)"""
        for request in requests:
            if request.status not in MOVES[RunStatus.RUNNING]:
                raise ValueError(f"a run that is running cannot become {request.status.value}")
        return await self._lane.run_bulk(record_all, requests)

    async def raise_fence(self, key: RunKey, *, attempt: int, old: int, new: int) -> bool:
        """Moves a running run, and its attempt row, from fence ``old`` to ``new``. (H7)"""

        def move(db: sqlite3.Connection) -> bool:
            moved = db.execute(sql.RAISE_RUN, (key.job_id, key.scheduled_at_ms, key.trigger.value, new, attempt, old)).fetchall()
            if moved and new != old:
                db.execute(attempts_sql.RAISE_ATTEMPT, (new, moved[0][0], attempt, old))
                db.execute(attempts_sql.RAISE_OUTPUTS, (new, moved[0][0], attempt, old))
            return bool(moved)

        return await self._lane.run(move)

    async def end(self, request: EndRequest) -> bool:
        """Ends a run that is still as the caller saw it; attempts that were running become interrupted. (H1)"""
        if request.status not in MOVES[request.was] or not request.status.terminal:
            raise ValueError(f"a run that is {request.was.value} cannot end as {request.status.value}")
        key, now_ms = request.key, request.now_ms
        values = (key.job_id, key.scheduled_at_ms, key.trigger.value, request.status.value, request.reason, request.fence, now_ms)

        def end(db: sqlite3.Connection) -> bool:
            ended = db.execute(sql.END_RUN, (*values, request.was.value, request.attempt)).fetchall()
            if ended:
                db.execute(attempts_sql.INTERRUPT, (now_ms, ended[0][0], -1))
                if request.alerts is not None:
                    tell(db, (request.alerts,))
            return bool(ended)

        return await self._lane.run(end)

    async def add_ranges(self, requests: Sequence[RangeRequest], *, term: int) -> list[SlotRange]:
        """Writes what is left of each range, in order. (H5)"""
        return await self._lane.run(partial(add_ranges, requests=requests, term=term))

    async def run(self, key: RunKey) -> Run | None:
        """One run by key."""
        return await self._run(sql.RUN_BY_KEY, key.job_id, key.scheduled_at_ms, key.trigger.value)

    async def run_by_id(self, run_id: str) -> Run | None:
        """One run by id."""
        return await self._run(sql.RUN_BY_ID, run_id)

    async def _run(self, statement: str, *values: object) -> Run | None:
        def read(db: sqlite3.Connection) -> Run | None:
            row = db.execute(statement, values).fetchone()
            return None if row is None else sql.run_of(row)

        return await self._reader.run(read)

    async def runs(
        self, *, job_id: str | None = None, statuses: Sequence[RunStatus] = (), before: str | None = None, limit: int = 50
    ) -> list[Run]:
        """A page of runs, newest first; none after a run that is not there."""
        values: dict[str, object] = {"job_id": job_id, "limit": max(limit, 0)}
        values["statuses"] = json.dumps([status.value for status in statuses])
        statement = sql.listing(job=job_id is not None, statuses=bool(statuses), before=before is not None)

        def read(db: sqlite3.Connection) -> list[Run]:
            if before is not None:
                bound = db.execute(sql.AGE_OF, (before,)).fetchone()
                if bound is None:
                    return []
                values["created_at"], values["id"] = bound
            return [sql.run_of(row) for row in db.execute(statement, values).fetchall()]

        return await self._reader.run(read)

    async def unfinished(self, *, after: str, limit: int) -> list[Run]:
        """A page of runs that have not ended, in the order of ids."""
        return await self._reader.run(
            lambda db: [sql.run_of(row) for row in db.execute(sql.UNFINISHED, (after, max(limit, 0))).fetchall()]
        )

    async def attempts(self, run_id: str) -> list[Attempt]:
        """The attempts of a run in the order they were opened."""

        def read(db: sqlite3.Connection) -> list[Attempt]:
            output: dict[tuple[int, int], list[StreamCapture]] = {}
            for number, fence, name, total, head, tail in db.execute(attempts_sql.OUTPUTS, (run_id,)).fetchall():
                stream = StreamCapture(name=name, total=total, head=head, tail=tail)
                output.setdefault((number, fence), []).append(stream)
            rows = db.execute(attempts_sql.ATTEMPTS, (run_id,)).fetchall()
            return [attempts_sql.attempt_of(run_id, row, output.get((row[0], row[1]), ())) for row in rows]

        return await self._reader.run(read)

    async def ranges(self, job_id: str) -> list[SlotRange]:
        """The range rows of a job, by version and first instant."""
        return await self._reader.run(lambda db: [range_of(row) for row in db.execute(RANGES, (job_id,)).fetchall()])

    async def latest_version(self, job_id: str) -> int:
        """The highest version that any row of the job names."""
        return await self._reader.run(lambda db: int(db.execute(LATEST_VERSION, (job_id,)).fetchone()[0]))
