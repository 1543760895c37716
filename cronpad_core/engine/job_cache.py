"""The catalogue as the line asks it: a job that was read is not read again until it changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from itertools import zip_longest

from cronpad_core.domain.dispatch import TermRecord
from cronpad_core.domain.job import Job, JobStatus, JobVersion
from cronpad_core.domain.limits import Workspace
from cronpad_core.domain.timing import Millis
from cronpad_core.ports.catalog import CatalogStore, JobWrite, Move, MoveAnswer

__all__ = ["JobCache"]


class JobCache:
    """A catalogue over another one, for the process that alone writes it: the holder of the dispatcher lock.

    Every write and move passes here and renews what is remembered; :meth:`forget` is called with each taking of the lock, since
    another process may have written before. An old answer would lose slots: an entry that its job does not wait for is dropped.
    So nothing is remembered of calls for one job that overlap, in whatever order their answers come. Pages of jobs, as a sweep
    reads them, fill what has room: else the first fires after a start would all be asked for one by one.
    """

    def __init__(self, catalog: CatalogStore, size: int = 50_000) -> None:
        self._catalog = catalog
        self._size = size
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._calls: dict[str, int] = {}
        self._doubtful: set[str] = set()
        self._pages: list[set[str]] = []
        self._workspaces: dict[str, Workspace | None] = {}

    def forget(self) -> None:
        """Forgets everything, and what is being asked at the moment."""
        self._jobs.clear()
        self._doubtful.update(self._calls)
        self._pages = []
        self._workspaces = {}

    def _begin(self, job_id: str) -> None:
        self._jobs.pop(job_id, None)
        for touched in self._pages:
            touched.add(job_id)
        if job_id in self._calls:
            self._doubtful.add(job_id)
        self._calls[job_id] = self._calls.get(job_id, 0) + 1

    def _end(self, job_id: str, job: Job | None) -> None:
        self._calls[job_id] -= 1
        if job is not None and job_id not in self._doubtful:
            self._jobs[job_id] = job
            if len(self._jobs) > self._size:
                self._jobs.popitem(last=False)
        if not self._calls[job_id]:
            del self._calls[job_id]
            self._doubtful.discard(job_id)

    async def job(self, job_id: str) -> Job | None:
        """One job by id, from memory where it was read before."""
        known = self._jobs.get(job_id)
        if known is not None:
            return known
        job: Job | None = None
        self._begin(job_id)
        try:
            job = await self._catalog.job(job_id)
        finally:
            self._end(job_id, job)
        return job

    async def move(self, moves: Sequence[Move]) -> list[MoveAnswer]:
        """Moves jobs; the answers say how they stand now."""
        answers: list[MoveAnswer] = []
        for move in moves:
            self._begin(move.job_id)
        try:
            answers = await self._catalog.move(moves)
        finally:
            for move, answer in zip_longest(moves, answers):
                self._end(move.job_id, answer.job if answer is not None else None)
        return answers

    async def write(self, writes: Sequence[JobWrite], *, term: int | None) -> None:
        """Stores job changes, all or nothing."""
        for write in writes:
            self._begin(write.job.id)
        try:
            await self._catalog.write(writes, term=term)
        finally:
            for write in writes:
                self._end(write.job.id, None)

    def known(self, job_id: str) -> Job | None:
        """The job as remembered, without asking the store."""
        return self._jobs.get(job_id)

    def known_workspace(self, name: str) -> Workspace | None:
        """The workspace as remembered. Raises ``KeyError`` where it was not read yet."""
        return self._workspaces[name]

    async def workspace(self, name: str) -> Workspace | None:
        """One workspace, from memory where it was read before."""
        if name in self._workspaces:
            return self._workspaces[name]
        known = self._workspaces  # one that was forgotten meanwhile must not get an old answer
        known[name] = found = await self._catalog.workspace(name)
        return found

    async def workspaces(self) -> list[Workspace]:
        """All workspaces, from the store."""
        return await self._catalog.workspaces()

    async def set_workspace(self, new: Workspace, *, expected: Workspace | None, term: int) -> None:
        """Stores a workspace."""
        try:
            await self._catalog.set_workspace(new, expected=expected, term=term)
        finally:
            self._workspaces = {}

    async def read_term(self) -> TermRecord:
        """The record of the holder."""
        return await self._catalog.read_term()

    async def swap_term(self, expected: TermRecord, new: TermRecord) -> bool:
        """Writes the record of the holder by compare-and-set."""
        return await self._catalog.swap_term(expected, new)

    async def jobs(self, *, statuses: Collection[JobStatus] | None = None, after: str = "", limit: int = 1_000) -> list[Job]:
        """A page of jobs, from the store."""
        touched = set(self._calls)
        self._pages.append(touched)
        try:
            page = await self._catalog.jobs(statuses=statuses, after=after, limit=limit)
            if any(one is touched for one in self._pages):  # not forgotten meanwhile
                self._fill(page, touched)
        finally:
            self._pages = [one for one in self._pages if one is not touched]
        return page

    def _fill(self, page: Sequence[Job], touched: Collection[str]) -> None:
        """Remembers what nobody asked for meanwhile; nothing that is remembered gives way to it."""
        for job in page:
            if len(self._jobs) >= self._size:
                return
            if job.id not in touched:
                self._jobs.setdefault(job.id, job)

    async def jobs_named(self, name: str) -> list[Job]:
        """All jobs of a name, from the store."""
        return await self._catalog.jobs_named(name)

    async def overdue(self, *, before_ms: Millis, limit: int) -> list[Job]:
        """Overdue jobs, from the store."""
        return await self._catalog.overdue(before_ms=before_ms, limit=limit)

    async def versions(self, job_id: str) -> list[JobVersion]:
        """The versions of a job, from the store."""
        return await self._catalog.versions(job_id)

    async def ended_versions(self, *, limit: int) -> list[JobVersion]:
        """Ended versions that the ledger lacks, from the store."""
        return await self._catalog.ended_versions(limit=limit)

    async def mark_ledgered(self, versions: Sequence[JobVersion]) -> None:
        """The ledger has these."""
        await self._catalog.mark_ledgered(versions)
