"""What an outcome means for its attempt and its run: the one rule of retries."""

from __future__ import annotations

from typing import assert_never

from cronpad_core.domain.job import Guarantee
from cronpad_core.domain.occurrence import Occurrence
from cronpad_core.domain.outcome import Cancelled, Delivered, Failed, Outcome, TimedOut, Unknown
from cronpad_core.domain.retry import RetryPlan, retry_delay_ms
from cronpad_core.domain.run import AttemptStatus, Run, RunStatus
from cronpad_core.domain.timing import Millis
from cronpad_core.domain.values import value

__all__ = ["Settlement", "settle"]


@value
class Settlement:
    """How an attempt ended and what follows for its run."""

    attempt: AttemptStatus
    run: RunStatus
    retry: RetryPlan | None = None


def settle(
    run: Run,
    occurrence: Occurrence,
    outcome: Outcome,
    now_ms: Millis,
    *,
    interrupted: bool = False,
    cancelled: bool = False,
) -> Settlement:
    """The one rule of retries. ``max`` retries follow the first try; time-outs and retryable failures use one up.

    ``interrupted``: we ended the delivery ourselves to stop; the run stays running for the next start, unless it may be
    delivered once at most. ``cancelled``: somebody asked for its end, so what did not succeed is not tried again.
    """
    settlement = _settle(run, occurrence, outcome, now_ms, interrupted=interrupted)
    if cancelled and settlement.run is RunStatus.RETRYING:
        return Settlement(attempt=settlement.attempt, run=RunStatus.CANCELLED)
    return settlement


def _settle(run: Run, occurrence: Occurrence, outcome: Outcome, now_ms: Millis, *, interrupted: bool) -> Settlement:
    at_most_once = run.spec.guarantee is Guarantee.AT_MOST_ONCE
    if isinstance(outcome, Delivered):
        return Settlement(attempt=AttemptStatus.DELIVERED, run=RunStatus.SUCCEEDED)
    if interrupted:
        if at_most_once:
            return Settlement(attempt=AttemptStatus.INTERRUPTED, run=RunStatus.UNKNOWN)
        return Settlement(attempt=AttemptStatus.INTERRUPTED, run=RunStatus.RUNNING)
    match outcome:
        case Cancelled():
            return Settlement(attempt=AttemptStatus.CANCELLED, run=RunStatus.CANCELLED)
        case Unknown():
            if at_most_once:
                return Settlement(attempt=AttemptStatus.UNKNOWN, run=RunStatus.UNKNOWN)
            return _retry_or(run, occurrence, AttemptStatus.UNKNOWN, RunStatus.UNKNOWN, None, now_ms)
        case TimedOut():
            if at_most_once:
                return Settlement(attempt=AttemptStatus.TIMED_OUT, run=RunStatus.UNKNOWN)
            return _retry_or(run, occurrence, AttemptStatus.TIMED_OUT, RunStatus.FAILED, None, now_ms)
        case Failed():
            if not outcome.retryable or (at_most_once and not outcome.undelivered):
                return Settlement(attempt=AttemptStatus.FAILED, run=RunStatus.FAILED)
            return _retry_or(run, occurrence, AttemptStatus.FAILED, RunStatus.FAILED, outcome.retry_after_ms, now_ms)
        case _ as never:
            assert_never(never)


def _retry_or(
    run: Run, occurrence: Occurrence, attempt: AttemptStatus, end: RunStatus, retry_after_ms: Millis | None, now_ms: Millis
) -> Settlement:
    rule = run.spec.retry
    following = occurrence.with_attempt(occurrence.attempt + 1)
    if following.attempt > rule.max:
        return Settlement(attempt=attempt, run=end)
    at_ms = now_ms + retry_delay_ms(rule, following, retry_after_ms=retry_after_ms)
    if rule.deadline_ms is not None and at_ms > run.slot_at_ms + rule.deadline_ms:
        return Settlement(attempt=attempt, run=end)
    return Settlement(attempt=attempt, run=RunStatus.RETRYING, retry=RetryPlan(attempt=following.attempt, at_ms=at_ms))
