"""History in memory: the reference that other history stores are compared with."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from cronpad_core.api import (
    MOVES,
    Attempt,
    AttemptStatus,
    EndRequest,
    OpenDecision,
    OpenKind,
    OpenRequest,
    OpenSnapshot,
    RangeRequest,
    RecordAnswer,
    RecordKind,
    RecordRequest,
    RetryPlan,
    Run,
    RunKey,
    RunStatus,
    SlotRange,
    TermRecord,
    Trigger,
    case_of_opening,
    decide_open,
    month_of,
)
from cronpad_core.builtin.memory_asked import MemoryAsked
from cronpad_core.builtin.memory_keeping import MemoryKeeping
from cronpad_core.builtin.memory_outbox import MemoryOutbox
from cronpad_core.builtin.memory_rows import HistoryData, age

__all__ = ["MemoryHistory"]

_REPLACEABLE = (AttemptStatus.RUNNING, AttemptStatus.INTERRUPTED, AttemptStatus.STALE)


class MemoryHistory(MemoryAsked, MemoryKeeping, MemoryOutbox):
    """A history that lives as long as its :class:`HistoryData`: each method is atomic because it never waits.

    Of each job it keeps the newest ``keep`` ended runs and, of each version, ranges.
    """

    def __init__(self, data: HistoryData, *, keep: int) -> None:
        self._data = data
        self._keep = keep
        self._alerts = data.alerts
        self._outbox_term = data.term

    async def read_term(self) -> TermRecord:
        """The record of the holder."""
        return self._data.term.record

    async def swap_term(self, expected: TermRecord, new: TermRecord) -> bool:
        """Writes ``new`` where the whole record is ``expected``. (C1)"""
        return self._data.term.swap(expected, new)

    async def open_runs(self, requests: Sequence[OpenRequest]) -> list[OpenDecision]:
        """Opens runs in order, each as ``decide_open`` says. (H1, H2, H6)"""
        return [self._open_run(request) for request in requests]

    def _open_run(self, request: OpenRequest) -> OpenDecision:
        data, occurrence = self._data, request.occurrence
        decision = decide_open(request, self._seen(request))
        if decision.write is not None:
            data.interrupt(decision.write.id, but_fence=request.fence, now_ms=request.now_ms)
            data.set_run(decision.write, keep=self._keep)
        run = decision.run
        if decision.kind is OpenKind.OPENED and run is not None:
            rows = data.attempts.get(run.id, {})
            if (occurrence.attempt, request.fence) not in rows:
                data.set_attempt(_opened(run.id, request))
        if decision.counted and run is not None:
            data.used[run.spec.workspace, month_of(request.now_ms)] += 1
        if decision.replaces is not None and run is not None:
            self._replace_running(run)
        self._tell(case_of_opening(request, decision))
        return decision

    def _seen(self, request: OpenRequest) -> OpenSnapshot:
        data, occurrence = self._data, request.occurrence
        run = data.runs.get(occurrence.key)
        run_id = "" if run is None else run.id
        before, after = data.waiting_around(occurrence.job_id, run)
        workspace = (request.spec if run is None else run.spec).workspace
        return OpenSnapshot(
            run=run,
            running_others=data.running_in(f"job:{occurrence.job_id}", but=run_id),
            covered=occurrence.trigger is Trigger.SCHEDULED
            and data.covered(occurrence.job_id, occurrence.job_version, occurrence.scheduled_at_ms),
            waiting_before=before,
            waiting_after=after,
            running_in={limit.scope: data.running_in(limit.scope, but=run_id) for limit in request.limits},
            used=0 if request.quota is None else data.used[workspace, month_of(request.now_ms)],
        )

    def _replace_running(self, run: Run) -> None:
        """Asks all other running runs of the job to end."""
        data = self._data
        for run_id in data.running.get(f"job:{run.key.job_id}", frozenset()) - {run.id}:
            other = data.runs[data.keys[run_id]]
            if not other.cancel_requested:
                data.set_run(replace(other, cancel_requested=True), keep=self._keep)

    async def record(self, requests: Sequence[RecordRequest]) -> list[RecordAnswer]:
        """Stores results in order, each under its fence. (H3, H4)"""
        for request in requests:
            if request.status not in MOVES[RunStatus.RUNNING]:
                raise ValueError(f"a run that is running cannot become {request.status.value}")
        return [self._record(request) for request in requests]

    def _record(self, request: RecordRequest) -> RecordAnswer:
        data, attempt = self._data, request.attempt
        run = data.runs.get(request.key)
        if run is None:
            return RecordAnswer(kind=RecordKind.STALE, status=None)
        row = data.attempts.get(run.id, {}).get((attempt.attempt, attempt.fence))
        if row is not None and _same_result(row, attempt):
            return RecordAnswer(kind=RecordKind.ALREADY, status=run.status, retry=_plan_after(run, attempt))
        if run.status is not RunStatus.RUNNING or (run.attempt, run.fence) != (attempt.attempt, attempt.fence):
            if row is None or row.status in _REPLACEABLE:
                data.set_attempt(replace(attempt, status=AttemptStatus.STALE))
            return RecordAnswer(kind=RecordKind.STALE, status=run.status)
        data.set_attempt(attempt)
        data.set_run(_after(run, request), keep=self._keep)
        self._tell(request.alerts)
        return RecordAnswer(kind=RecordKind.RECORDED, status=request.status, retry=request.retry)

    async def raise_fence(self, key: RunKey, *, attempt: int, old: int, new: int) -> bool:
        """Moves a running run, and its attempt row, from fence ``old`` to ``new``. (H7)"""
        data = self._data
        run = data.runs.get(key)
        if run is None or run.status is not RunStatus.RUNNING or (run.attempt, run.fence) != (attempt, old) or new < old:
            return False
        data.set_run(replace(run, fence=new), keep=self._keep)
        row = data.attempts.get(run.id, {}).get((attempt, old))
        if row is not None:
            data.set_attempt(replace(row, fence=new), was_fence=old)
        return True

    async def end(self, request: EndRequest) -> bool:
        """Ends a run that is still as the caller saw it; attempts that were running become interrupted. (H1)"""
        if request.status not in MOVES[request.was] or not request.status.terminal:
            raise ValueError(f"a run that is {request.was.value} cannot end as {request.status.value}")
        data = self._data
        run = data.runs.get(request.key)
        if run is None or (run.status, run.attempt) != (request.was, request.attempt) or run.fence > request.fence:
            return False
        ended = replace(
            run,
            status=request.status,
            reason=request.reason,
            fence=request.fence,
            finished_at_ms=request.now_ms,
            retry=None,
        )
        data.interrupt(run.id, but_fence=-1, now_ms=request.now_ms)
        data.set_run(ended, keep=self._keep)
        self._tell(request.alerts)
        return True

    async def add_ranges(self, requests: Sequence[RangeRequest], *, term: int) -> list[SlotRange]:
        """Writes what is left of each range, in order. (H5)"""
        self._data.term.require(term)
        return [row for request in requests for row in self._add_range(request)]

    def _add_range(self, request: RangeRequest) -> list[SlotRange]:
        written = list(self._data.add_range(request, keep=self._keep))
        self._tell(request.alerts if written else None)
        return written

    async def run(self, key: RunKey) -> Run | None:
        """One run by key."""
        return self._data.runs.get(key)

    async def run_by_id(self, run_id: str) -> Run | None:
        """One run by id."""
        key = self._data.keys.get(run_id)
        return None if key is None else self._data.runs[key]

    async def runs(
        self, *, job_id: str | None = None, statuses: Sequence[RunStatus] = (), before: str | None = None, limit: int = 50
    ) -> list[Run]:
        """A page of runs, newest first; none after a run that is not there."""
        bound = None if before is None else await self.run_by_id(before)
        if before is not None and bound is None:
            return []
        found = (
            run
            for run in self._data.runs.values()
            if (job_id is None or run.key.job_id == job_id)
            and (not statuses or run.status in statuses)
            and (bound is None or age(run) < age(bound))
        )
        return heapq.nlargest(max(limit, 0), found, key=age)

    async def unfinished(self, *, after: str, limit: int) -> list[Run]:
        """A page of runs that have not ended, in the order of ids."""
        data = self._data
        ids = heapq.nsmallest(max(limit, 0), (run_id for run_id in data.unfinished if run_id > after))
        return [data.runs[data.keys[run_id]] for run_id in ids]

    async def attempts(self, run_id: str) -> list[Attempt]:
        """The attempts of a run in the order they were opened."""
        return list(self._data.attempts.get(run_id, {}).values())

    async def ranges(self, job_id: str) -> list[SlotRange]:
        """The range rows of a job, by version and first instant."""
        rows = self._data.by_job.get(job_id)
        return [row for _, ranges in sorted(rows.ranges.items()) for row in ranges] if rows else []

    async def latest_version(self, job_id: str) -> int:
        """The highest version that any row of the job named, forgotten ones included."""
        rows = self._data.by_job.get(job_id)
        return rows.latest_version if rows else 0


def _opened(run_id: str, request: OpenRequest) -> Attempt:
    return Attempt(
        run_id=run_id,
        attempt=request.occurrence.attempt,
        fence=request.fence,
        status=AttemptStatus.RUNNING,
        due_at_ms=request.due_at_ms,
        claimed_at_ms=request.claimed_at_ms,
        opened_at_ms=request.now_ms,
        held_since_ms=request.held_since_ms,
    )


def _same_result(row: Attempt, attempt: Attempt) -> bool:
    """Whether the row is this result; a row that a later holder interrupted has another end."""
    return row.status is not AttemptStatus.RUNNING and (row.status, row.finished_at_ms) == (
        attempt.status,
        attempt.finished_at_ms,
    )


def _plan_after(run: Run, attempt: Attempt) -> RetryPlan | None:
    return run.retry if run.status is RunStatus.RETRYING and run.attempt == attempt.attempt else None


def _after(run: Run, request: RecordRequest) -> Run:
    attempt = request.attempt
    if request.status is RunStatus.RUNNING:
        return replace(run, clean=True)
    if request.status is RunStatus.RETRYING:
        return replace(run, status=RunStatus.RETRYING, retry=request.retry)
    return replace(run, status=request.status, retry=None, reason=attempt.reason, finished_at_ms=attempt.finished_at_ms)
