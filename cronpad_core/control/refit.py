"""New rules of a time zone: jobs whose next fire is no fire of their schedule any more get a version that goes by the new rules."""

from __future__ import annotations

from dataclasses import replace

from cronpad_core.control.versions import begin_version, end_version, next_version
from cronpad_core.domain.errors import ScheduleError, TermRefusedError
from cronpad_core.domain.job import Job, JobStatus, JobVersion
from cronpad_core.domain.timing import HOUR, MINUTE, Millis
from cronpad_core.ports.catalog import CatalogStore, JobWrite, StaleWriteError
from cronpad_core.ports.history import HistoryStore
from cronpad_core.ports.schedule import ScheduleReader

__all__ = ["refit"]

_PAGE = 1_000
_FARTHEST = 26 * HOUR
"""No change of a zone moves a fire further: the date line is a day, and a change of the clock comes on top."""


async def refit(
    *, catalog: CatalogStore, history: HistoryStore, schedules: ScheduleReader, now_ms: Millis, term: int | None
) -> list[Job]:
    """Moves such jobs to the next fire after now, each as an edit: version + 1, so its old entry is dropped. Answers them.

    Found by state, so it may be called at any time and as often as one likes; what was decided before stays as it was. Raises
    ``TermRefusedError`` and store errors.
    """
    if term is None:
        raise TermRefusedError("the dispatcher lock was lost before the schedules were looked at")
    moved: list[Job] = []
    after = ""
    while True:
        page = await catalog.jobs(statuses={JobStatus.ACTIVE}, after=after, limit=_PAGE)
        for job in page:
            if _fits(job, schedules):
                continue
            write = await _write(job, catalog, history, schedules, now_ms)
            try:
                await catalog.write([write], term=term)
            except StaleWriteError:
                continue  # somebody edited it meanwhile, by the rules of now
            moved.append(write.job)
        if len(page) < _PAGE:
            return moved
        after = page[-1].id


def _fits(job: Job, schedules: ScheduleReader) -> bool:
    """Whether the job's next fire, and the first behind a catch-up, are of its schedule. Of an unreadable one nobody can say."""
    if job.next_run_at_ms is None:
        return True
    try:
        schedule = schedules(job.id, job.version, job.spec.schedule)
    except ScheduleError:
        return True
    ahead = [job.next_run_at_ms, *([job.replay.then_ms] if job.replay is not None and job.replay.then_ms is not None else [])]
    return all(schedule.next_after_ms(at_ms - 1) == at_ms for at_ms in ahead)


async def _write(job: Job, catalog: CatalogStore, history: HistoryStore, schedules: ScheduleReader, now_ms: Millis) -> JobWrite:
    ends = await _end(job, history, schedules, now_ms)
    latest = await history.latest_version(job.id)
    number, begins_ms = next_version(job, await catalog.versions(job.id), ends, latest, now_ms)
    return begin_version(
        job.id,
        job.origin,
        job.spec,
        stored=job,
        version=number,
        begins_ms=begins_ms,
        schedules=schedules,
        paused=False,
        ends=ends,
    )


async def _end(job: Job, history: HistoryStore, schedules: ScheduleReader, now_ms: Millis) -> JobVersion | None:
    """The end of the version in force. By the new rules nobody can say which fire was decided last, so history is asked.

    Left open is all that the new rules could have moved across now: what has its outcome in there keeps it.
    """
    ends = end_version(job, schedules, now_ms)
    if ends is None or job.next_run_at_ms is None:
        return ends
    until_ms = max(now_ms, job.valid_from_ms)
    last_ms = schedules(job.id, job.version, job.spec.schedule).prev_at_or_before_ms(until_ms + MINUTE)
    if last_ms is not None and last_ms > until_ms and await history.run(job.slot(last_ms).key) is not None:
        until_ms = last_ms  # the clock was set back a little since that ran
    open_ms = max(job.valid_from_ms + 1, min(job.next_run_at_ms, now_ms) - _FARTHEST)
    return replace(ends, valid_until_ms=until_ms, open_from_ms=min(open_ms, job.next_run_at_ms))
