"""What history holds in memory: rows, and the indexes that keep each question as cheap as its answer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from cronpad_core.api import (
    Attempt,
    AttemptStatus,
    Backfill,
    Millis,
    RangeRequest,
    Run,
    RunKey,
    RunStatus,
    SlotRange,
    Trigger,
    scopes_of,
    without_holes,
)
from cronpad_core.builtin.memory_catalog import TermCell
from cronpad_core.builtin.memory_outbox import AlertData

__all__ = ["HistoryData", "age"]


@dataclass(slots=True)
class _JobRows:
    """Indexes of one job: instants of ``s`` runs in order, who waits, who ended in which order, tokens, ranges by version."""

    slots: list[Millis] = field(default_factory=list)
    waiting: list[tuple[Millis, str]] = field(default_factory=list)
    ended: deque[RunKey] = field(default_factory=deque)
    tokens: dict[str, RunKey] = field(default_factory=dict)
    ranges: dict[int, list[SlotRange]] = field(default_factory=dict)
    latest_version: int = 0
    ledger_from: Millis | None = None

    def begin_after(self, slot_ms: Millis) -> None:
        """Nothing is known any more of slots up to this one."""
        self.ledger_from = slot_ms + 1 if self.ledger_from is None else max(self.ledger_from, slot_ms + 1)


@dataclass(slots=True)
class HistoryData:
    """Runs, attempts and ranges of all jobs, backfills, and what was used.

    ``running``: the ids of the running runs of each scope; ``used``: openings by workspace and month; ``begins_at``: where the
    ledger of every job begins at the earliest.
    """

    term: TermCell = field(default_factory=TermCell)
    runs: dict[RunKey, Run] = field(default_factory=dict)
    keys: dict[str, RunKey] = field(default_factory=dict)
    unfinished: set[str] = field(default_factory=set)
    running: dict[str, set[str]] = field(default_factory=dict)
    attempts: dict[str, dict[tuple[int, int], Attempt]] = field(default_factory=dict)
    by_job: dict[str, _JobRows] = field(default_factory=dict)
    backfills: dict[str, Backfill] = field(default_factory=dict)
    used: Counter[tuple[str, str]] = field(default_factory=Counter)
    begins_at: Millis | None = None
    alerts: AlertData = field(default_factory=AlertData)

    def of_job(self, job_id: str) -> _JobRows:
        """The indexes of a job."""
        return self.by_job.setdefault(job_id, _JobRows())

    def running_in(self, scope: str, *, but: str) -> int:
        """How many runs of a scope are running, without the one with the id ``but``."""
        running: Collection[str] = self.running.get(scope, ())
        return len(running) - (but in running)

    def waiting_around(self, job_id: str, run: Run | None) -> tuple[int, int]:
        """How many other runs of the job wait that were created before this one, and how many after it."""
        rows = self.by_job.get(job_id)
        if rows is None:
            return 0, 0
        if run is None:
            return len(rows.waiting), 0
        return bisect_left(rows.waiting, age(run)), len(rows.waiting) - bisect_right(rows.waiting, age(run))

    def covered(self, job_id: str, version: int, at_ms: Millis) -> bool:
        """Whether a range of this version has this instant."""
        rows = self.by_job.get(job_id)
        ranges = rows.ranges.get(version, []) if rows else []
        index = bisect_right(ranges, at_ms, key=_first) - 1
        return index >= 0 and ranges[index].last_ms >= at_ms

    def set_run(self, run: Run, *, keep: int) -> None:
        """Stores a run; of ended ones the job keeps the newest ``keep``."""
        rows = self.of_job(run.key.job_id)
        rows.latest_version = max(rows.latest_version, run.job_version)
        before = self.runs.get(run.key)
        if before is None:
            self.keys[run.id] = run.key
            if run.key.trigger is Trigger.SCHEDULED:
                insort(rows.slots, run.key.scheduled_at_ms)
            if run.token is not None:
                rows.tokens[run.token] = run.key
        self.runs[run.key] = run
        self._stand(rows, None if before is None else before.status, run)
        if not run.status.terminal:
            self.unfinished.add(run.id)
            return
        self.unfinished.discard(run.id)
        rows.ended.append(run.key)
        while len(rows.ended) > keep:
            self._forget(rows, rows.ended.popleft())

    def _stand(self, rows: _JobRows, was: RunStatus | None, run: Run) -> None:
        """Keeps the indexes of who is running and who waits."""
        if was is run.status:
            return
        scopes = scopes_of(run.key.job_id, run.spec.workspace, run.spec.concurrency)
        if was is RunStatus.RUNNING:
            for scope in scopes:
                self.running[scope].discard(run.id)
        elif was is RunStatus.WAITING:
            del rows.waiting[bisect_left(rows.waiting, age(run))]
        if run.status is RunStatus.RUNNING:
            for scope in scopes:
                self.running.setdefault(scope, set()).add(run.id)
        elif run.status is RunStatus.WAITING:
            insort(rows.waiting, age(run))

    def forget(self, keys: set[RunKey]) -> None:
        """Removes ended runs and all that belongs to them."""
        for job_id in {key.job_id for key in keys}:
            rows = self.of_job(job_id)
            gone = [key for key in rows.ended if key in keys]
            rows.ended = deque(key for key in rows.ended if key not in keys)
            for key in gone:
                self._forget(rows, key)

    def _forget(self, rows: _JobRows, key: RunKey) -> None:
        run = self.runs.pop(key)
        del self.keys[run.id]
        self.attempts.pop(run.id, None)
        if run.token is not None:
            rows.tokens.pop(run.token, None)
        if key.trigger is Trigger.SCHEDULED:
            del rows.slots[bisect_left(rows.slots, key.scheduled_at_ms)]
            rows.begin_after(key.scheduled_at_ms)

    def set_attempt(self, attempt: Attempt, *, was_fence: int | None = None) -> None:
        """Stores an attempt in the place of the one with the same number and fence (or ``was_fence``), else as the newest."""
        rows = self.attempts.setdefault(attempt.run_id, {})
        old = (attempt.attempt, attempt.fence if was_fence is None else was_fence)
        new = (attempt.attempt, attempt.fence)
        if old in rows and old != new:
            self.attempts[attempt.run_id] = {new if key == old else key: row for key, row in rows.items()}
            rows = self.attempts[attempt.run_id]
        rows[new] = attempt

    def interrupt(self, run_id: str, *, but_fence: int, now_ms: Millis) -> None:
        """Marks running attempts as interrupted, but for those under ``but_fence``."""
        rows = self.attempts.get(run_id, {})
        for key, row in rows.items():
            if row.status is AttemptStatus.RUNNING and row.fence != but_fence:
                rows[key] = replace(row, status=AttemptStatus.INTERRUPTED, finished_at_ms=now_ms)

    def add_range(self, request: RangeRequest, *, keep: int) -> Iterator[SlotRange]:
        """Writes what is left of a range once everything that has an outcome is cut out of it. (H5)"""
        wanted = request.range
        rows = self.of_job(wanted.job_id)
        rows.latest_version = max(rows.latest_version, wanted.version)
        ranges = rows.ranges.setdefault(wanted.version, [])
        slots = rows.slots[bisect_left(rows.slots, wanted.first_ms) : bisect_right(rows.slots, wanted.last_ms)]
        holes = [(slot, slot) for slot in slots]
        holes += [(there.first_ms, there.last_ms) for there in ranges]
        for first_ms, last_ms in list(without_holes(wanted.first_ms, wanted.last_ms, sorted(holes))):
            count = request.slots(first_ms, last_ms)
            if count:
                piece = replace(wanted, first_ms=first_ms, last_ms=last_ms, count=count)
                insort(ranges, piece, key=_first)
                yield piece
        for row in ranges[: max(0, len(ranges) - keep)]:
            ranges.remove(row)
            rows.begin_after(row.last_ms)


def age(run: Run) -> tuple[Millis, str]:
    """By which runs are ordered: when they were created, then by id."""
    return run.created_at_ms, run.id


def _first(row: SlotRange) -> Millis:
    return row.first_ms
