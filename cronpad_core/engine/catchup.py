"""Deciding over missed slots: the misfire policy's plan, written in an order that can be broken off anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cronpad_core.domain.alert_cases import case_of_missed
from cronpad_core.domain.events import SlotsMissed
from cronpad_core.domain.job import Job, Replay
from cronpad_core.domain.ledger import RangeKind, SlotRange
from cronpad_core.domain.misfire import MissedWindow, ReplayPlan
from cronpad_core.domain.timing import Millis
from cronpad_core.engine.alert_book import AlertBook
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.engine.ticket import Ticket
from cronpad_core.ports.catalog import CatalogStore, Move, MoveKind
from cronpad_core.ports.history import HistoryStore, RangeRequest
from cronpad_core.ports.misfire import MisfirePolicy
from cronpad_core.ports.schedule import Schedule, ScheduleReader

__all__ = ["CatchUp", "Decided", "Decision", "missed_window", "sound"]


class Decided(StrEnum):
    """``SELF``: this entry's own slot runs; go on. ``MOVED``: the job stands elsewhere; queue that and acknowledge this.
    ``AGAIN``: somebody changed the job meanwhile; judge again."""

    SELF = "self"
    MOVED = "moved"
    AGAIN = "again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer, with the job as it stands now."""

    kind: Decided
    job: Job | None


def missed_window(job: Job, first_ms: Millis, now_ms: Millis, schedule: Schedule) -> MissedWindow:
    """The overdue slots of a job, counted by arithmetic. ``first_ms`` is the job's next run, at or before ``now_ms``."""
    newest = schedule.prev_at_or_before_ms(now_ms)
    newest = first_ms if newest is None else max(newest, first_ms)
    following = schedule.next_after_ms(newest)
    period = 0 if following is None else following - newest
    oldest = schedule.next_after_ms(now_ms - max(job.spec.misfire.window_ms, period) - 1)
    earliest = None if oldest is None or oldest > newest else max(oldest, first_ms)
    return MissedWindow(
        job_id=job.id,
        first_ms=first_ms,
        newest_ms=newest,
        earliest_ms=earliest,
        now_ms=now_ms,
        rule=job.spec.misfire,
        next_after=schedule.next_after_ms,
        count_between=schedule.count_between_ms,
    )


def sound(plan: ReplayPlan, window: MissedWindow) -> bool:
    """Whether a plan keeps the promises of a policy (M2)."""
    first, until = plan.first_ms, plan.until_ms
    if first is None or until is None:
        return first is None and until is None
    if window.earliest_ms is None or not window.earliest_ms <= first <= until <= window.newest_ms:
        return False
    return window.next_after(first - 1) == first and window.next_after(until - 1) == until


class CatchUp:
    """Gate 1. Writes history (ranges), then control (next run and replay), and leaves the queue to its caller.

    Dies half-way: ranges without a moved job; the entry comes up again, decides again, and rows that exist are cut around.
    """

    def __init__(
        self,
        *,
        catalog: CatalogStore,
        history: HistoryStore,
        patience: Patience,
        schedules: ScheduleReader,
        policies: Mapping[str, MisfirePolicy],
        emit: Emit,
        alerts: AlertBook,
    ) -> None:
        self._catalog = catalog
        self._history = history
        self._patience = patience
        self._schedules = schedules
        self._policies = policies
        self._emit = emit
        self._alerts = alerts

    async def decide(self, ticket: Ticket) -> Decision:
        """Decides over the slots from this entry's to now. Raises ``TermRefusedError`` and ``ScheduleError``."""
        job = ticket.job
        assert job is not None, "the gate sets the job"
        slot, term = ticket.occurrence.scheduled_at_ms, ticket.holding.term
        schedule = self._schedules(job.id, job.version, job.spec.schedule)
        # Up to when the job was read, and no further: it may have been edited since, and later slots are another version's.
        window = missed_window(job, slot, ticket.judged_at_ms, schedule)
        plan, policy = self._plan(job, window)
        following = schedule.next_after_ms(window.newest_ms)
        ranges = self._ranges(job, window, plan, schedule)
        await self._patience.insist("history", lambda: self._history.add_ranges(ranges, term=term))
        target = following if plan.first_ms is None else plan.first_ms
        replay = None if plan.until_ms is None else Replay(until_ms=plan.until_ms, then_ms=following)
        move = Move(
            job_id=job.id,
            version=job.version,
            clock_epoch=job.clock_epoch,
            from_ms=slot,
            to_ms=target,
            replay=replay,
            term=term,
        )
        (answers, unknown) = await self._patience.insist_knowing("control", lambda: self._catalog.move([move]))
        answer = answers[0]
        echoed = unknown and answer.job is not None and answer.job.next_run_at_ms == target and answer.job.replay == replay
        if answer.kind is not MoveKind.MOVED and not echoed:
            return Decision(kind=Decided.AGAIN, job=answer.job)
        self._tell(job, window, plan, policy)
        return Decision(kind=Decided.SELF if target == slot else Decided.MOVED, job=answer.job)

    def _plan(self, job: Job, window: MissedWindow) -> tuple[ReplayPlan, str]:
        """What the job's policy says; a policy that is missing, raises or answers nonsense counts as ``latest``."""
        name = job.spec.misfire.policy
        policy = self._policies.get(name)
        if policy is None:
            return self._latest(window), f"latest (no policy {name!r} is installed)"
        try:
            plan = policy.decide(window)
        except Exception as error:  # a plugin may raise anything; its job must still be decided
            return self._latest(window), f"latest ({name!r} raised {type(error).__name__}: {error})"
        if not sound(plan, window):
            return self._latest(window), f"latest ({name!r} chose slots outside its window)"
        return plan, name

    @staticmethod
    def _latest(window: MissedWindow) -> ReplayPlan:
        if window.earliest_ms is None:
            return ReplayPlan()
        return ReplayPlan(first_ms=window.newest_ms, until_ms=window.newest_ms)

    def _ranges(self, job: Job, window: MissedWindow, plan: ReplayPlan, schedule: Schedule) -> list[RangeRequest]:
        spans = [(window.first_ms, window.newest_ms)]
        if plan.first_ms is not None and plan.until_ms is not None:
            spans = [(window.first_ms, plan.first_ms - 1), (plan.until_ms + 1, window.newest_ms)]
        rules, case = self._alerts.rules(job.spec.alerts), None
        if rules:
            missed = sum(window.count_between(first - 1, last) for first, last in spans if first <= last)
            case = case_of_missed(rules, job, window.first_ms, window.newest_ms, missed, window.now_ms)
        return [
            RangeRequest(
                range=SlotRange(
                    job_id=job.id,
                    version=job.version,
                    kind=RangeKind.MISSED,
                    first_ms=first,
                    last_ms=last,
                    count=0,
                    reason=f"misfire policy {job.spec.misfire.policy}",
                ),
                slots=lambda a, b: schedule.count_between_ms(a - 1, b),
                alerts=case,
            )
            for first, last in spans
            if first <= last
        ]

    def _tell(self, job: Job, window: MissedWindow, plan: ReplayPlan, policy: str) -> None:
        total = window.count_between(window.first_ms - 1, window.newest_ms)
        chosen = 0
        if plan.first_ms is not None and plan.until_ms is not None:
            chosen = window.count_between(plan.first_ms - 1, plan.until_ms)
        self._emit(
            SlotsMissed(
                job_id=job.id,
                job_name=job.spec.name,
                policy=policy,
                first_ms=window.first_ms,
                last_ms=window.newest_ms,
                missed=total - chosen,
                chosen=chosen,
            )
        )
