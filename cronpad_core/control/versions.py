"""How versions of a job end and begin, for whoever changes it: an apply, a pause, a resume, a removal."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.domain.job import Job, JobSpec, JobStatus, JobVersion
from cronpad_core.domain.timing import Millis
from cronpad_core.ports.catalog import JobWrite
from cronpad_core.ports.schedule import ScheduleReader

__all__ = ["begin_version", "end_version", "next_version"]


def end_version(job: Job, schedules: ScheduleReader, now_ms: Millis) -> JobVersion | None:
    """The end of the version in force, if one is; never before a slot that was decided under it, whatever the clock says."""
    if job.status is not JobStatus.ACTIVE:
        return None
    return JobVersion(
        job_id=job.id,
        version=job.version,
        spec=job.spec,
        valid_from_ms=job.valid_from_ms,
        valid_until_ms=max(now_ms, job.valid_from_ms, _decided_ms(job, schedules)),
        open_from_ms=job.next_run_at_ms,
    )


def _decided_ms(job: Job, schedules: ScheduleReader) -> Millis:
    """The last slot of the job that has its outcome, or 0."""
    following = job.next_run_at_ms or 0
    if job.replay is not None:
        following = max(following, job.replay.then_ms or 0)
    try:
        return schedules(job.id, job.version, job.spec.schedule).prev_at_or_before_ms(following - 1) or 0
    except ScheduleError:
        return 0


def next_version(
    stored: Job, versions: Sequence[JobVersion], ends: JobVersion | None, latest: int, now_ms: Millis
) -> tuple[int, Millis]:
    """The number of the version that follows, and when it begins: after all that control and history (``latest``) know."""
    known = [*versions, *([ends] if ends else [])]
    number = max([latest, stored.version, *(version.version for version in known)]) + 1
    return number, max([now_ms, *(version.valid_until_ms or version.valid_from_ms for version in known)])


def begin_version(
    job_id: str,
    origin: str,
    spec: JobSpec,
    *,
    stored: Job | None,
    version: int,
    begins_ms: Millis,
    schedules: ScheduleReader,
    paused: bool,
    ends: JobVersion | None = None,
) -> JobWrite:
    """A version that begins at ``begins_ms``, where the one before it ended; one that begins paused covers nothing."""
    following = None if paused else schedules(job_id, version, spec.schedule).next_after_ms(begins_ms)
    status = JobStatus.PAUSED if paused else JobStatus.COMPLETED if following is None else JobStatus.ACTIVE
    job = Job(
        id=job_id,
        origin=origin,
        version=version,
        status=status,
        spec=spec,
        next_run_at_ms=following,
        valid_from_ms=begins_ms,
        clock_epoch=stored.clock_epoch if stored else 0,
        paused_reason=stored.paused_reason if stored and paused else None,
        paused_until_ms=stored.paused_until_ms if stored and paused else None,
    )
    begins = JobVersion(
        job_id=job_id, version=version, spec=spec, valid_from_ms=begins_ms, valid_until_ms=begins_ms if paused else None
    )
    return JobWrite(job=job, expected=stored, ends=ends, begins=begins)
