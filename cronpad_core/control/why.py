"""What became of one slot of a job, and why: the rows that decided over it, gathered. ``why_words`` says them. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cronpad_core.control.coverage import Coverage, coverage_of, held_since
from cronpad_core.control.queries import all_jobs, find_job
from cronpad_core.domain.errors import NotFoundError
from cronpad_core.domain.job import Job, JobVersion
from cronpad_core.domain.ledger import RangeKind, SlotRange
from cronpad_core.domain.occurrence import RunKey, Trigger
from cronpad_core.domain.run import Attempt, Run, RunStatus
from cronpad_core.domain.timing import Millis
from cronpad_core.ports.schedule import Schedule, ScheduleReader
from cronpad_core.ports.storage import Storage

__all__ = ["Verdict", "Why", "any_job", "why"]


class Verdict(StrEnum):
    """The outcome of the slot (``RAN``: it has a run, of any status but skipped), or why it has none.

    ``OPEN``: its time has come, and it is not decided yet. ``NOT_YET``: it lies in the future. ``NO_SLOT``: the schedule does not
    fire then. ``NOT_COVERED``: no version of the job was in force. ``BEFORE_LEDGER``: what is known of the job begins later.
    ``LOST``: there must be an outcome, and there is none.
    """

    RAN = "ran"
    SKIPPED = "skipped"
    MISSED = "missed"
    DROPPED = "dropped"
    OPEN = "open"
    NOT_YET = "not_yet"
    NO_SLOT = "no_slot"
    NOT_COVERED = "not_covered"
    BEFORE_LEDGER = "before_ledger"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What is known of the instant ``at_ms`` of a job, as of ``now_ms``.

    ``covered`` is the version in force then, ``history`` all of them; ``before_ms`` and ``after_ms`` are the nearest slots around
    it; ``held_ms`` since when a limit keeps the job's next slot waiting; ``ledger_from_ms`` the first instant that the job's ledger
    answers for, where it has been pruned or restored.
    """

    job: Job
    at_ms: Millis
    now_ms: Millis
    verdict: Verdict
    history: tuple[Coverage, ...]
    covered: Coverage | None
    before_ms: Millis | None
    after_ms: Millis | None
    run: Run | None = None
    attempts: tuple[Attempt, ...] = ()
    range: SlotRange | None = None
    backfill: Run | None = None
    held_ms: Millis | None = None
    ledger_from_ms: Millis | None = None


async def any_job(storage: Storage, word: str) -> Job:
    """The job of that id or name; of a name that none has any more, the one removed job that had it. Raises ``NotFoundError``."""
    try:
        return await find_job(storage.catalog, word)
    except NotFoundError:
        removed = [job for job in await all_jobs(storage.catalog, deleted=True) if job.spec.name == word]
        if len(removed) != 1:
            raise
        return removed[0]


async def why(storage: Storage, job: Job, *, at_ms: Millis | None, now_ms: Millis, schedules: ScheduleReader) -> Why:
    """What became of the slot at ``at_ms``: by default the newest one by now, else the first to come. Raises ``ScheduleError``."""
    history = tuple(coverage_of(await storage.catalog.versions(job.id)))
    nearest = _Nearest(history, schedules)
    if at_ms is None:
        newest = nearest.before(now_ms + 1)
        first = nearest.after(now_ms) if newest is None else newest
        at_ms = now_ms if first is None else first
    covered = next((one for one in reversed(history) if one.covers(at_ms)), None)
    is_slot = covered is not None and nearest.after(at_ms - 1) == at_ms
    run = await _run(storage, job, at_ms, Trigger.SCHEDULED)
    ranges = await storage.history.ranges(job.id) if covered is not None and is_slot else []
    row = next((one for one in ranges if _has(one, covered, at_ms)), None)
    ledger_from_ms = await storage.history.ledger_from(job.id)
    verdict = _verdict(job, at_ms, now_ms, covered, is_slot, run, row)
    if verdict in (Verdict.LOST, Verdict.OPEN) and ledger_from_ms is not None and at_ms < ledger_from_ms:
        verdict = Verdict.BEFORE_LEDGER
    return Why(
        job=job,
        at_ms=at_ms,
        now_ms=now_ms,
        verdict=verdict,
        history=history,
        covered=covered,
        before_ms=nearest.before(at_ms),
        after_ms=nearest.after(at_ms),
        run=run,
        attempts=() if run is None else tuple(await storage.history.attempts(run.id)),
        range=row,
        backfill=await _run(storage, job, at_ms, Trigger.BACKFILL),
        held_ms=await held_since(storage.queue, job) if job.next_run_at_ms is not None and job.next_run_at_ms <= now_ms else None,
        ledger_from_ms=ledger_from_ms,
    )


async def _run(storage: Storage, job: Job, at_ms: Millis, trigger: Trigger) -> Run | None:
    return await storage.history.run(RunKey(job_id=job.id, scheduled_at_ms=at_ms, trigger=trigger))


def _has(row: SlotRange, covered: Coverage | None, at_ms: Millis) -> bool:
    return covered is not None and row.version == covered.version.version and row.first_ms <= at_ms <= row.last_ms


def _verdict(
    job: Job, at_ms: Millis, now_ms: Millis, covered: Coverage | None, is_slot: bool, run: Run | None, row: SlotRange | None
) -> Verdict:
    if run is not None:
        return Verdict.SKIPPED if run.status is RunStatus.SKIPPED else Verdict.RAN
    if covered is None:
        return Verdict.NOT_COVERED
    if not is_slot:
        return Verdict.NO_SLOT
    if row is not None:
        return Verdict.MISSED if row.kind is RangeKind.MISSED else Verdict.DROPPED
    if at_ms > now_ms:
        return Verdict.NOT_YET
    return Verdict.OPEN if _undecided(job, covered.version, at_ms) else Verdict.LOST


def _undecided(job: Job, version: JobVersion, at_ms: Millis) -> bool:
    """Whether the slot lies where nobody has decided yet: from the job's next run on, or in what an ended version left open."""
    standing = job.next_run_at_ms if version.valid_until_ms is None else version.open_from_ms
    return standing is not None and at_ms >= standing


class _Nearest:
    """The slots around an instant, over all versions."""

    def __init__(self, history: Sequence[Coverage], schedules: ScheduleReader) -> None:
        self._history = history
        self._schedules = schedules

    def before(self, at_ms: Millis) -> Millis | None:
        """The last slot before the instant."""
        for one in reversed(self._history):
            end = at_ms - 1 if one.until_ms is None else min(at_ms - 1, one.until_ms)
            if end > one.after_ms:
                found = self._of(one).prev_at_or_before_ms(end)
                if found is not None and found > one.after_ms:
                    return found
        return None

    def after(self, at_ms: Millis) -> Millis | None:
        """The first slot after the instant."""
        for one in self._history:
            if one.until_ms is None or at_ms < one.until_ms:
                found = self._of(one).next_after_ms(max(at_ms, one.after_ms))
                if found is not None and one.covers(found):
                    return found
        return None

    def _of(self, one: Coverage) -> Schedule:
        return self._schedules(one.version.job_id, one.version.version, one.version.spec.schedule)
