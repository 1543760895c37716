"""Pausing and resuming: a pause has no slots, so nothing in it is missed."""

from __future__ import annotations

from dataclasses import replace

from cronpad_core.control.desk import Desk
from cronpad_core.control.trigger import require_kept
from cronpad_core.control.versions import begin_version, end_version, next_version
from cronpad_core.domain.errors import (
    ConfigurationError,
    CronpadError,
    NotFoundError,
    ScheduleError,
    StoreError,
    TermRefusedError,
)
from cronpad_core.domain.job import Job, JobStatus
from cronpad_core.domain.timing import Millis, rfc3339
from cronpad_core.ports.catalog import JobWrite, StaleWriteError
from cronpad_core.ports.queue import Entry

__all__ = ["due_resumes", "pause", "pause_for_sink", "resume"]

_PAGE = 1_000


async def pause(desk: Desk, job: Job, *, reason: str | None = None, until_ms: Millis | None = None) -> Job:
    """No scheduled run of the job begins until it is resumed, by somebody or once ``until_ms`` has passed; answers the job.

    Its version ends now, and its open slots up to now are dropped. What is running finishes. Of a job that is paused already,
    reason and end are replaced. Raises ``NotFoundError`` for a removed job, ``CronpadError`` for one whose schedule is used up,
    ``ConfigurationError`` for an end that has passed, ``TermRefusedError`` and ``StoreError``.
    """
    while True:
        term, now_ms = desk.require_term(), desk.now_ms()
        require_kept(job)
        if until_ms is not None and until_ms <= now_ms:
            raise ConfigurationError(f"a pause cannot end at {rfc3339(until_ms)}: that has passed", hint="give a later time")
        if job.status is JobStatus.COMPLETED:
            raise CronpadError(f'job "{job.spec.name}" has no further fire: there is nothing to pause')
        paused = replace(
            job,
            status=JobStatus.PAUSED,
            next_run_at_ms=None,
            replay=None,
            paused_reason=reason or None,
            paused_until_ms=until_ms,
        )
        if paused == job:
            return job
        write = JobWrite(job=paused, expected=job, ends=end_version(job, desk.schedules, now_ms))
        try:
            await desk.catalog.write([write], term=term)
        except StaleWriteError:
            job = await _again(desk, job)
            continue
        return paused


async def pause_for_sink(desk: Desk, job_id: str, version: int, *, reason: str) -> Job | None:
    """Pauses a job because its sink says that no later slot can do better; answers it, or ``None`` where nothing was to do.

    What the sink was asked under another version of the job says nothing of this one. Raises as :func:`pause`.
    """
    job = await desk.catalog.job(job_id)
    if job is None or job.version != version or job.status is not JobStatus.ACTIVE:
        return None
    return await pause(desk, job, reason=reason)


async def resume(desk: Desk, job: Job) -> Job:
    """The job goes on with the next fire after now, under a new version; answers the job as it stands.

    A job that is active already is only looked after: its next fire is queued where it is not. Raises as :func:`pause`, and
    ``ScheduleError`` where the job's schedule cannot be read any more.
    """
    while True:
        require_kept(job)
        if job.status is JobStatus.COMPLETED:
            raise CronpadError(f'job "{job.spec.name}" is not paused: its schedule has no further fire')
        if job.status is JobStatus.ACTIVE:
            await _put_next(desk, job, desk.require_term())
            return job
        resumed = await _resume_as_read(desk, job)
        if resumed is not None:
            return resumed
        job = await _again(desk, job)


async def due_resumes(desk: Desk) -> list[Job]:
    """Resumes every paused job whose end of pause has passed; answers them. Nothing where this process does not dispatch.

    One query of the catalogue for each thousand paused jobs. A job whose schedule cannot be read any more stays paused.
    """
    resumed: list[Job] = []
    after, now_ms = "", desk.now_ms()
    while desk.term() is not None:
        page = await desk.catalog.jobs(statuses={JobStatus.PAUSED}, after=after, limit=_PAGE)
        for job in page:
            if job.paused_until_ms is None or job.paused_until_ms > now_ms:
                continue
            try:
                one = await _resume_as_read(desk, job)  # somebody who changed it meanwhile may want it paused for longer
            except ScheduleError:
                continue
            resumed += [one] if one is not None else []
        if len(page) < _PAGE:
            break
        after = page[-1].id
    return resumed


async def _resume_as_read(desk: Desk, job: Job) -> Job | None:
    """Begins a version of a paused job and queues its next fire; ``None`` where the job is not as it was read."""
    term, now_ms = desk.require_term(), desk.now_ms()
    versions = await desk.catalog.versions(job.id)
    number, begins_ms = next_version(job, versions, None, await desk.history.latest_version(job.id), now_ms)
    write = begin_version(
        job.id,
        job.origin,
        job.spec,
        stored=job,
        version=number,
        begins_ms=begins_ms,
        schedules=desk.schedules,
        paused=False,
    )
    try:
        await desk.catalog.write([write], term=term)
    except StaleWriteError:
        return None
    await _put_next(desk, write.job, term)
    return write.job


async def _again(desk: Desk, job: Job) -> Job:
    found = await desk.catalog.job(job.id)
    if found is None:
        raise NotFoundError(f'job "{job.spec.name}" is gone')
    return found


async def _put_next(desk: Desk, job: Job, term: int) -> None:
    """Queues the job's next fire unless it is there; where that fails, the reconciler does it."""
    if job.next_run_at_ms is None:
        return
    occurrence, at_ms = job.slot(job.next_run_at_ms), job.next_run_at_ms
    try:
        if job.replay is None:
            schedule = desk.schedules(job.id, job.version, job.spec.schedule)
            at_ms = job.spec.start_at_ms(occurrence, schedule.next_after_ms(at_ms))
        if not await desk.queue.contains([occurrence.member]):
            await desk.queue.put([Entry(member=occurrence.member, at_ms=at_ms)], term=term)
    except (ScheduleError, StoreError, TermRefusedError):
        return
    desk.wake(at_ms)
