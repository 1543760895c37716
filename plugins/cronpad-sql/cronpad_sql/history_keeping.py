"""The part of history that is about how long it reaches back."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial

from cronpad_core.api import CutRequest, Millis, Pruned, PruneRequest, SlotRange
from cronpad_sql.history_prune import LEDGER_BEGINS, Crowded, find_crowded, prune
from cronpad_sql.history_ranges import cut_ranges
from cronpad_sql.history_specs import SpecRows
from cronpad_sql.terms import SqliteTerms, require_term

__all__ = ["SqliteKeeping"]

_EVERY_JOB = "*"
_BEGINS_AT = "SELECT max(from_at) FROM ledger WHERE job_id IN (?, ?)"


class SqliteKeeping(SqliteTerms):
    """Retention, the begin of the ledger, and ranges that reach too far; a part of ``SqliteHistory``."""

    _specs: SpecRows

    async def prune(self, request: PruneRequest, *, term: int) -> Pruned:
        """Removes one batch: by age, then by number, then by size. (H11)"""
        crowded = Crowded() if request.keep is None else await self._reader.run(partial(find_crowded, keep=request.keep))
        return await self._lane.run(partial(prune, specs=self._specs, request=request, crowded=crowded, term=term))

    async def ledger_from(self, job_id: str) -> Millis | None:
        """The first instant that the job's ledger answers for."""

        def read(db: sqlite3.Connection) -> Millis | None:
            found: Millis | None = db.execute(_BEGINS_AT, (job_id, _EVERY_JOB)).fetchone()[0]
            return found

        return await self._reader.run(read)

    async def begin_ledger(self, from_ms: Millis, *, term: int) -> None:
        """Lets the ledger of every job begin no earlier than there."""

        def begin(db: sqlite3.Connection) -> None:
            require_term(db, term)
            db.execute(LEDGER_BEGINS, (_EVERY_JOB, from_ms))

        await self._lane.run(begin)

    async def cut_ranges(self, requests: Sequence[CutRequest], *, term: int) -> list[SlotRange]:
        """Cuts ranges; answers those that were changed or removed, as they were. (H13)"""
        return await self._lane.run(partial(cut_ranges, requests=requests, term=term))
