"""Making the stored jobs of an origin what its file says: first a plan, then all of it or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from cronpad_core.control.versions import begin_version, end_version, next_version
from cronpad_core.domain.errors import TermRefusedError
from cronpad_core.domain.ids import job_id_for
from cronpad_core.domain.job import Job, JobSpec, JobStatus, JobVersion, ScheduleSpec
from cronpad_core.domain.timing import SECOND, Millis
from cronpad_core.ports.catalog import CatalogStore, JobWrite, StaleWriteError
from cronpad_core.ports.history import HistoryStore
from cronpad_core.ports.schedule import ScheduleReader

__all__ = ["Applied", "Change", "ChangeKind", "Declared", "apply", "plan"]

_PAGE = 1_000
_AT_ONCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A job as its origin declares it; ``id`` where it names its own."""

    spec: JobSpec
    origin: str
    id: str | None = None

    @property
    def job_id(self) -> str:
        """The id that the job has, or will have."""
        return self.id or job_id_for(self.origin, self.spec.name)


class ChangeKind(StrEnum):
    """What applying does to one job."""

    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One job's change; ``write`` is ``None`` for ``KEEP``."""

    kind: ChangeKind
    job: Job
    write: JobWrite | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What an apply did, job by job, in the order of the file; removed jobs last."""

    changes: tuple[Change, ...]

    def of(self, kind: ChangeKind) -> list[Job]:
        """The jobs of one kind of change."""
        return [change.job for change in self.changes if change.kind is kind]


async def apply(
    declared: Sequence[Declared],
    *,
    origins: Collection[str],
    prune: bool,
    catalog: CatalogStore,
    history: HistoryStore,
    schedules: ScheduleReader,
    now: Callable[[], Millis],
    term: int | None,
) -> Applied:
    """Stores what changed, in one transaction. Unchanged jobs keep their version, entries and history.

    ``origins`` are the files that were read: with ``prune`` their jobs that are no longer declared are removed. Jobs of other
    origins are never touched. ``term`` is the one that is held at this moment: without one nothing is written. Raises
    ``TermRefusedError`` where another process took over, and store errors. ``now`` answers Unix time.
    """
    if term is None:
        raise TermRefusedError("the dispatcher lock was lost before the jobs were applied")
    reading = _Reading(declared, catalog, history, schedules, now)
    removed = await reading.removed(origins) if prune else []
    while True:
        # A busy runner moves jobs on all the time: what was read long ago is refused, so nothing else is waited for in here.
        changes = await reading.changes(removed)
        writes = [change.write for change in changes if change.write is not None]
        try:
            if writes:
                await catalog.write(writes, term=term)
        except StaleWriteError:
            continue
        return Applied(changes=tuple(changes))


async def plan(
    declared: Sequence[Declared],
    *,
    origins: Collection[str],
    prune: bool,
    catalog: CatalogStore,
    history: HistoryStore,
    schedules: ScheduleReader,
    now: Callable[[], Millis],
) -> list[Change]:
    """What :func:`apply` would do; writes nothing."""
    reading = _Reading(declared, catalog, history, schedules, now)
    return await reading.changes(await reading.removed(origins) if prune else [])


class _Reading:
    """What is read for an apply; what stays true however the jobs move on meanwhile is read once."""

    def __init__(
        self,
        declared: Sequence[Declared],
        catalog: CatalogStore,
        history: HistoryStore,
        schedules: ScheduleReader,
        now: Callable[[], Millis],
    ) -> None:
        self._declared = declared
        self._catalog = catalog
        self._history = history
        self._schedules = schedules
        self._now = now
        self._now_ms = now()
        self._known: dict[tuple[str, int], tuple[list[JobVersion], int]] = {}

    async def removed(self, origins: Collection[str]) -> list[str]:
        """The ids of jobs of these origins that are not declared any more."""
        kept = {one.job_id for one in self._declared}
        return [job.id async for job in _all_of(self._catalog, origins) if job.id not in kept]

    async def changes(self, removed: Sequence[str]) -> list[Change]:
        """Every change, of the jobs as they stand now."""
        for first in range(0, len(self._declared), _AT_ONCE):
            await asyncio.gather(*map(self._learn, self._declared[first : first + _AT_ONCE]))
        # Versions end now, not when the reading began: a slot in between may be under way.
        self._now_ms = self._now()
        changes = [await self._change(one) for one in self._declared]
        for job_id in removed:
            job = await self._catalog.job(job_id)
            if job is not None and job.status is not JobStatus.DELETED:
                changes.append(_removal(job, self._schedules, self._now_ms))
        return changes

    async def _learn(self, one: Declared) -> None:
        """Reads which versions there are of a job that is going to change."""
        stored = await self._catalog.job(one.job_id)
        if stored is None or not _is(one, _spec(one, stored, self._now_ms), stored):
            await self._versions(one.job_id, stored)

    async def _change(self, one: Declared) -> Change:
        stored = await self._catalog.job(one.job_id)
        spec = _spec(one, stored, self._now_ms)
        if stored is not None and _is(one, spec, stored):
            return Change(kind=ChangeKind.KEEP, job=stored)
        versions, latest = await self._versions(one.job_id, stored)
        return _change(one, spec, stored, versions, latest, self._schedules, self._now_ms)

    async def _versions(self, job_id: str, stored: Job | None) -> tuple[list[JobVersion], int]:
        key = job_id, stored.version if stored else 0
        if key not in self._known:
            versions = await self._catalog.versions(job_id) if stored else []
            self._known[key] = versions, await self._history.latest_version(job_id)
        return self._known[key]


async def _all_of(catalog: CatalogStore, origins: Collection[str]) -> AsyncIterator[Job]:
    after = ""
    while True:
        page = await catalog.jobs(after=after, limit=_PAGE)
        for job in page:
            if job.origin in origins and job.status is not JobStatus.DELETED:
                yield job
        if len(page) < _PAGE:
            return
        after = page[-1].id


def _spec(one: Declared, stored: Job | None, now_ms: Millis) -> JobSpec:
    anchor = stored.spec.schedule.anchor_ms if stored else None
    return replace(one.spec, schedule=_anchored(one.spec.schedule, anchor, now_ms))


def _is(one: Declared, spec: JobSpec, stored: Job) -> bool:
    return stored.status is not JobStatus.DELETED and stored.spec == spec and stored.origin == one.origin


def _change(
    one: Declared,
    spec: JobSpec,
    stored: Job | None,
    versions: Sequence[JobVersion],
    latest: int,
    schedules: ScheduleReader,
    now_ms: Millis,
) -> Change:
    kind, ends, number, begins_ms, paused = ChangeKind.ADD, None, latest + 1, now_ms, False
    if stored is not None:
        ends = end_version(stored, schedules, now_ms)
        number, begins_ms = next_version(stored, versions, ends, latest, now_ms)
        kind = ChangeKind.ADD if stored.status is JobStatus.DELETED else ChangeKind.CHANGE
        paused = stored.status is JobStatus.PAUSED
    write = begin_version(
        one.job_id,
        one.origin,
        spec,
        stored=stored,
        version=number,
        begins_ms=begins_ms,
        schedules=schedules,
        paused=paused,
        ends=ends,
    )
    return Change(kind=kind, job=write.job, write=write)


def _anchored(schedule: ScheduleSpec, anchor_ms: Millis | None, now_ms: Millis) -> ScheduleSpec:
    """Intervals count from when the job was first stored, to the second, so that edits do not shift them."""
    if schedule.anchor_ms is not None:
        return schedule
    return replace(schedule, anchor_ms=now_ms // SECOND * SECOND if anchor_ms is None else anchor_ms)


def _removal(job: Job, schedules: ScheduleReader, now_ms: Millis) -> Change:
    gone = replace(job, status=JobStatus.DELETED, next_run_at_ms=None, replay=None)
    return Change(
        kind=ChangeKind.REMOVE, job=gone, write=JobWrite(job=gone, expected=job, ends=end_version(job, schedules, now_ms))
    )
