"""Backfills: past slots of a job that are to run again, or for the first time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from cronpad_core.control.desk import Desk
from cronpad_core.control.queries import find_job
from cronpad_core.control.trigger import require_kept
from cronpad_core.domain.backfill import Backfill, BackfillStatus
from cronpad_core.domain.errors import ConfigurationError, CronpadError, NotFoundError
from cronpad_core.domain.ids import backfill_id_for
from cronpad_core.domain.job import Job
from cronpad_core.domain.overlap import OverlapRule
from cronpad_core.domain.timing import Millis, rfc3339
from cronpad_core.ports.catalog import CatalogStore
from cronpad_core.ports.history import HistoryStore
from cronpad_core.ports.schedule import ScheduleReader

__all__ = [
    "MOST_SLOTS",
    "BackfillPlan",
    "StartedBackfill",
    "cancel_backfill",
    "find_backfill",
    "list_backfills",
    "plan_backfill",
    "start_backfill",
]

MOST_SLOTS: Final = 100_000
"""A backfill of more slots is most likely a slip of the pen: it must be forced."""

_SEARCHED: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """What a backfill of [``from_ms``, ``to_ms``] would run: how many slots, the first and the last (``None`` for no slot)."""

    job: Job
    from_ms: Millis
    to_ms: Millis
    slots: int
    first_ms: Millis | None
    last_ms: Millis | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedBackfill:
    """``created`` is False where the same backfill was asked for before and has not ended."""

    backfill: Backfill
    created: bool


def plan_backfill(job: Job, from_ms: Millis, to_ms: Millis, *, schedules: ScheduleReader, now_ms: Millis) -> BackfillPlan:
    """Counts the slots that the job's present schedule has in the range; writes nothing.

    Raises ``NotFoundError`` for a removed job, ``ConfigurationError`` for a range that is reversed or not past, and
    ``ScheduleError``.
    """
    require_kept(job)
    if from_ms > to_ms:
        raise ConfigurationError(f"a backfill cannot go from {rfc3339(from_ms)} back to {rfc3339(to_ms)}", hint="swap the two")
    if to_ms > now_ms:
        raise ConfigurationError(
            f"a backfill cannot go to {rfc3339(to_ms)}: that has not come yet", hint="slots to come run by themselves"
        )
    schedule = schedules(job.id, job.version, job.spec.schedule)
    slots = schedule.count_between_ms(from_ms - 1, to_ms)
    return BackfillPlan(
        job=job,
        from_ms=from_ms,
        to_ms=to_ms,
        slots=slots,
        first_ms=schedule.next_after_ms(from_ms - 1) if slots else None,
        last_ms=schedule.prev_at_or_before_ms(to_ms) if slots else None,
    )


async def start_backfill(
    desk: Desk, plan: BackfillPlan, *, overlap: OverlapRule | None = None, force: bool = False
) -> StartedBackfill:
    """Keeps the backfill; the dispatcher then feeds its slots one after another, oldest first.

    ``overlap`` takes the place of the job's rule for these runs. The same backfill asked for again, before it has ended, is the
    one that is there. Raises ``ConfigurationError`` where there is no slot, or more than ``MOST_SLOTS`` and no ``force``;
    ``TermRefusedError`` and ``StoreError``.
    """
    job = plan.job
    if plan.first_ms is None:
        span = f"from {rfc3339(plan.from_ms)} to {rfc3339(plan.to_ms)}"
        raise ConfigurationError(f'job "{job.spec.name}" has no slot {span}', hint="'cronpad explain' shows when it fires")
    if plan.slots > MOST_SLOTS and not force:
        raise ConfigurationError(
            f'a backfill of "{job.spec.name}" over {plan.slots:,} slots is refused: more than {MOST_SLOTS:,}',
            hint="take a shorter range, or force it",
        )
    term, now_ms = desk.require_term(), desk.now_ms()
    for one in await desk.history.backfills(job_id=job.id, unfinished=True):
        if (one.from_ms, one.to_ms, one.job_version, one.overlap) == (plan.from_ms, plan.to_ms, job.version, overlap):
            return StartedBackfill(backfill=one, created=False)
    backfill = Backfill(
        id=backfill_id_for(job.id, plan.from_ms, plan.to_ms, now_ms),
        job_id=job.id,
        job_version=job.version,
        from_ms=plan.from_ms,
        to_ms=plan.to_ms,
        cursor_ms=plan.first_ms,
        created_at_ms=now_ms,
        overlap=overlap,
    )
    created = await desk.history.add_backfill(backfill, term=term)
    desk.wake(now_ms)
    return StartedBackfill(backfill=backfill, created=created)


async def list_backfills(
    catalog: CatalogStore, history: HistoryStore, *, job: str | None = None, unfinished: bool = False, limit: int = 100
) -> list[Backfill]:
    """Backfills, newest first, of one job where a name or id is given. Raises ``NotFoundError`` for an unknown job."""
    job_id = (await find_job(catalog, job)).id if job is not None else None
    return await history.backfills(job_id=job_id, unfinished=unfinished, limit=limit)


async def find_backfill(history: HistoryStore, word: str) -> Backfill:
    """The backfill of that id, or of the one id that begins so. Raises ``NotFoundError``."""
    near = [one for one in await history.backfills(limit=_SEARCHED) if one.id.startswith(word)]
    exact = [one for one in near if one.id == word]
    if len(near) == 1 or exact:
        return (exact or near)[0]
    if near:
        raise NotFoundError(f'"{word}" begins {len(near)} backfill ids', hint="give more of the id")
    raise NotFoundError(f'no backfill "{word}" in this state')


async def cancel_backfill(desk: Desk, word: str) -> Backfill:
    """No further slot of it begins; what has begun goes on. Answers the backfill as it stands.

    Raises ``NotFoundError``, ``CronpadError`` for one that has ended, ``TermRefusedError`` and ``StoreError``.
    """
    while True:
        term = desk.require_term()
        found = await find_backfill(desk.history, word)
        if found.status is not BackfillStatus.OPEN:
            when = f" at {rfc3339(found.finished_at_ms)}" if found.finished_at_ms is not None else ""
            raise CronpadError(f"backfill {found.id} has ended already: {found.status.value}{when}")
        ended = replace(found, status=BackfillStatus.CANCELLED, finished_at_ms=desk.now_ms())
        if await desk.history.move_backfill(ended, expected=found, term=term):
            return ended
