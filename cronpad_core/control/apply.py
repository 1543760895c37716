"""Making the stored jobs of an origin what its file says: first a plan, then all of it or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
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
    now_ms: Millis,
    term: int | None,
) -> Applied:
    """Stores what changed, in one transaction. Unchanged jobs keep their version, entries and history.

    ``origins`` are the files that were read: with ``prune`` their jobs that are no longer declared are removed. Jobs of other
    origins are never touched. ``term`` is the one that is held at this moment: without one nothing is written. Raises
    ``TermRefusedError`` where another process took over, and store errors.
    """
    if term is None:
        raise TermRefusedError("the dispatcher lock was lost before the jobs were applied")
    while True:
        changes = await plan(
            declared, origins=origins, prune=prune, catalog=catalog, history=history, schedules=schedules, now_ms=now_ms
        )
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
    now_ms: Millis,
) -> list[Change]:
    """What :func:`apply` would do; writes nothing."""
    changes = []
    for one in declared:
        stored = await catalog.job(one.job_id)
        spec = _spec(one, stored, now_ms)
        if stored is not None and _is(one, spec, stored):
            changes.append(Change(kind=ChangeKind.KEEP, job=stored))
            continue
        versions = await catalog.versions(one.job_id) if stored else []
        latest = await history.latest_version(one.job_id)
        changes.append(_change(one, spec, stored, versions, latest, schedules, now_ms))
    if prune:
        kept = {one.job_id for one in declared}
        async for job in _all_of(catalog, origins):
            if job.id not in kept:
                changes.append(_removal(job, schedules, now_ms))
    return changes


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
