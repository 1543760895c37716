"""Whether an attempt may open its run: one pure function, called inside the transaction that opens it.

Every store reads the same snapshot, calls :func:`decide_open` and writes what it answers, so no backend decides anything itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum

from cronpad_core.domain.alerts import AlertRule
from cronpad_core.domain.ids import run_id_for
from cronpad_core.domain.job import Guarantee, JobSpec
from cronpad_core.domain.limits import Limit, Quota
from cronpad_core.domain.occurrence import Occurrence, Trigger
from cronpad_core.domain.overlap import OverlapPolicy
from cronpad_core.domain.retry import RetryPlan
from cronpad_core.domain.run import Run, RunStatus, SkipReason
from cronpad_core.domain.timing import Millis
from cronpad_core.domain.values import value

__all__ = ["OpenDecision", "OpenKind", "OpenRequest", "OpenSnapshot", "decide_open", "term_of"]


class OpenKind(StrEnum):
    """What became of an opening.

    ``OPENED``: deliver. ``FINISHED``: the run has ended, or this entry is not its next step: acknowledge. ``SUPERSEDED``: this
    attempt is recorded; redo its acknowledgement from the stored plan. ``COVERED``: a range row has this slot's outcome.
    ``STALE``: a later holder opened it. ``HELD``: a cap, or for a retry a running run, is in the way; come back later.
    ``WAITING``: its row waits for its turn; advance, and come back later. ``SKIPPED``: a row says why.
    """

    OPENED = "opened"
    FINISHED = "finished"
    SUPERSEDED = "superseded"
    COVERED = "covered"
    STALE = "stale"
    HELD = "held"
    WAITING = "waiting"
    SKIPPED = "skipped"


@value
class OpenRequest:
    """One claimed entry that asks to be opened.

    ``spec`` is the job's present spec, used only where the run has no row yet. ``local_others``: how many other deliveries of
    the job this process still runs without their rows counting as running. ``skip`` opens it as skipped for that reason.
    ``limits`` are the caps that it must find room under, ``quota`` what its workspace may open in the month of ``now_ms``.
    ``patient``: a slot of a decided catch-up, held where its overlap rule would skip it: those run one after another.
    ``alerts`` are the rules by which the opening is told of.
    """

    occurrence: Occurrence
    spec: JobSpec
    fence: int
    now_ms: Millis
    due_at_ms: Millis
    claimed_at_ms: Millis
    held_since_ms: Millis | None = None
    local_others: int = 0
    max_redeliveries: int = 5
    skip: SkipReason | None = None
    limits: tuple[Limit, ...] = ()
    quota: Quota | None = None
    patient: bool = False
    alerts: tuple[AlertRule, ...] = ()


@value
class OpenSnapshot:
    """What the store sees in the transaction.

    ``running_others`` counts rows of the same job that are ``running``, without this run's own; ``covered`` says whether a range
    row of this job version has the slot. ``waiting_before`` and ``waiting_after`` count other rows of the job that are ``waiting``
    and were created before, or after, this run's row (ties go by id); for a run without a row all are before. ``running_in``
    counts the running rows, without this run's own, of each scope that the request's limits name; ``used`` the runs that the
    workspace has opened in the month of ``now_ms``.
    """

    run: Run | None
    running_others: int
    covered: bool
    waiting_before: int = 0
    waiting_after: int = 0
    running_in: Mapping[str, int] = field(default_factory=dict)
    used: int = 0


@value
class OpenDecision:
    """``write`` is the run row to store (insert or replace), if any; ``kind`` the answer to the caller.

    With ``OPENED`` the store also inserts the attempt row, unless it exists; ``redelivery`` says that this attempt was opened
    before. ``retry`` is the stored plan with ``SUPERSEDED``. ``counted``: the store adds one to what the run's workspace has
    opened in the month of ``now_ms``; ``over_quota``: although its quota is used up. ``scope``: what it is held, or waits, for.
    ``replaces``: the store marks all other running rows of the job as asked to be cancelled, and the caller tells their deliveries
    to end by this stage.
    """

    kind: OpenKind
    write: Run | None = None
    run: Run | None = None
    retry: RetryPlan | None = None
    redelivery: bool = False
    counted: bool = False
    over_quota: bool = False
    scope: str | None = None
    replaces: str | None = None


def term_of(fence: int) -> int:
    """The term under which a fence was given out."""
    return fence >> 32


def decide_open(request: OpenRequest, seen: OpenSnapshot) -> OpenDecision:
    """What happens to this entry, given what the store holds."""
    run, occurrence = seen.run, request.occurrence
    if run is None:
        if occurrence.trigger is Trigger.SCHEDULED and seen.covered:
            return OpenDecision(kind=OpenKind.COVERED)
        if occurrence.attempt > 0 or occurrence.trigger is not Trigger.SCHEDULED:
            return OpenDecision(kind=OpenKind.FINISHED)  # runs that somebody asked for have a row before they have an entry
        return _decide_fresh(request, seen, None)
    if run.status.terminal or run.job_version != occurrence.job_version:
        return OpenDecision(kind=OpenKind.FINISHED, run=run)
    if run.fence == request.fence and run.status is RunStatus.RUNNING and run.attempt == occurrence.attempt:
        return OpenDecision(kind=OpenKind.OPENED, run=run)
    if run.fence > request.fence:
        return OpenDecision(kind=OpenKind.STALE, run=run)
    retrying = run.status is RunStatus.RETRYING
    planned = run.retry if retrying else None
    # Of a run that waits for its retry only that one starts: any other entry is acknowledged, and the planned one put.
    other = occurrence.attempt == run.attempt if planned is None else occurrence.attempt != planned.attempt
    if occurrence.attempt < run.attempt or (retrying and other):
        return OpenDecision(kind=OpenKind.SUPERSEDED, run=run, retry=planned)
    if run.status is RunStatus.RUNNING:
        return _decide_redelivery(request, run)
    if retrying:
        if run.cancel_requested:
            return _ended(request, run, RunStatus.CANCELLED, "cancelled before its retry")
        busy = seen.running_others + request.local_others
        if busy >= run.spec.overlap.limit:
            return OpenDecision(kind=OpenKind.HELD, run=run, scope=f"job:{run.key.job_id}")
        full = _full(request, seen)
        if full is not None:
            return OpenDecision(kind=OpenKind.HELD, run=run, scope=full)
        return _opened(request, run)
    if occurrence.attempt != run.attempt:
        return OpenDecision(kind=OpenKind.FINISHED, run=run)
    return _decide_fresh(request, seen, run)


def _decide_redelivery(request: OpenRequest, run: Run) -> OpenDecision:
    """The attempt was running when its holder ended, or lost its lease."""
    if request.occurrence.attempt != run.attempt:
        return OpenDecision(kind=OpenKind.FINISHED, run=run)
    crashed = term_of(run.fence) != term_of(request.fence) and not run.clean
    redeliveries = run.redeliveries + (1 if crashed else 0)
    end: tuple[RunStatus, str] | None = None
    if run.cancel_requested:
        end = RunStatus.CANCELLED, "cancelled while its holder was away"
    elif run.spec.guarantee is Guarantee.AT_MOST_ONCE:
        end = RunStatus.UNKNOWN, "its holder ended before it was known how the delivery went"
    elif redeliveries >= request.max_redeliveries:
        end = RunStatus.POISONED, f"its holder died {redeliveries} times while it was running"
    if end is not None:
        ended = replace(
            run, status=end[0], reason=end[1], redeliveries=redeliveries, fence=request.fence, finished_at_ms=request.now_ms
        )
        return OpenDecision(kind=OpenKind.FINISHED, write=ended, run=ended)
    if run.spec.overlap.policy is not OverlapPolicy.ALLOW and request.local_others:
        return OpenDecision(kind=OpenKind.HELD, run=run)
    again = replace(run, fence=request.fence, clean=False, redeliveries=redeliveries, opened_at_ms=request.now_ms)
    return OpenDecision(kind=OpenKind.OPENED, write=again, run=again, redelivery=True)


def _decide_fresh(request: OpenRequest, seen: OpenSnapshot, run: Run | None) -> OpenDecision:
    """No attempt of this run was opened yet. Admission first (suspension, quota, caps), then the job's overlap rule."""
    spec = run.spec if run else request.spec
    rule = spec.overlap
    if run is not None and run.cancel_requested:
        return _ended(request, run, RunStatus.CANCELLED, "cancelled before it started")
    if request.skip is not None:
        return _skipped(request, run, request.skip)
    counts = request.occurrence.trigger is not Trigger.RETRY
    used_up = counts and request.quota is not None and seen.used >= request.quota.max
    if used_up and request.quota is not None and request.quota.blocking:
        return _skipped(request, run, SkipReason.QUOTA_EXCEEDED)
    full = _full(request, seen)
    if full is not None:
        return OpenDecision(kind=OpenKind.HELD, run=run, scope=full)
    waits = run is not None and run.status is RunStatus.WAITING
    if waits and run is not None and rule.replaces is not None and seen.waiting_after:
        return _ended(request, run, RunStatus.CANCELLED, "a later run took its place")
    # Who waits holds no place, but for those who wait themselves: an older one starts, or is replaced, before them.
    first = seen.waiting_before == 0 or (rule.replaces is None and not rule.waiting)
    if first and seen.running_others + request.local_others < rule.limit:
        return _opened(request, run, counted=counts, over_quota=used_up)
    if waits:
        return OpenDecision(kind=OpenKind.WAITING, run=run, scope=f"job:{request.occurrence.job_id}", replaces=rule.replaces)
    crowded = rule.replaces is None and seen.waiting_before + seen.waiting_after >= rule.waiting
    if crowded and request.patient:
        return OpenDecision(kind=OpenKind.HELD, run=run, scope=f"job:{request.occurrence.job_id}")
    if crowded:
        return _skipped(request, run, SkipReason.QUEUE_FULL if rule.waiting else SkipReason.PREVIOUS_RUN_IN_PROGRESS)
    waiting = replace(run or _new_run(request), status=RunStatus.WAITING, opened_at_ms=None, fence=request.fence)
    return OpenDecision(
        kind=OpenKind.WAITING,
        write=waiting,
        run=waiting,
        scope=f"job:{request.occurrence.job_id}",
        replaces=rule.replaces,
    )


