"""The part of history in memory that holds what people asked for."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from cronpad_core.api import (
    Backfill,
    BackfillStatus,
    PendingAnswer,
    PendingRequest,
    Run,
    RunKey,
    Trigger,
)
from cronpad_core.builtin.memory_rows import HistoryData

__all__ = ["MemoryAsked"]


class MemoryAsked:
    """Runs that somebody asked for, cancellations, backfills, and what was used; a part of ``MemoryHistory``."""

    _data: HistoryData
    _keep: int

    async def add_pending(self, requests: Sequence[PendingRequest], *, term: int) -> list[PendingAnswer]:
        """Inserts runs as pending, in order, each seeing those before it. (H8)"""
        self._data.term.require(term)
        return [self._add_pending(request) for request in requests]

    def _add_pending(self, request: PendingRequest) -> PendingAnswer:
        data = self._data
        named = None if request.token is None else data.of_job(request.job_id).tokens.get(request.token)
        if named is not None:
            return PendingAnswer(run=data.runs[named], created=False)
        key = RunKey(job_id=request.job_id, scheduled_at_ms=request.at_ms, trigger=request.trigger)
        there = data.runs.get(key)
        if there is not None and request.trigger is Trigger.BACKFILL:
            return PendingAnswer(run=there, created=False)
        while key in data.runs:
            key = replace(key, scheduled_at_ms=key.scheduled_at_ms + 1)
        run = request.run(key.scheduled_at_ms)
        data.set_run(run, keep=self._keep)
        return PendingAnswer(run=run, created=True)

    async def request_cancel(self, key: RunKey, *, term: int) -> Run | None:
        """Marks an unfinished run as asked to be cancelled; answers the run as stored. (H9)"""
        data = self._data
        data.term.require(term)
        run = data.runs.get(key)
        if run is not None and not run.status.terminal and not run.cancel_requested:
            run = replace(run, cancel_requested=True)
            data.set_run(run, keep=self._keep)
        return run

    async def add_backfill(self, backfill: Backfill, *, term: int) -> bool:
        """Stores a new backfill; False where there is one of that id."""
        data = self._data
        data.term.require(term)
        if backfill.id in data.backfills:
            return False
        data.backfills[backfill.id] = backfill
        return True

    async def move_backfill(self, backfill: Backfill, *, expected: Backfill, term: int) -> bool:
        """Stores a backfill where it is what the caller read; answers whether it did. (H10)"""
        data = self._data
        data.term.require(term)
        if data.backfills.get(backfill.id) != expected:
            return False
        data.backfills[backfill.id] = backfill
        return True

    async def backfills(self, *, job_id: str | None = None, unfinished: bool = False, limit: int = 100) -> list[Backfill]:
        """Backfills, newest first."""
        found = (
            one
            for one in self._data.backfills.values()
            if (job_id is None or one.job_id == job_id) and (not unfinished or one.status is BackfillStatus.OPEN)
        )
        return heapq.nlargest(max(limit, 0), found, key=lambda one: (one.created_at_ms, one.id))

    async def used(self, workspace: str, month: str) -> int:
        """How many openings of the workspace were counted in that month. (H12)"""
        return self._data.used[workspace, month]
