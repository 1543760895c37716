"""What an outcome means for its run: retries, time-outs, interruptions and deliveries that may happen only once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from one_run import SLOT, row

from cronpad_core.api import (
    AttemptStatus,
    Cancelled,
    Delivered,
    Failed,
    Guarantee,
    Outcome,
    RetryPlan,
    RetryRule,
    Run,
    RunStatus,
    TimedOut,
    Unknown,
)
from cronpad_core.domain.settlement import Settlement, settle

NOW = 100_000


def run_of(retries: int = 1, guarantee: Guarantee = Guarantee.AT_LEAST_ONCE, deadline: int | None = None) -> Run:
    run = row(RunStatus.RUNNING)
    return replace(run, spec=replace(run.spec, guarantee=guarantee, retry=RetryRule(max=retries, deadline_ms=deadline)))


def test_delivered_is_success() -> None:
    """The run succeeds, even where it was told to stop meanwhile."""
    for interrupted in (False, True):
        assert settle(run_of(), SLOT, Delivered(), NOW, interrupted=interrupted) == Settlement(
            attempt=AttemptStatus.DELIVERED, run=RunStatus.SUCCEEDED
        )


@pytest.mark.parametrize(
    ("outcome", "attempt"),
    [(Failed(), AttemptStatus.FAILED), (TimedOut(), AttemptStatus.TIMED_OUT), (Unknown(), AttemptStatus.UNKNOWN)],
)
def test_what_may_help_is_tried_again(outcome: Outcome, attempt: AttemptStatus) -> None:
    """Failures, time-outs and unknown ends use up one retry each, 100 ms later."""
    assert settle(run_of(), SLOT, outcome, NOW) == Settlement(
        attempt=attempt, run=RunStatus.RETRYING, retry=RetryPlan(attempt=1, at_ms=NOW + 100)
    )


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (3, 4)])
def test_max_retries_follow_the_first_try(retries: int, attempts: int) -> None:
    """``max`` counts retries, so ``max + 1`` attempts are made, numbered from 0 (B083)."""
    made, occurrence = 1, SLOT
    while (settlement := settle(run_of(retries), occurrence, Failed(), NOW)).retry is not None:
        occurrence = occurrence.with_attempt(settlement.retry.attempt)
        made += 1
    assert made == attempts
    assert occurrence.attempt == attempts - 1
    assert settlement.run is RunStatus.FAILED


def test_what_cannot_help_is_not_tried_again() -> None:
    """A failure that says so ends the run at once, as does a cancel."""
    assert settle(run_of(5), SLOT, Failed(retryable=False), NOW).run is RunStatus.FAILED
    assert settle(run_of(5), SLOT, Cancelled(), NOW) == Settlement(attempt=AttemptStatus.CANCELLED, run=RunStatus.CANCELLED)


def test_no_retry_starts_after_the_deadline() -> None:
    """The deadline counts from the slot."""
    assert settle(run_of(5, deadline=40_101), SLOT, Failed(), NOW).run is RunStatus.RETRYING
    assert settle(run_of(5, deadline=40_099), SLOT, Failed(), NOW).run is RunStatus.FAILED


def test_an_interrupted_delivery_goes_on_at_the_next_start() -> None:
    """The run stays running, and no attempt is used up."""
    assert settle(run_of(0), SLOT, Cancelled(reason="shutdown"), NOW, interrupted=True) == Settlement(
        attempt=AttemptStatus.INTERRUPTED, run=RunStatus.RUNNING
    )


@pytest.mark.parametrize(
    ("outcome", "interrupted", "status"),
    [
        (TimedOut(), False, RunStatus.UNKNOWN),
        (Unknown(), False, RunStatus.UNKNOWN),
        (Cancelled(), True, RunStatus.UNKNOWN),
        (Failed(), False, RunStatus.FAILED),
        (Failed(undelivered=True), False, RunStatus.RETRYING),
    ],
)
def test_at_most_once(outcome: Outcome, interrupted: bool, status: RunStatus) -> None:
    """Only what is known not to have been delivered is tried again; what nobody knows is recorded as unknown."""
    assert settle(run_of(5, Guarantee.AT_MOST_ONCE), SLOT, outcome, NOW, interrupted=interrupted).run is status


@pytest.mark.parametrize(
    ("outcome", "attempt"),
    [(Failed(), AttemptStatus.FAILED), (TimedOut(), AttemptStatus.TIMED_OUT), (Unknown(), AttemptStatus.UNKNOWN)],
)
def test_what_was_asked_to_end_is_not_tried_again(outcome: Outcome, attempt: AttemptStatus) -> None:
    """Whatever the attempt came to meanwhile is kept, and the run ends as cancelled where it would have been tried again."""
    for guarantee in Guarantee:
        settled = settle(run_of(5, guarantee), SLOT, outcome, NOW, cancelled=True)
        assert (settled.attempt, settled.retry) == (attempt, None)
        assert settled.run is not RunStatus.RETRYING
    assert settle(run_of(5), SLOT, outcome, NOW, cancelled=True) == Settlement(attempt=attempt, run=RunStatus.CANCELLED)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Delivered(), RunStatus.SUCCEEDED),
        (Failed(retryable=False), RunStatus.FAILED),
        (Cancelled(reason="wrong day"), RunStatus.CANCELLED),
    ],
)
def test_what_had_ended_when_it_was_asked_to_end_has_ended(outcome: Outcome, status: RunStatus) -> None:
    """A success, a failure that nothing could help, and a cancel stay what they are."""
    assert settle(run_of(5), SLOT, outcome, NOW, cancelled=True) == settle(run_of(5), SLOT, outcome, NOW)
    assert settle(run_of(5), SLOT, outcome, NOW, cancelled=True).run is status


def test_the_last_attempt_fails_although_it_was_asked_to_end() -> None:
    """Where no retry was left there is nothing that the wish could have stopped."""
    assert settle(run_of(0), SLOT, Failed(), NOW, cancelled=True).run is RunStatus.FAILED
