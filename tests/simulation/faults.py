"""Ways to break things: errors of stores, a damaged queue file, and what a user does meanwhile."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cronpad_core.builtin.memory import QueueFile
from cronpad_core.domain.dispatch import QueueLook
from cronpad_core.domain.errors import CommitUnknownError, StoreBusyError, StoreDamagedError, StoreError
from cronpad_core.domain.job import Job, JobStatus, JobVersion
from cronpad_core.ports.catalog import JobWrite, StaleWriteError
from cronpad_testkit.tripwire import STEPS, Action, raises

if TYPE_CHECKING:
    from world import Process, World

__all__ = ["READS", "WRITES", "FragileQueue", "copy_of", "failure", "pause", "resume"]

READS = frozenset(
    {"queue.look", "queue.claimed_since", "queue.earliest", "queue.contains", "queue.scan", "queue.peek", "queue.counts"}
    | {"queue.verify", "history.read_term", "history.run", "history.run_by_id", "history.runs", "history.unfinished"}
    | {"history.attempts", "history.ranges", "history.latest_version", "catalog.read_term", "catalog.job", "catalog.jobs"}
    | {"catalog.jobs_named", "catalog.overdue", "catalog.versions", "catalog.ended_versions", "catalog.workspace"}
    | {"catalog.workspaces", "history.backfills", "history.ledger_from", "history.used"}
)
"""Steps that change nothing: they fail, but are never in doubt."""

WRITES = frozenset(step for step in STEPS if step.partition(".")[0] in ("queue", "history", "catalog")) - READS - {"queue.close"}
"""Steps that change something: their commit may be unknown."""


def failure(step: str, *, after: bool, busy: bool) -> Action | None:
    """How a call of a store fails on that side: busy or unknown before it was applied, unknown after; reads are only busy."""
    if step not in READS and step not in WRITES:
        return None
    if after:
        return raises(CommitUnknownError(f"{step}: applied, and nobody was told")) if step in WRITES else None
    if busy or step in READS:
        return raises(StoreBusyError(f"{step}: busy"))
    return raises(CommitUnknownError(f"{step}: not applied, and nobody was told"))


class FragileQueue:
    """A queue whose file can be damaged: nothing can be read or written then, and opening it moves it aside."""

    def __init__(self, inner: Any, process: Process) -> None:
        self._inner, self._process = inner, process

    def _damaged(self, file: QueueFile | None) -> bool:
        return file is not None and id(file) in self._process.world.damaged

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name.startswith("_") or name in ("present", "close"):
            return found

        async def fragile(*args: Any, **rest: Any) -> Any:
            if self._damaged(self._inner._file):
                raise StoreDamagedError(f"queue.{name}: database disk image is malformed")
            return await found(*args, **rest)

        return fragile

    async def look(self) -> QueueLook:
        """A damaged queue has no identity."""
        return QueueLook(identity=None) if self._damaged(self._process.world.state.queue.file) else await self._inner.look()

    async def open(self) -> str | None:
        """Moves a damaged file aside and begins with an empty one."""
        place = self._process.world.state.queue
        if not self._damaged(place.file):
            return await self._inner.open()
        place.delete()
        await self._inner.open()
        return "corrupt"

    async def verify(self) -> bool:
        """A damaged file is not whole."""
        return not self._damaged(self._inner._file) and await self._inner.verify()


def copy_of(file: QueueFile) -> QueueFile:
    """A copy as ``cp`` makes one: the same contents, another file."""
    twin = copy.deepcopy(file)
    twin.identity, twin.fresh = "", False
    return twin


async def _change(process: Process, job_id: str, change: Any) -> bool:
    """Stores a job change through the active process, as control operations do."""
    term = process.engine.authority.term
    if not process.active or term is None:
        return False
    try:
        job = await process.engine.catalog.job(job_id)
        write = None if job is None else change(job)
        if write is None:
            return False
        await process.engine.catalog.write([write], term=term)
        await process.engine.reconciler.sweep()
        process.engine.wake.ring()
    except (StaleWriteError, StoreError):
        return False
    return True


async def pause(world: World, process: Process, job_id: str) -> bool:
    """Pauses an active job: its version ends now, with its next run open."""

    def change(job: Job) -> JobWrite | None:
        if job.status is not JobStatus.ACTIVE:
            return None
        ends = JobVersion(
            job_id=job.id,
            version=job.version,
            spec=job.spec,
            valid_from_ms=job.valid_from_ms,
            valid_until_ms=max(world.clock.wall_ms(), job.valid_from_ms),
            open_from_ms=job.next_run_at_ms,
        )
        paused = replace(job, status=JobStatus.PAUSED, next_run_at_ms=None, replay=None)
        return JobWrite(job=paused, expected=job, ends=ends)

    return await _change(process, job_id, change)


async def resume(world: World, process: Process, job_id: str) -> bool:
    """Resumes a paused job under a new version, at the next fire after now."""
    versions = world.state.catalog.versions.get(job_id, {})

    def change(job: Job) -> JobWrite | None:
        if job.status is not JobStatus.PAUSED:
            return None
        number = max([job.version, *versions]) + 1
        ends = [one.valid_until_ms or one.valid_from_ms for one in versions.values()]
        begins_ms = max([world.clock.wall_ms(), *ends])
        following = world.schedules(job.id, number, job.spec.schedule).next_after_ms(begins_ms)
        resumed = replace(job, status=JobStatus.ACTIVE, version=number, next_run_at_ms=following, valid_from_ms=begins_ms)
        begins = JobVersion(job_id=job.id, version=number, spec=job.spec, valid_from_ms=begins_ms)
        return JobWrite(job=resumed, expected=job, begins=begins)

    return await _change(process, job_id, change)
