"""A clock that was ahead: jobs that stand later than they should are moved back, under another clock epoch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.domain.events import JobsRewound
from cronpad_core.domain.job import Job, JobStatus, JobVersion, Replay
from cronpad_core.domain.retry import longest_delay_ms
from cronpad_core.domain.run import Run, RunStatus, next_entry
from cronpad_core.domain.timing import MINUTE, Millis
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.ports.catalog import CatalogStore, JobWrite, StaleWriteError
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import HistoryStore
from cronpad_core.ports.keeping import CutRequest
from cronpad_core.ports.queue import Entry, QueueStore
from cronpad_core.ports.schedule import Schedule, ScheduleReader

__all__ = ["PutNext", "Rewinder", "stands_ahead"]

PutNext = Callable[[Job, int], Awaitable[None]]
"""Queues the next fire of a job under a term; what cannot be queued now, or is in flight, is owed."""

_PAGE = 1_000
_MARGIN = MINUTE


def stands_ahead(job: Job, now_ms: Millis, schedule: Schedule) -> bool:
    """Whether an active job waits for a later fire than any clock that goes right would have it wait for."""
    if job.valid_from_ms > now_ms + _MARGIN:
        return True
    bound = schedule.next_after_ms(now_ms + _MARGIN)
    if bound is None:
        return False
    replay_ms = job.replay.until_ms if job.replay is not None else 0
    return max(job.next_run_at_ms or 0, replay_ms) > bound


class Rewinder:
    """Found by state, never by an event that could be missed. Slots that have a run row stay finished: nothing runs twice.

    Written in the order control (next fire, bounds of versions), history (ranges cut to now), queue. Dies half-way: slots whose
    range was not cut keep that outcome, and an entry that was not put is found missing; no slot is lost.
    """

    def __init__(
        self,
        *,
        catalog: CatalogStore,
        history: HistoryStore,
        queue: QueueStore,
        clock: Clock,
        authority: Authority,
        patience: Patience,
        schedules: ScheduleReader,
        put_next: PutNext,
        emit: Emit,
    ) -> None:
        self._catalog = catalog
        self._history = history
        self._queue = queue
        self._clock = clock
        self._authority = authority
        self._patience = patience
        self._schedules = schedules
        self._put_next = put_next
        self._emit = emit

    async def check(self, *, thorough: bool) -> int:
        """Moves back every job that stands ahead; answers how many. Raises ``StoreError`` and ``TermRefusedError``.

        ``thorough``, after a step back was seen: the bounds of all versions, of jobs that are paused or gone too, and the entries
        of runs that have not ended. A job that is found ahead shows that there was one.
        """
        rewound, after = 0, ""
        statuses = None if thorough else {JobStatus.ACTIVE}
        while True:
            jobs = await self._patience.attempt(
                "control", partial(self._catalog.jobs, statuses=statuses, after=after, limit=_PAGE)
            )
            for job in jobs:
                rewound += await self._check(job, thorough=thorough)
            if len(jobs) < _PAGE:
                break
            after = jobs[-1].id
        if thorough:
            await self._hurry_runs()
        if rewound:
            self._emit(JobsRewound(count=rewound))
        if rewound and not thorough:
            rewound += await self.check(thorough=True)
        return rewound

    async def _check(self, job: Job, *, thorough: bool) -> bool:
        now = self._clock.wall_ms()
        try:
            schedule = self._schedules(job.id, job.version, job.spec.schedule)
            ahead = job.status is JobStatus.ACTIVE and stands_ahead(job, now, schedule)
        except Exception:  # one job's schedule must not keep the others from being put right; its line tells of it
            return False
        if not ahead and not thorough:
            return False
        if not ahead and job.next_run_at_ms is not None and job.next_run_at_ms <= now and self._authority.term is not None:
            # Its entry was held, or fed by the budget, up to an instant of the clock that was ahead.
            await self._put_next(job, self._authority.term)
        versions = await self._patience.attempt("control", partial(self._catalog.versions, job.id))
        late = [one for one in versions if max(one.valid_from_ms, one.valid_until_ms or 0) > now + _MARGIN]
        if not ahead and not late:
            return False
        return await self._rewind(job, versions, now, schedule, ahead=ahead)

    async def _rewind(self, job: Job, versions: Sequence[JobVersion], now: Millis, schedule: Schedule, *, ahead: bool) -> bool:
        term = self._authority.term
        if term is None:
            return False
        back = replace(job, valid_from_ms=min(job.valid_from_ms, now), clock_epoch=job.clock_epoch + 1)
        if ahead:
            if job.replay is not None and job.next_run_at_ms is not None and job.next_run_at_ms <= now:
                # A catch-up that has not come as far as now: what it was to run by now is still to be run.
                replay = Replay(until_ms=min(job.replay.until_ms, now), then_ms=schedule.next_after_ms(now))
                back = replace(back, replay=replay)
            else:
                slot = await self._free_slot(job, now, schedule)
                standing = job.next_run_at_ms
                back = replace(
                    back, next_run_at_ms=standing if slot is None or standing is None else min(slot, standing), replay=None
                )
        write = JobWrite(job=back, expected=job, amends=tuple(_cut_version(one, now) for one in versions))
        try:
            await self._patience.attempt("control", lambda: self._catalog.write([write], term=term))
        except StaleWriteError:
            return False  # somebody changed it meanwhile: the next check looks again
        cuts = [self._cut(one, now) for one in versions if self._readable(one)]
        await self._patience.attempt("history", lambda: self._history.cut_ranges(cuts, term=term))
        if ahead:
            await self._put_next(back, term)
        return True

    async def _free_slot(self, job: Job, now: Millis, schedule: Schedule) -> Millis | None:
        """The first fire after now, but for those that are being run already: their entries belong to their runs."""
        slot = schedule.next_after_ms(now)
        while slot is not None:
            run = await self._patience.attempt("history", partial(self._history.run, job.slot(slot).key))
            if run is None or run.status.terminal:
                break
            slot = schedule.next_after_ms(slot)
        return slot

    def _readable(self, version: JobVersion) -> bool:
        try:
            self._schedules(version.job_id, version.version, version.spec.schedule)
        except ScheduleError:
            return False
        return True

    def _cut(self, version: JobVersion, now: Millis) -> CutRequest:
        schedule = self._schedules(version.job_id, version.version, version.spec.schedule)
        return CutRequest(
            job_id=version.job_id,
            version=version.version,
            last_ms=now,
            slots=lambda a, b: schedule.count_between_ms(a - 1, b),
        )

    async def _hurry_runs(self) -> None:
        """No entry of a run lies further ahead than its longest delay: a later one counts as due now."""
        term, after = self._authority.term, ""
        while term is not None:
            page = await self._patience.attempt("history", partial(self._history.unfinished, after=after, limit=_PAGE))
            now = self._clock.wall_ms()
            entries = [entry for run in page if (entry := _too_late(run, now)) is not None]
            if entries:
                await self._patience.attempt("queue", partial(self._queue.put, entries, term=term))
            if len(page) < _PAGE:
                return
            after = page[-1].id


def _too_late(run: Run, now_ms: Millis) -> Entry | None:
    """Where the run's entry belongs, if it may lie too far ahead; what is held or waits was given back for seconds alone."""
    occurrence, due_ms = next_entry(run)
    if run.status is RunStatus.RETRYING and now_ms < due_ms <= now_ms + longest_delay_ms(run.spec.retry):
        return None
    return Entry(member=occurrence.member, at_ms=now_ms)


def _cut_version(version: JobVersion, now_ms: Millis) -> JobVersion:
    until_ms = None if version.valid_until_ms is None else min(version.valid_until_ms, now_ms)
    return replace(version, valid_from_ms=min(version.valid_from_ms, now_ms), valid_until_ms=until_ms)