def _full(request: OpenRequest, seen: OpenSnapshot) -> str | None:
    """The first cap without room."""
    if not request.limits:
        return None
    return next((one.scope for one in request.limits if seen.running_in.get(one.scope, 0) >= one.max), None)


def _skipped(request: OpenRequest, run: Run | None, reason: SkipReason) -> OpenDecision:
    skipped = replace(
        run or _new_run(request),
        status=RunStatus.SKIPPED,
        opened_at_ms=run.opened_at_ms if run else None,
        skip_reason=reason,
        fence=request.fence,
        finished_at_ms=request.now_ms,
    )
    return OpenDecision(kind=OpenKind.SKIPPED, write=skipped, run=skipped)


def _ended(request: OpenRequest, run: Run, status: RunStatus, reason: str) -> OpenDecision:
    ended = replace(run, status=status, reason=reason, retry=None, fence=request.fence, finished_at_ms=request.now_ms)
    return OpenDecision(kind=OpenKind.FINISHED, write=ended, run=ended)


def _opened(request: OpenRequest, run: Run | None, *, counted: bool = False, over_quota: bool = False) -> OpenDecision:
    if run is None:
        opened = _new_run(request)
    else:
        opened = replace(
            run,
            status=RunStatus.RUNNING,
            attempt=request.occurrence.attempt,
            fence=request.fence,
            opened_at_ms=request.now_ms,
            clean=False,
            retry=None,
        )
    return OpenDecision(kind=OpenKind.OPENED, write=opened, run=opened, counted=counted, over_quota=over_quota)


def _new_run(request: OpenRequest) -> Run:
    """The row of a run whose first attempt begins now."""
    occurrence = request.occurrence
    key = occurrence.key
    return Run(
        id=run_id_for(key),
        key=key,
        job_version=occurrence.job_version,
        spec=request.spec,
        status=RunStatus.RUNNING,
        attempt=occurrence.attempt,
        fence=request.fence,
        slot_at_ms=occurrence.scheduled_at_ms,
        created_at_ms=request.now_ms,
        opened_at_ms=request.now_ms,
    )
