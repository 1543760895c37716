"""Holding the ledger against the schedules: every slot of every version has one outcome, and every outcome is of a slot.

Slots are counted over gaps and ranges, never walked, so a million missed slots cost as much as one. What is walked are the rows
of runs; of each one eight bytes are kept, one job at a time. Nothing is written.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from cronpad_core.control.audit_version import FindingKind, Frontier, JobAudit, VersionAudit
from cronpad_core.control.coverage import Coverage, coverage_of, held_since
from cronpad_core.control.orphans import orphans
from cronpad_core.domain.errors import ScheduleError
from cronpad_core.domain.job import Job, ScheduleSpec
from cronpad_core.domain.ledger import SlotRange
from cronpad_core.domain.occurrence import Trigger
from cronpad_core.domain.timing import MINUTE, Millis
from cronpad_core.ports.schedule import Schedule, ScheduleReader
from cronpad_core.ports.storage import Storage

__all__ = ["audit"]

_PAGE = 1_000
_EDIT_TAKES = MINUTE
"""An edit takes its time from before it is written; a slot that came up in between may have been opened under the old version."""

_Rows = dict[tuple[int, ScheduleSpec], "array[int]"]


async def audit(
    storage: Storage, *, schedules: ScheduleReader, now_ms: Millis, handling_ms: Millis, since_ms: Millis | None = None
) -> AsyncIterator[JobAudit]:
    """Audits every job, removed ones included, as of ``now_ms``; with ``since_ms`` only the slots after it.

    ``handling_ms``: how long, beyond a job's own grace, a lost queue entry takes to be found (``overdue_grace`` and
    ``reconcile_interval``). A dispatcher that runs writes between two reads, so a job with findings is read again, and what is
    told is what both times were found.
    """
    books = _Books(storage, schedules, now_ms, handling_ms, since_ms)
    after = ""
    while True:
        page = await storage.catalog.jobs(after=after, limit=_PAGE)
        for job in page:
            found = await books.audit(job)
            if found.findings:
                first = {(one.kind, one.version, one.first_ms) for one in found.findings}
                found = await books.audit(await storage.catalog.job(job.id) or job)
                found.findings = [one for one in found.findings if (one.kind, one.version, one.first_ms) in first]
            yield found
        if len(page) < _PAGE:
            break
        after = page[-1].id
    for orphan in await orphans(storage, since_ms=since_ms):
        yield orphan


def _younger(rows: _Rows, after_ms: Millis) -> _Rows:
    """The rows after an instant."""
    if not after_ms:
        return rows
    kept = {key: array("q", (at_ms for at_ms in instants if at_ms > after_ms)) for key, instants in rows.items()}
    return {key: instants for key, instants in kept.items() if instants}


@dataclass(frozen=True, slots=True)
class _Books:
    storage: Storage
    schedules: ScheduleReader
    now_ms: Millis
    handling_ms: Millis
    since_ms: Millis | None

    async def audit(self, job: Job) -> JobAudit:
        """One job: first where it stands, then what happened, so that no outcome is missing which made it stand there."""
        result = JobAudit(job=job)
        covered = {one.version.version: one for one in coverage_of(await self.storage.catalog.versions(job.id))}
        rows = await self._rows(job.id)
        written = await self.storage.history.ranges(job.id)
        # Asked last: what was pruned meanwhile lies before it.
        ledger_from = await self.storage.history.ledger_from(job.id)
        after_ms = max(self.since_ms or 0, (ledger_from or 0) - 1)
        rows = _younger(rows, after_ms)
        ranges: dict[int, list[SlotRange]] = {}
        for one in written:
            if one.last_ms > after_ms:
                ranges.setdefault(one.version, []).append(one)
        if ledger_from is not None and covered and ledger_from > min(span.after_ms for span in covered.values()) + 1:
            result.ledger_from_ms = ledger_from
        self._check_runs(result, rows, covered)
        self._check_places(result, ranges, covered)
        runs = array("q", sorted(at_ms for instants in rows.values() for at_ms in instants))
        for number, span in covered.items():
            spec = span.version.spec.schedule
            schedule = self._schedule(result, number, spec, "the version", span.after_ms, span.until_ms or self.now_ms)
            if schedule is not None:
                VersionAudit(
                    result=result,
                    version=number,
                    schedule=schedule,
                    after_ms=max(span.after_ms, after_ms),
                    until_ms=self.now_ms if span.until_ms is None else min(self.now_ms, span.until_ms),
                    frontier=await self._frontier(job, span),
                    ranges=ranges.get(number, ()),
                    runs=runs,
                ).audit()
        result.findings.sort(key=lambda one: (one.first_ms, one.version, one.kind))
        return result

    async def _rows(self, job_id: str) -> _Rows:
        """The instants of the job's scheduled runs, by version and the schedule in their own settings."""
        rows: _Rows = {}
        before: str | None = None
        while True:
            page = await self.storage.history.runs(job_id=job_id, before=before, limit=_PAGE)
            for run in page:
                at_ms = run.key.scheduled_at_ms
                if run.key.trigger is Trigger.SCHEDULED and at_ms > (self.since_ms or 0):
                    rows.setdefault((run.job_version, run.spec.schedule), array("q")).append(at_ms)
            # But for a small step of the clock no run is created before its slot, so older pages hold older slots.
            if len(page) < _PAGE or page[-1].created_at_ms < (self.since_ms or 0) - MINUTE:
                return rows
            before = page[-1].id

    def _schedule(
        self, result: JobAudit, version: int, spec: ScheduleSpec, whose: str, first_ms: Millis, last_ms: Millis
    ) -> Schedule | None:
        try:
            return self.schedules(result.job.id, version, spec)
        except ScheduleError as error:
            detail = f"the schedule of {whose}, {' | '.join(spec.texts)}: {error.message}"
            result.find(FindingKind.UNREADABLE, version, first_ms, last_ms, detail)
            return None

    def _check_runs(self, result: JobAudit, rows: _Rows, covered: Mapping[int, Coverage]) -> None:
        """Each run is at a slot of the schedule that it ran with, and of its version."""
        for (version, spec), instants in rows.items():
            schedule = self._schedule(result, version, spec, "runs", min(instants), max(instants))
            span = covered.get(version)
            for at_ms in instants:
                if schedule is not None and schedule.next_after_ms(at_ms - 1) != at_ms:
                    detail = "a run, and the schedule that it ran with does not fire then"
                elif span is None:
                    detail = "a run of a version that is not known"
                elif not span.covers(at_ms, _EDIT_TAKES) and not result.job.clock_epoch:
                    detail = "a run outside the time of its version"
                else:
                    continue
                result.find(FindingKind.NO_SLOT, version, at_ms, at_ms, detail)

    @staticmethod
    def _check_places(result: JobAudit, ranges: Mapping[int, list[SlotRange]], covered: Mapping[int, Coverage]) -> None:
        """Each range has to do with its version. A clock that was set back cuts bounds, and proves nothing."""
        for version, rows in ranges.items():
            span = covered.get(version)
            for one in rows:
                if span is None:
                    detail = f"a {one.kind.value} range of a version that is not known"
                elif not result.job.clock_epoch and (
                    one.last_ms <= span.after_ms or (span.until_ms is not None and one.first_ms > span.until_ms + _EDIT_TAKES)
                ):
                    detail = f"a {one.kind.value} range outside the time of its version"
                else:
                    continue
                result.find(FindingKind.NO_SLOT, version, one.first_ms, one.last_ms, detail)

    async def _frontier(self, job: Job, span: Coverage) -> Frontier:
        version, spec = span.version, span.version.spec
        settled = self.now_ms - spec.offset_ms - spec.jitter_ms - spec.grace_ms - self.handling_ms
        if version.valid_until_ms is not None:
            # What a version leaves open is written after its end, however old the slots are.
            waiting = self.now_ms if version.valid_until_ms > settled else None
            why = "its version ended; no dispatcher has written yet what was dropped"
            return Frontier(settled_ms=settled, standing_ms=version.open_from_ms, waiting_ms=waiting, why=why)
        standing = job.next_run_at_ms if job.version == version.version else None
        waiting = job.replay.until_ms if job.replay is not None else None
        if standing is not None and standing <= settled and await held_since(self.storage.queue, job) is not None:
            waiting = self.now_ms
        why = "the job stands there, and no dispatcher has decided yet"
        return Frontier(settled_ms=settled, standing_ms=standing, waiting_ms=waiting, why=why)
