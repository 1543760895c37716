"""Holding the queue against control and history, and putting back what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.domain.events import EntriesRepaired
from cronpad_core.domain.job import Job, JobStatus, JobVersion
from cronpad_core.domain.ledger import RangeKind, SlotRange
from cronpad_core.domain.occurrence import Occurrence
from cronpad_core.domain.retry import longest_delay_ms
from cronpad_core.domain.run import RunStatus, next_entry
from cronpad_core.domain.timing import Millis
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.budget import ReplayBudget
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.engine.ticket import Holdings
from cronpad_core.ports.catalog import CatalogStore
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import HistoryStore, RangeRequest
from cronpad_core.ports.queue import Entry, QueueStore
from cronpad_core.ports.schedule import ScheduleReader

__all__ = ["Reconciler"]

_PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Missing:
    occurrence: Occurrence
    at_ms: Millis
    replayed: bool = False


class Reconciler:
    """Repairs; never decides. Every batch is one transaction under our term, so a second pass does no harm.

    Guarantees after a full pass: every active job's next fire and every unfinished run has an entry, in ``due`` or in flight. Dies
    half-way: the next start, or the next pass, does the rest.
    """

    def __init__(
        self,
        *,
        catalog: CatalogStore,
        history: HistoryStore,
        queue: QueueStore,
        clock: Clock,
        authority: Authority,
        holdings: Holdings,
        patience: Patience,
        schedules: ScheduleReader,
        budget: ReplayBudget,
        tuning: Tuning,
        emit: Emit,
    ) -> None:
        self._catalog = catalog
        self._history = history
        self._queue = queue
        self._clock = clock
        self._authority = authority
        self._holdings = holdings
        self._patience = patience
        self._schedules = schedules
        self._budget = budget
        self._tuning = tuning
        self._emit = emit

    async def check(self) -> int:
        """The cheap pass, every ten seconds: overdue jobs and old unfinished runs without an entry, and ended versions.

        Raises ``StoreError`` and ``TermRefusedError``; answers how many entries it put back.
        """
        before = self._clock.wall_ms() - self._tuning.overdue_grace_ms
        jobs = await self._patience.attempt("control", lambda: self._catalog.overdue(before_ms=before, limit=_PAGE))
        repaired = await self._put_missing(self._of_jobs(jobs))
        repaired += await self._runs(before)
        await self._drop_ended()
        if repaired:
            self._emit(EntriesRepaired(count=repaired, full=False))
        return repaired

    async def sweep(self) -> int:
        """The full pass, at a start, after data loss and every few hours: every active job and every unfinished run."""
        repaired, after = 0, ""
        while True:
            jobs = await self._patience.attempt(
                "control",
                partial(self._catalog.jobs, statuses={JobStatus.ACTIVE}, after=after, limit=_PAGE),
            )
            repaired += await self._put_missing(self._of_jobs(jobs))
            if len(jobs) < _PAGE:
                break
            after = jobs[-1].id
        repaired += await self._runs(None)
        await self._drop_ended()
        if repaired:
            self._emit(EntriesRepaired(count=repaired, full=True))
        return repaired

    def _of_jobs(self, jobs: Sequence[Job]) -> list[_Missing]:
        wanted = []
        for job in jobs:
            slot = job.next_run_at_ms
            if slot is None:
                continue
            occurrence, at_ms = job.slot(slot), slot
            if job.replay is None and (job.spec.jitter_ms or job.spec.offset_ms):
                try:
                    schedule = self._schedules(job.id, job.version, job.spec.schedule)
                    at_ms = job.spec.start_at_ms(occurrence, schedule.next_after_ms(slot))
                except Exception:  # one job's schedule must not keep the others from being repaired; its line tells of it
                    at_ms = slot
            wanted.append(_Missing(occurrence=occurrence, at_ms=at_ms, replayed=job.replay is not None))
        return wanted

    async def _runs(self, before_ms: Millis | None) -> int:
        repaired, after = 0, ""
        while True:
            page = await self._patience.attempt("history", partial(self._history.unfinished, after=after, limit=_PAGE))
            wanted, now = [], self._clock.wall_ms()
            for run in page:
                occurrence, due = next_entry(run)
                # What is dated in the future was opened, or planned, while the clock was ahead: it counts as old.
                ahead = due > now + (longest_delay_ms(run.spec.retry) if run.status is RunStatus.RETRYING else 0)
                due = min(due, now) if ahead else due
                if (before_ms is None or due < before_ms or ahead) and not self._holdings.holds_run(occurrence):
                    wanted.append(_Missing(occurrence=occurrence, at_ms=due))
            repaired += await self._put_missing(wanted)
            if len(page) < _PAGE:
                return repaired
            after = page[-1].id

    async def _put_missing(self, wanted: Sequence[_Missing]) -> int:
        term = self._authority.term
        if not wanted or term is None:
            return 0
        members = [one.occurrence.member for one in wanted]
        there = await self._patience.attempt("queue", lambda: self._queue.contains(members))
        entries = [
            Entry(member=one.occurrence.member, at_ms=self._due(one))
            for one in wanted
            if one.occurrence.member not in there and self._holdings.get(one.occurrence.member) is None
        ]
        if not entries:
            return 0
        in_flight = await self._patience.attempt("queue", lambda: self._queue.put(entries, term=term))
        return len(entries) - len(in_flight)

    def _due(self, one: _Missing) -> Millis:
        return max(one.at_ms, self._budget.next_ms(self._clock.wall_ms())) if one.replayed else one.at_ms

    async def _drop_ended(self) -> None:
        """Writes the dropped slots of ended versions into the ledger; redone as often as need be."""
        term = self._authority.term
        versions = await self._patience.attempt("control", lambda: self._catalog.ended_versions(limit=_PAGE))
        if not versions or term is None:
            return
        handled: list[JobVersion] = []
        requests: list[RangeRequest] = []
        for version in versions:
            try:
                request = self._dropped(version)
            except ScheduleError:
                continue  # owed until its schedule can be read again
            handled.append(version)
            requests += [request] if request is not None else []
        if requests:
            await self._patience.attempt("history", lambda: self._history.add_ranges(requests, term=term))
        if handled:
            await self._patience.attempt("control", lambda: self._catalog.mark_ledgered(handled))

    def _dropped(self, version: JobVersion) -> RangeRequest | None:
        first, last = version.open_from_ms, version.valid_until_ms
        if first is None or last is None or first > last:
            return None
        schedule = self._schedules(version.job_id, version.version, version.spec.schedule)
        return RangeRequest(
            range=SlotRange(
                job_id=version.job_id,
                version=version.version,
                kind=RangeKind.DROPPED,
                first_ms=first,
                last_ms=last,
                count=0,
                reason="its version ended",
            ),
            slots=lambda a, b: schedule.count_between_ms(a - 1, b),
        )
