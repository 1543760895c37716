"""Control in memory: jobs, their versions, workspaces, and the record of the holder."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

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
    TermRecord,
    TermRefusedError,
    Workspace,
)

__all__ = ["CatalogData", "MemoryCatalog", "TermCell"]


@dataclass(slots=True)
class TermCell:
    """The record of the holder, with compare-and-set."""

    record: TermRecord = field(default_factory=TermRecord)

    def swap(self, expected: TermRecord, new: TermRecord) -> bool:
        """Writes ``new`` where the whole record is ``expected``."""
        if self.record != expected:
            return False
        self.record = new
        return True

    def require(self, term: int) -> None:
        """Raises ``TermRefusedError`` unless this is the stored term."""
        if self.record.term != term:
            raise TermRefusedError(f"term {term} is not the stored one ({self.record.term})")


@dataclass(slots=True)
class CatalogData:
    """What control holds. ``nexts``: the next runs of active jobs, in order; ``open_ends``: what is owed to the ledger."""

    term: TermCell = field(default_factory=TermCell)
    jobs: dict[str, Job] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    nexts: list[tuple[Millis, str]] = field(default_factory=list)
    versions: dict[str, dict[int, JobVersion]] = field(default_factory=dict)
    open_ends: dict[tuple[str, int], JobVersion] = field(default_factory=dict)
    workspaces: dict[str, Workspace] = field(default_factory=dict)

    def set_job(self, job: Job) -> None:
        """Stores a job and keeps the order of next runs."""
        before = self.jobs.get(job.id)
        if before is None:
            insort(self.ids, job.id)
        elif (known := _next_of(before)) is not None:
            del self.nexts[bisect_left(self.nexts, (known, job.id))]
        self.jobs[job.id] = job
        if (coming := _next_of(job)) is not None:
            insort(self.nexts, (coming, job.id))

    def set_version(self, version: JobVersion) -> None:
        """Stores a version; one that ended with open slots is owed to the ledger."""
        self.versions.setdefault(version.job_id, {})[version.version] = version
        key = (version.job_id, version.version)
        self.open_ends.pop(key, None)
        ends_ms, open_ms = version.valid_until_ms, version.open_from_ms
        if ends_ms is not None and open_ms is not None and open_ms <= ends_ms:
            self.open_ends[key] = version

    def amend(self, version: JobVersion) -> None:
        """Gives a stored version other bounds; where they leave slots open, those are owed again."""
        stored = self.versions.get(version.job_id, {}).get(version.version)
        if stored is None:
            return
        amended = replace(
            stored,
            valid_from_ms=version.valid_from_ms,
            valid_until_ms=version.valid_until_ms,
            open_from_ms=version.open_from_ms,
        )
        if amended != stored:
            self.set_version(amended)


def _next_of(job: Job) -> Millis | None:
    return job.next_run_at_ms if job.status is JobStatus.ACTIVE else None


class MemoryCatalog:
    """A catalog that lives as long as its :class:`CatalogData`: each method is atomic because it never waits."""

    def __init__(self, data: CatalogData) -> None:
        self._data = data

    async def read_term(self) -> TermRecord:
        """The record of the holder."""
        return self._data.term.record

    async def swap_term(self, expected: TermRecord, new: TermRecord) -> bool:
        """Writes ``new`` where the whole record is ``expected``. (C1)"""
        return self._data.term.swap(expected, new)

    async def job(self, job_id: str) -> Job | None:
        """One job by id."""
        return self._data.jobs.get(job_id)

    async def jobs(self, *, statuses: Collection[JobStatus] | None = None, after: str = "", limit: int = 1_000) -> list[Job]:
        """A page of jobs in the order of ids."""
        data = self._data
        found = (data.jobs[job_id] for job_id in islice(data.ids, bisect_right(data.ids, after), None))
        return list(islice((job for job in found if statuses is None or job.status in statuses), max(limit, 0)))

    async def jobs_named(self, name: str) -> list[Job]:
        """Jobs of this name that are not deleted, in the order of ids."""
        named = [job for job in self._data.jobs.values() if job.spec.name == name and job.status is not JobStatus.DELETED]
        return sorted(named, key=lambda job: job.id)

    async def overdue(self, *, before_ms: Millis, limit: int) -> list[Job]:
        """Active jobs that are due before ``before_ms``, oldest first."""
        data = self._data
        count = min(bisect_left(data.nexts, (before_ms, "")), max(limit, 0))
        return [data.jobs[job_id] for _, job_id in islice(data.nexts, count)]

    async def write(self, writes: Sequence[JobWrite], *, term: int | None) -> None:
        """Stores job changes, all or nothing. (C2, C5)"""
        data = self._data
        if term is not None:
            data.term.require(term)
        changed: dict[str, Job] = {}
        for write in writes:
            stored = changed.get(write.job.id) or data.jobs.get(write.job.id)
            if stored != write.expected:
                raise StaleWriteError(f"job {write.job.id} is not as it was read")
            if stored is not None and write.job.version < stored.version:
                raise ValueError(f"job {write.job.id}: version {write.job.version} after {stored.version}")
            changed[write.job.id] = write.job
        for write in writes:
            for version in (write.ends, write.begins):
                if version is not None:
                    data.set_version(version)
            for version in write.amends:
                data.amend(version)
            data.set_job(write.job)

    async def move(self, moves: Sequence[Move]) -> list[MoveAnswer]:
        """Advances jobs by compare-and-set, one answer for each; a refused term refuses all. (C3, C4)"""
        for move in moves:
            self._data.term.require(move.term)
        return [self._move(move) for move in moves]

    def _move(self, move: Move) -> MoveAnswer:
        job = self._data.jobs.get(move.job_id)
        if (
            job is None
            or job.status is not JobStatus.ACTIVE
            or (job.version, job.clock_epoch) != (move.version, move.clock_epoch)
        ):
            return MoveAnswer(kind=MoveKind.CHANGED, job=job)
        if job.next_run_at_ms != move.from_ms:
            return MoveAnswer(kind=MoveKind.ALREADY, job=job)
        status = JobStatus.COMPLETED if move.to_ms is None else JobStatus.ACTIVE
        moved = replace(job, next_run_at_ms=move.to_ms, replay=move.replay, status=status)
        self._data.set_job(moved)
        return MoveAnswer(kind=MoveKind.MOVED, job=moved)

    async def versions(self, job_id: str) -> list[JobVersion]:
        """All versions of a job, oldest first. (C5)"""
        return [version for _, version in sorted(self._data.versions.get(job_id, {}).items())]

    async def ended_versions(self, *, limit: int) -> list[JobVersion]:
        """Versions that ended with open slots and are owed to the ledger, in the order of their ends."""
        return list(islice(self._data.open_ends.values(), max(limit, 0)))

    async def mark_ledgered(self, versions: Sequence[JobVersion]) -> None:
        """Forgets what was owed, where it still ends as the caller saw it."""
        for version in versions:
            key = (version.job_id, version.version)
            if self._data.open_ends.get(key) == version:
                del self._data.open_ends[key]

    async def workspace(self, name: str) -> Workspace | None:
        """One workspace by name."""
        return self._data.workspaces.get(name)

    async def workspaces(self) -> list[Workspace]:
        """All workspaces that something was set of, by name."""
        return [one for _, one in sorted(self._data.workspaces.items())]

    async def set_workspace(self, new: Workspace, *, expected: Workspace | None, term: int) -> None:
        """Stores a workspace where it is what the caller read. (C6)"""
        self._data.term.require(term)
        if self._data.workspaces.get(new.name) != expected:
            raise StaleWriteError(f"workspace {new.name} is not as it was read")
        self._data.workspaces[new.name] = new
