"""The part of history that holds what people asked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial

from cronpad_core.api import Backfill, PendingAnswer, PendingRequest, Run, RunKey
from cronpad_sql import backfill_rows as rows
from cronpad_sql import history_rows as sql
from cronpad_sql.history_pending import add_pending
from cronpad_sql.history_seen import USED
from cronpad_sql.history_specs import SpecRows
from cronpad_sql.terms import SqliteTerms, require_term

__all__ = ["SqliteAsked"]


class SqliteAsked(SqliteTerms):
    """Runs that somebody asked for, cancellations, backfills, and what was used; a part of ``SqliteHistory``."""

    _specs: SpecRows

    async def add_pending(self, requests: Sequence[PendingRequest], *, term: int) -> list[PendingAnswer]:
        """Inserts runs as pending, in order, each seeing those before it. (H8)"""
        return await self._lane.run(partial(add_pending, specs=self._specs, requests=requests, term=term))

    async def request_cancel(self, key: RunKey, *, term: int) -> Run | None:
        """Marks an unfinished run as asked to be cancelled; answers the run as stored. (H9)"""
        values = (key.job_id, key.scheduled_at_ms, key.trigger.value)

        def ask(db: sqlite3.Connection) -> Run | None:
            require_term(db, term)
            db.execute(sql.ASK_TO_END, values)
            row = db.execute(sql.RUN_BY_KEY, values).fetchone()
            return None if row is None else sql.run_of(row)

        return await self._lane.run(ask)

    async def add_backfill(self, backfill: Backfill, *, term: int) -> bool:
        """Stores a new backfill; False where there is one of that id."""

        def add(db: sqlite3.Connection) -> bool:
            require_term(db, term)
            return db.execute(rows.ADD, rows.backfill_row(backfill)).rowcount > 0

        return await self._lane.run(add)

    async def move_backfill(self, backfill: Backfill, *, expected: Backfill, term: int) -> bool:
        """Stores a backfill where it is what the caller read; answers whether it did. (H10)"""

        def move(db: sqlite3.Connection) -> bool:
            require_term(db, term)
            row = db.execute(rows.ONE, (backfill.id,)).fetchone()
            if row is None or rows.backfill_of(row) != expected:
                return False
            db.execute(rows.MOVE, rows.backfill_row(backfill))
            return True

        return await self._lane.run(move)

    async def backfills(self, *, job_id: str | None = None, unfinished: bool = False, limit: int = 100) -> list[Backfill]:
        """Backfills, newest first."""
        statement = rows.listing(job=job_id is not None, unfinished=unfinished)
        values = (max(limit, 0),) if job_id is None else (job_id, max(limit, 0))
        return await self._reader.run(lambda db: [rows.backfill_of(row) for row in db.execute(statement, values).fetchall()])

    async def used(self, workspace: str, month: str) -> int:
        """How many openings of the workspace were counted in that month. (H12)"""

        def read(db: sqlite3.Connection) -> int:
            row = db.execute(USED, (workspace, month)).fetchone()
            return 0 if row is None else int(row[0])

        return await self._reader.run(read)
