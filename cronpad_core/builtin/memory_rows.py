"""What history holds in memory: rows, and the indexes that keep each question as cheap as its answer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from cronpad_core.api import Attempt, AttemptStatus, Millis, RangeRequest, Run, RunKey, RunStatus, SlotRange, Trigger
from cronpad_core.builtin.memory_catalog import TermCell

__all__ = ["HistoryData"]


@dataclass(slots=True)
class _JobRows:
    """Indexes of one job: instants of ``s`` runs in order, who is running, who ended in which order, ranges by version."""

    slots: list[Millis] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    ended: deque[RunKey] = field(default_factory=deque)
    ranges: dict[int, list[SlotRange]] = field(default_factory=dict)
    latest_version: int = 0


@dataclass(slots=True)
class HistoryData:
    """Runs, attempts and ranges of all jobs."""

    term: TermCell = field(default_factory=TermCell)
    runs: dict[RunKey, Run] = field(default_factory=dict)
    keys: dict[str, RunKey] = field(default_factory=dict)
    unfinished: set[str] = field(default_factory=set)
    attempts: dict[str, dict[tuple[int, int], Attempt]] = field(default_factory=dict)
    by_job: dict[str, _JobRows] = field(default_factory=dict)

    def of_job(self, job_id: str) -> _JobRows:
        """The indexes of a job."""
        return self.by_job.setdefault(job_id, _JobRows())

    def running_others(self, key: RunKey) -> int:
        """How many other runs of the job are running."""
        rows = self.by_job.get(key.job_id)
        if rows is None:
            return 0
        own = self.runs.get(key)
        return len(rows.running) - (own is not None and own.id in rows.running)

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
        if run.key not in self.runs:
            self.keys[run.id] = run.key
            if run.key.trigger is Trigger.SCHEDULED:
                insort(rows.slots, run.key.scheduled_at_ms)
        self.runs[run.key] = run
        if run.status is RunStatus.RUNNING:
            rows.running.add(run.id)
        else:
            rows.running.discard(run.id)
        if not run.status.terminal:
            self.unfinished.add(run.id)
            return
        self.unfinished.discard(run.id)
        rows.ended.append(run.key)
        while len(rows.ended) > keep:
            self._forget(rows, rows.ended.popleft())

    def _forget(self, rows: _JobRows, key: RunKey) -> None:
        run = self.runs.pop(key)
        del self.keys[run.id]
        self.attempts.pop(run.id, None)
        if key.trigger is Trigger.SCHEDULED:
            del rows.slots[bisect_left(rows.slots, key.scheduled_at_ms)]

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
        for first_ms, last_ms in list(_pieces(wanted.first_ms, wanted.last_ms, sorted(holes))):
            count = request.slots(first_ms, last_ms)
            if count:
                piece = replace(wanted, first_ms=first_ms, last_ms=last_ms, count=count)
                insort(ranges, piece, key=_first)
                yield piece
        del ranges[: max(0, len(ranges) - keep)]


def _first(row: SlotRange) -> Millis:
    return row.first_ms


def _pieces(first_ms: Millis, last_ms: Millis, holes: list[tuple[Millis, Millis]]) -> Iterator[tuple[Millis, Millis]]:
    """What [first, last] is without the holes, which are in order."""
    start_ms = first_ms
    for hole_first, hole_last in holes:
        if hole_first > last_ms:
            break
        if hole_first > start_ms:
            yield start_ms, hole_first - 1
        start_ms = max(start_ms, hole_last + 1)
    if start_ms <= last_ms:
        yield start_ms, last_ms
