"""What becomes of a claimed entry before anything is opened: dropped, decided as missed, ended, or admitted."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from cronpad_core.domain.alert_cases import case_of_end
from cronpad_core.domain.events import RunEnded
from cronpad_core.domain.job import Job, JobStatus
from cronpad_core.domain.occurrence import Occurrence, Trigger
from cronpad_core.domain.run import Run, RunStatus
from cronpad_core.domain.timing import Millis
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.alert_book import AlertBook
from cronpad_core.engine.job_cache import JobCache
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.engine.ticket import Ticket
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import EndRequest, HistoryStore
from cronpad_core.ports.schedule import Schedule, ScheduleReader

__all__ = ["Gate", "Verdict", "ending", "is_late", "is_stale"]


class Verdict(StrEnum):
    """``DROP``: acknowledge, no row. ``MISSED``: the misfire policy decides. ``ENDED``: the run has ended. ``OPEN``: go on."""

    DROP = "drop"
    MISSED = "missed"
    ENDED = "ended"
    OPEN = "open"


def is_stale(occurrence: Occurrence, job: Job | None) -> bool:
    """Whether a slot's entry is not what its job is waiting for any more."""
    return (
        job is None
        or job.status is not JobStatus.ACTIVE
        or job.version != occurrence.job_version
        or job.next_run_at_ms != occurrence.scheduled_at_ms
    )


def is_late(ticket: Ticket, job: Job, start_at_ms: Millis, now_ms: Millis, tuning: Tuning) -> bool:
    """Whether a slot that is not stale has passed its grace, and nothing excuses it (a hold, or a decision already taken)."""
    if ticket.held_since_ms is not None:
        return False
    if job.replay is not None and ticket.occurrence.scheduled_at_ms <= job.replay.until_ms:
        return False
    return now_ms > start_at_ms + tuning.grace_ms(job.spec.grace_ms)


def ending(occurrence: Occurrence, run: Run, job: Job | None, now_ms: Millis) -> tuple[RunStatus, str] | None:
    """Whether an unfinished run ends here without another attempt, and how.

    A job that is gone ends everything but the attempt that is running; a paused one ends waiting runs and further attempts of
    scheduled runs; a retry after its deadline does not start.
    """
    gone = job is None or job.status is JobStatus.DELETED
    if gone and (run.status is not RunStatus.RUNNING or run.attempt == occurrence.attempt):
        return RunStatus.CANCELLED, "its job was removed"
    if run.cancel_requested and run.status is not RunStatus.RUNNING:
        return RunStatus.CANCELLED, "cancelled before it was tried again" if run.attempt else "cancelled before it started"
    paused = job is not None and job.status is JobStatus.PAUSED and occurrence.trigger is Trigger.SCHEDULED
    if run.status is RunStatus.WAITING and paused:
        return RunStatus.CANCELLED, "its job was paused"
    if run.status is RunStatus.RETRYING and occurrence.attempt == run.attempt + 1:
        deadline = run.spec.retry.deadline_ms
        if deadline is not None and now_ms > run.slot_at_ms + deadline:
            return RunStatus.FAILED, "its retry deadline passed"
        if paused:
            return RunStatus.FAILED, "its job was paused before the retry"
    return None


class Gate:
    """Gates 0 and 1. Assumes a claimed ticket; answers a verdict and the ticket with its job. Writes only where a run ends.

    Dies half-way: nothing was written, or the run has ended; the entry comes up again and is acknowledged.
    """

    def __init__(
        self,
        *,
        catalog: JobCache,
        history: HistoryStore,
        clock: Clock,
        patience: Patience,
        schedules: ScheduleReader,
        tuning: Tuning,
        emit: Emit,
        alerts: AlertBook,
    ) -> None:
        self._catalog = catalog
        self._history = history
        self._clock = clock
        self._patience = patience
        self._schedules = schedules
        self._tuning = tuning
        self._emit = emit
        self._alerts = alerts

    def plain(self, ticket: Ticket) -> Ticket | None:
        """The ticket with its job, where its verdict is ``OPEN`` and nothing has to be asked for that; else ``None``."""
        occurrence = ticket.occurrence
        job = self._catalog.known(occurrence.job_id)
        if job is None or not occurrence.is_slot or is_stale(occurrence, job):
            return None
        now = self._clock.wall_ms()
        try:
            schedule = self._schedules(job.id, job.version, job.spec.schedule)
            late = is_late(ticket, job, self._start_at(occurrence, job, schedule), now, self._tuning)
        except Exception:  # whatever it is, the entry meets it again on its own, where it is told of
            return None
        return None if late else ticket.judged(job, now)

    async def judge(self, ticket: Ticket) -> tuple[Verdict, Ticket]:
        """The verdict over this entry. Raises ``ScheduleError`` where the job's schedule cannot be read any more."""
        occurrence, judged_at = ticket.occurrence, self._clock.wall_ms()
        job = await self.job(occurrence)
        ticket = ticket.judged(job, judged_at)
        if occurrence.is_slot and job is not None and not is_stale(occurrence, job):
            # Read before anything is opened: a job that cannot be moved on must not begin a run.
            schedule = self._schedules(job.id, job.version, job.spec.schedule)
            if not is_late(ticket, job, self._start_at(occurrence, job, schedule), self._clock.wall_ms(), self._tuning):
                return Verdict.OPEN, ticket
            run = await self.run(occurrence)
            return (Verdict.MISSED if run is None else Verdict.OPEN), ticket
        run = await self.run(occurrence)
        if run is None:
            # Whatever is no slot has a row before it has an entry: this one was made up, or its row was pruned.
            return Verdict.DROP, ticket
        if run.status.terminal:
            return Verdict.ENDED, ticket
        end = ending(occurrence, run, job, self._clock.wall_ms())
        if end is None:
            return Verdict.OPEN, replace(ticket, run=run)
        rules, now_ms = self._alerts.rules(run.spec.alerts), self._clock.wall_ms()
        request = EndRequest(
            key=run.key,
            was=run.status,
            attempt=run.attempt,
            fence=ticket.holding.fence,
            status=end[0],
            reason=end[1],
            now_ms=now_ms,
            alerts=case_of_end(rules, run, *end, now_ms) if rules else None,
        )
        if await self._patience.insist("history", lambda: self._history.end(request)):
            self._emit(RunEnded(occurrence=occurrence, job_name=run.spec.name, run_id=run.id, status=end[0], reason=end[1]))
        return Verdict.ENDED, ticket

    async def job(self, occurrence: Occurrence) -> Job | None:
        """The entry's job as it stands now."""
        return await self._patience.insist("control", lambda: self._catalog.job(occurrence.job_id))

    async def run(self, occurrence: Occurrence) -> Run | None:
        """The entry's run, if it was opened."""
        return await self._patience.insist("history", lambda: self._history.run(occurrence.key))

    @staticmethod
    def _start_at(occurrence: Occurrence, job: Job, schedule: Schedule) -> Millis:
        spec = job.spec
        if not spec.jitter_ms and not spec.offset_ms:
            return occurrence.scheduled_at_ms
        return spec.start_at_ms(occurrence, schedule.next_after_ms(occurrence.scheduled_at_ms))
