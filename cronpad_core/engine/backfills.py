"""Feeding backfills: of each one slot at a time, under the budget that all slots of the past share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cronpad_core.domain.backfill import Backfill, BackfillStatus
from cronpad_core.domain.errors import ScheduleError
from cronpad_core.domain.job import Job, JobStatus, ScheduleSpec
from cronpad_core.domain.limits import month_of
from cronpad_core.domain.occurrence import RunKey, Trigger
from cronpad_core.domain.run import Run, RunStatus, next_entry
from cronpad_core.domain.timing import MINUTE, SECOND, Millis
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.patience import Patience
from cronpad_core.ports.asked import PendingRequest
from cronpad_core.ports.catalog import CatalogStore
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import HistoryStore
from cronpad_core.ports.queue import Entry, QueueStore
from cronpad_core.ports.schedule import Schedule, ScheduleReader

__all__ = ["BackfillFeeder"]

_PAGE = 1_000
_PASSED_AT_ONCE = 200
_SOONEST, _LATEST = 100, 5 * SECOND


class BackfillFeeder:
    """Moves each backfill on: insert the run of its cursor's slot, put it, and move the cursor only when that run has ended.

    Assumes that nobody else feeds: it works under the term. Dies anywhere: the cursor stands at a slot without a run, or with one
    that has no entry yet, and the next step goes on from there; a run says by its token which backfill it belongs to. A slot that
    has a backfill run of another is passed over once that has ended, so of one job the slots keep their order.
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
        next_ms: Callable[[Millis], Millis],
        wake: Callable[[Millis], None],
    ) -> None:
        self._catalog = catalog
        self._history = history
        self._queue = queue
        self._clock = clock
        self._authority = authority
        self._patience = patience
        self._schedules = schedules
        self._next_ms = next_ms
        self._wake = wake

    async def step(self) -> Millis | None:
        """Looks after every unfinished backfill; answers the wall time of the next look, ``None`` where there is none to look at.

        May be called sooner, above all when a backfill was added or a run has ended. Raises ``StoreError`` and
        ``TermRefusedError``; calling it again does no harm.
        """
        term = self._authority.term
        if term is None:
            return None
        unfinished = await self._patience.attempt("history", lambda: self._history.backfills(unfinished=True, limit=_PAGE))
        looks = [await self._feed(backfill, term) for backfill in reversed(unfinished)]
        return min((look for look in looks if look is not None), default=None)

    async def _feed(self, backfill: Backfill, term: int) -> Millis | None:
        """One backfill; answers when to look at it again, ``None`` once it has ended."""
        now = self._clock.wall_ms()
        job = await self._patience.attempt("control", lambda: self._catalog.job(backfill.job_id))
        if job is None or job.status is JobStatus.DELETED:
            return await self._end(backfill, backfill, BackfillStatus.CANCELLED, term)
        spec = await self._schedule_of(backfill, job)
        if spec is None:
            return await self._end(backfill, backfill, BackfillStatus.CANCELLED, term)
        try:
            schedule = self._schedules(job.id, backfill.job_version, spec)
        except ScheduleError:
            return now + MINUTE
        moved, run = backfill, await self._run(backfill)
        for _ in range(_PASSED_AT_ONCE):
            if run is None or not run.status.terminal:
                break
            following = _past(moved, run, schedule)
            if following is None:
                return await self._end(backfill, _counted(moved, run), BackfillStatus.FINISHED, term)
            moved = following
            run = await self._run(moved)
        if moved != backfill and not await self._move(moved, backfill, term):
            return now  # somebody else moved or ended it: look again
        if run is None:
            return await self._start(moved, job, term)
        if run.status.terminal:
            return now
        return await self._look_after(moved, run, term)

    async def _schedule_of(self, backfill: Backfill, job: Job) -> ScheduleSpec | None:
        """The schedule that the slots are of: the version's that the backfill was asked for."""
        if job.version == backfill.job_version:
            return job.spec.schedule
        versions = await self._patience.attempt("control", lambda: self._catalog.versions(job.id))
        return next((one.spec.schedule for one in versions if one.version == backfill.job_version), None)

    async def _run(self, backfill: Backfill) -> Run | None:
        key = RunKey(job_id=backfill.job_id, scheduled_at_ms=backfill.cursor_ms, trigger=Trigger.BACKFILL)
        return await self._patience.attempt("history", lambda: self._history.run(key))

    async def _start(self, backfill: Backfill, job: Job, term: int) -> Millis:
        now = self._clock.wall_ms()
        if await self._refused(job, now):
            return now + _LATEST
        request = PendingRequest(
            job_id=job.id,
            job_version=job.version,
            spec=job.spec if backfill.overlap is None else replace(job.spec, overlap=backfill.overlap),
            trigger=Trigger.BACKFILL,
            at_ms=backfill.cursor_ms,
            slot_at_ms=backfill.cursor_ms,
            now_ms=now,
            token=_token(backfill),
        )
        [answer] = await self._patience.attempt("history", lambda: self._history.add_pending([request], term=term))
        return await self._put(answer.run, term)

    async def _refused(self, job: Job, now_ms: Millis) -> bool:
        """Whether the run would only be skipped. A slot has one backfill run: a suspension must not use up the whole range."""
        name = job.spec.workspace
        workspace = await self._patience.attempt("control", lambda: self._catalog.workspace(name))
        if workspace is None:
            return False
        quota = workspace.quota
        if workspace.suspended or quota is None or not quota.blocking:
            return workspace.suspended
        used = await self._patience.attempt("history", lambda: self._history.used(name, month_of(now_ms)))
        return used >= quota.max

    async def _look_after(self, backfill: Backfill, run: Run, term: int) -> Millis:
        """A run that has not ended: queued again where it has no entry, else left alone. The older, the less often looked at."""
        now = self._clock.wall_ms()
        if run.status is RunStatus.PENDING:
            member = next_entry(run)[0].member
            if not await self._patience.attempt("queue", lambda: self._queue.contains([member])):
                return await self._put(run, term)
        if run.status is RunStatus.RETRYING and run.retry is not None:
            return min(max(run.retry.at_ms, now + _SOONEST), now + _LATEST)
        since = run.created_at_ms if run.opened_at_ms is None else run.opened_at_ms
        return now + min(max((now - since) // 4, _SOONEST), _LATEST)

    async def _put(self, run: Run, term: int) -> Millis:
        at_ms = self._next_ms(self._clock.wall_ms())
        entry = Entry(member=next_entry(run)[0].member, at_ms=at_ms)
        await self._patience.attempt("queue", lambda: self._queue.put([entry], term=term))
        self._wake(at_ms)
        return at_ms + _SOONEST

    async def _move(self, backfill: Backfill, expected: Backfill, term: int) -> bool:
        return await self._patience.attempt(
            "history", lambda: self._history.move_backfill(backfill, expected=expected, term=term)
        )

    async def _end(self, stored: Backfill, backfill: Backfill, status: BackfillStatus, term: int) -> Millis | None:
        now = self._clock.wall_ms()
        ended = await self._move(replace(backfill, status=status, finished_at_ms=now), stored, term)
        return None if ended else now


def _token(backfill: Backfill) -> str:
    return f"{backfill.id}|{backfill.cursor_ms}"


def _counted(backfill: Backfill, run: Run) -> Backfill:
    """With the cursor's run, which has ended, in its count."""
    if run.token == _token(backfill):
        return replace(backfill, started=backfill.started + 1)
    return replace(backfill, passed=backfill.passed + 1)


def _past(backfill: Backfill, run: Run, schedule: Schedule) -> Backfill | None:
    """With the cursor at the slot after its own; ``None`` where there is none in the range."""
    following = schedule.next_after_ms(backfill.cursor_ms)
    if following is None or following > backfill.to_ms:
        return None
    return replace(_counted(backfill, run), cursor_ms=following)
