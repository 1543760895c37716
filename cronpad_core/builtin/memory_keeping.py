"""The part of history in memory that is about how long it reaches back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from cronpad_core.api import BackfillStatus, CutRequest, Millis, Pruned, PruneRequest, Run, RunKey, SlotRange, Trigger
from cronpad_core.builtin.memory_rows import HistoryData, age

__all__ = ["MemoryKeeping"]

_ROW_BYTES = 512
"""What a row is taken to need beside payloads, reasons and outputs."""


class MemoryKeeping:
    """Retention, the begin of the ledger, and ranges that reach too far; a part of ``MemoryHistory``."""

    _data: HistoryData

    async def prune(self, request: PruneRequest, *, term: int) -> Pruned:
        """Removes one batch of what is old, the oldest first. (H11)"""
        data = self._data
        data.term.require(term)
        most = max(request.limit, 0)
        runs = list(islice(self._old_runs(request), most + 1))
        ranges = list(islice(self._old_ranges(request), most + 1))
        data.forget({run.key for run in runs[:most]})
        for row in ranges[:most]:
            rows = data.of_job(row.job_id)
            rows.ranges[row.version].remove(row)
            rows.begin_after(row.last_ms)
        return Pruned(runs=min(len(runs), most), ranges=min(len(ranges), most), more=max(len(runs), len(ranges)) > most)

    def _old_runs(self, request: PruneRequest) -> Iterator[Run]:
        data = self._data
        open_ = (one for one in data.backfills.values() if one.status is BackfillStatus.OPEN)
        stands = {RunKey(job_id=one.job_id, scheduled_at_ms=one.cursor_ms, trigger=Trigger.BACKFILL) for one in open_}
        ended = sorted((run for run in data.runs.values() if run.status.terminal and run.key not in stands), key=age)
        left = Counter(run.key.job_id for run in ended)
        spare = None if request.max_bytes is None else request.max_bytes - sum(map(self._bytes_of, data.runs.values()))
        for run in ended:
            old = request.before_ms is not None and run.created_at_ms < request.before_ms
            many = request.keep is not None and left[run.key.job_id] > request.keep
            if old or many or (spare is not None and spare < 0):
                left[run.key.job_id] -= 1
                spare = None if spare is None else spare + self._bytes_of(run)
                yield run

    def _old_ranges(self, request: PruneRequest) -> Iterator[SlotRange]:
        every = [ranges for rows in self._data.by_job.values() for ranges in rows.ranges.values()]
        many = [row for ranges in every for row in ranges[: _beyond(len(ranges), request.keep)]]
        kept = [row for ranges in every for row in ranges[_beyond(len(ranges), request.keep) :]]
        old = [row for row in kept if request.before_ms is not None and row.last_ms < request.before_ms]
        yield from sorted([*many, *old], key=lambda row: (row.last_ms, row.job_id, row.version))

    def _bytes_of(self, run: Run) -> int:
        attempts = self._data.attempts.get(run.id, {}).values()
        words = len(run.reason) + (0 if run.payload is None else len(json.dumps(run.payload)))
        outputs = sum(len(one.head) + len(one.tail) for attempt in attempts for one in attempt.output)
        return words + outputs + sum(len(attempt.reason) for attempt in attempts) + _ROW_BYTES * (1 + len(attempts))

    async def ledger_from(self, job_id: str) -> Millis | None:
        """The first instant that the job's ledger answers for."""
        rows, everywhere = self._data.by_job.get(job_id), self._data.begins_at
        own = None if rows is None else rows.ledger_from
        return max((at_ms for at_ms in (own, everywhere) if at_ms is not None), default=None)

    async def begin_ledger(self, from_ms: Millis, *, term: int) -> None:
        """Lets the ledger of every job begin no earlier than there."""
        data = self._data
        data.term.require(term)
        data.begins_at = from_ms if data.begins_at is None else max(data.begins_at, from_ms)

    async def cut_ranges(self, requests: Sequence[CutRequest], *, term: int) -> list[SlotRange]:
        """Cuts ranges; answers those that were changed or removed, as they were. (H13)"""
        self._data.term.require(term)
        return [row for request in requests for row in self._cut(request)]

    def _cut(self, request: CutRequest) -> list[SlotRange]:
        rows = self._data.by_job.get(request.job_id)
        ranges = rows.ranges.get(request.version, []) if rows else []
        beyond = [row for row in ranges if row.last_ms > request.last_ms]
        for row in beyond:
            at = ranges.index(row)
            count = request.slots(row.first_ms, request.last_ms) if row.first_ms <= request.last_ms else 0
            ranges[at : at + 1] = [replace(row, last_ms=request.last_ms, count=count)] if count else []
        return beyond


def _beyond(count: int, keep: int | None) -> int:
    """How many of ``count`` rows are too many."""
    return 0 if keep is None else max(0, count - keep)
