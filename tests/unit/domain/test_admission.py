"""Opening a run: every branch of the one decision, and what must hold over all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_run import FENCE, SLOT, SPEC, row

from cronpad_core.api import (
    MOVES,
    Guarantee,
    Occurrence,
    OpenDecision,
    OpenKind,
    OpenRequest,
    OpenSnapshot,
    OverlapPolicy,
    OverlapRule,
    RetryPlan,
    Run,
    RunStatus,
    SkipReason,
    Trigger,
    decide_open,
)


def asking(occurrence: Occurrence = SLOT, *, fence: int = FENCE, **more: object) -> OpenRequest:
    return replace(
        OpenRequest(occurrence=occurrence, spec=SPEC, fence=fence, now_ms=61_000, due_at_ms=60_000, claimed_at_ms=60_001), **more
    )


def decide(request: OpenRequest, run: Run | None = None, *, others: int = 0, covered: bool = False) -> OpenDecision:
    return decide_open(request, OpenSnapshot(run=run, running_others=others, covered=covered))


def test_a_fresh_slot_opens() -> None:
    """A slot without a row is opened as running under the caller's fence, with the job's settings as its snapshot."""
    decision = decide(asking())
    assert decision.kind is OpenKind.OPENED
    assert decision.write == decision.run
    assert decision.run is not None
    assert (decision.run.status, decision.run.fence, decision.run.attempt, decision.run.spec) == (
        RunStatus.RUNNING,
        FENCE,
        0,
        SPEC,
    )
    assert not decision.redelivery


def test_a_covered_slot_is_not_opened() -> None:
    """A slot that a range row covers has its outcome already."""
    assert decide(asking(), covered=True) == OpenDecision(kind=OpenKind.COVERED)


@pytest.mark.parametrize("trigger", [Trigger.MANUAL, Trigger.RETRY, Trigger.BACKFILL])
def test_what_was_asked_for_opens_from_its_row(trigger: Trigger) -> None:
    """A run that somebody asked for has a row before its entry: without one nothing opens; with one it opens, covered or not."""
    asked = replace(SLOT, trigger=trigger)
    assert decide(asking(asked)) == OpenDecision(kind=OpenKind.FINISHED)
    pending = row(RunStatus.PENDING, fence=0, payload={"a": 1}, token="t", retry_of="run_x", key=asked.key)
    decision = decide(asking(asked, spec=replace(SPEC, name="edited")), pending, covered=True)
    assert decision.kind is OpenKind.OPENED
    assert decision.write == replace(pending, status=RunStatus.RUNNING, fence=FENCE, opened_at_ms=61_000)


def test_a_retry_without_a_run_is_finished() -> None:
    """An entry for a later attempt of a run that nobody knows is acknowledged."""
    assert decide(asking(SLOT.with_attempt(1))) == OpenDecision(kind=OpenKind.FINISHED)


@pytest.mark.parametrize("status", [status for status in RunStatus if status.terminal])
def test_a_terminal_run_is_finished(status: RunStatus) -> None:
    """Nothing of an ended run changes any more."""
    decision = decide(asking(), row(status))
    assert (decision.kind, decision.write) == (OpenKind.FINISHED, None)


def test_an_entry_of_another_version_is_finished() -> None:
    """A run finishes with the version it began with."""
    assert decide(asking(replace(SLOT, job_version=2)), row(RunStatus.RUNNING)).kind is OpenKind.FINISHED


def test_opening_twice_under_one_fence_is_opening_once() -> None:
    """A repeated call, after an unknown commit, is told the same and writes nothing."""
    decision = decide(asking(), row(RunStatus.RUNNING, fence=FENCE))
    assert (decision.kind, decision.write) == (OpenKind.OPENED, None)


def test_a_stale_holder_is_told_so() -> None:
    """A run that a later holder opened is not taken back."""
    assert decide(asking(), row(RunStatus.RUNNING, fence=FENCE + 1)).kind is OpenKind.STALE


def test_a_superseded_attempt_gets_the_stored_plan() -> None:
    """An attempt that is recorded is not delivered again: its acknowledgement is redone with the plan."""
    plan = RetryPlan(attempt=1, at_ms=99_000)
    assert decide(asking(), row(RunStatus.RETRYING, retry=plan)) == OpenDecision(
        kind=OpenKind.SUPERSEDED, run=row(RunStatus.RETRYING, retry=plan), retry=plan
    )
    lower = decide(asking(), row(RunStatus.RUNNING, attempt=2))
    assert (lower.kind, lower.retry) == (OpenKind.SUPERSEDED, None)


def test_a_crashed_attempt_is_delivered_again_and_counted() -> None:
    """A run that was running under another term is opened again under the new fence, and one redelivery is counted."""
    decision = decide(asking(), row(RunStatus.RUNNING, fence=3 << 32))
    assert decision.kind is OpenKind.OPENED
    assert decision.redelivery
    assert decision.write is not None
    assert (decision.write.redeliveries, decision.write.fence, decision.write.status) == (1, FENCE, RunStatus.RUNNING)


@pytest.mark.parametrize(("fence", "clean"), [(FENCE - 1, False), (3 << 32, True)])
def test_lost_leases_and_clean_stops_are_no_crashes(fence: int, clean: bool) -> None:
    """Only a holder that died while running counts towards poison."""
    decision = decide(asking(), row(RunStatus.RUNNING, fence=fence, clean=clean))
    assert decision.write is not None
    assert decision.write.redeliveries == 0


def test_a_run_that_kills_its_holders_is_poisoned() -> None:
    """At the fifth death it ends, and is not delivered again."""
    decision = decide(asking(), row(RunStatus.RUNNING, fence=3 << 32, redeliveries=4))
    assert (decision.kind, decision.write and decision.write.status) == (OpenKind.FINISHED, RunStatus.POISONED)


def test_at_most_once_is_not_delivered_again() -> None:
    """Nobody knows how it went, and the record says so."""
    spec = replace(SPEC, guarantee=Guarantee.AT_MOST_ONCE)
    decision = decide(asking(), row(RunStatus.RUNNING, spec=spec))
    assert (decision.kind, decision.write and decision.write.status) == (OpenKind.FINISHED, RunStatus.UNKNOWN)


def test_a_cancelled_run_is_not_delivered_again() -> None:
    """A cancel that was asked for while its holder was away ends it."""
    decision = decide(asking(), row(RunStatus.RUNNING, cancel_requested=True))
    assert (decision.kind, decision.write and decision.write.status) == (OpenKind.FINISHED, RunStatus.CANCELLED)


def test_overlap_skip() -> None:
    """While another run of the job is running a fresh one is recorded as skipped, with the reason."""
    decision = decide(asking(), others=1)
    assert decision.kind is OpenKind.SKIPPED
    assert decision.write is not None
    assert (decision.write.status, decision.write.skip_reason) == (RunStatus.SKIPPED, SkipReason.PREVIOUS_RUN_IN_PROGRESS)
    assert decide(asking(local_others=1)).kind is OpenKind.SKIPPED


@pytest.mark.parametrize(("others", "kind"), [(2, OpenKind.OPENED), (3, OpenKind.SKIPPED)])
def test_overlap_allow(others: int, kind: OpenKind) -> None:
    """Up to ``max`` run at once."""
    spec = replace(SPEC, overlap=OverlapRule(policy=OverlapPolicy.ALLOW, max=3))
    assert decide(asking(spec=spec), others=others).kind is kind


def test_a_retry_that_meets_a_running_run_is_held() -> None:
    """It waits, uses no attempt, and goes on once the other has ended."""
    retry = asking(SLOT.with_attempt(1))
    waiting = row(RunStatus.RETRYING, retry=RetryPlan(attempt=1, at_ms=1))
    assert decide(retry, waiting, others=1).kind is OpenKind.HELD
    decision = decide(retry, waiting)
    assert decision.kind is OpenKind.OPENED
    assert decision.write is not None
    assert (decision.write.attempt, decision.write.retry) == (1, None)


def test_a_missing_plugin_skips_only_what_is_fresh() -> None:
    """A slot of a job whose sink is gone is skipped; a run that began is tried, and fails in its own words."""
    gone = {"skip": SkipReason.PLUGIN_UNAVAILABLE}
    fresh = decide(asking(**gone))
    assert (fresh.kind, fresh.write and fresh.write.skip_reason) == (OpenKind.SKIPPED, SkipReason.PLUGIN_UNAVAILABLE)
    assert decide(asking(**gone), row(RunStatus.RUNNING)).kind is OpenKind.OPENED


@given(
    status=st.sampled_from(RunStatus),
    attempt=st.integers(0, 2),
    asked=st.integers(0, 3),
    fence=st.sampled_from([1, FENCE - 1, FENCE, FENCE + 1, 3 << 32]),
    others=st.integers(0, 2),
    covered=st.booleans(),
    clean=st.booleans(),
    cancelled=st.booleans(),
    redeliveries=st.integers(0, 6),
    guarantee=st.sampled_from(Guarantee),
)
def test_whatever_is_asked_statuses_and_fences_only_go_on(
    status: RunStatus,
    attempt: int,
    asked: int,
    fence: int,
    others: int,
    covered: bool,
    clean: bool,
    cancelled: bool,
    redeliveries: int,
    guarantee: Guarantee,
) -> None:
    """S3, S5: a written row moves along the table of moves, never loses a fence, and goes back to no earlier attempt."""
    run = row(
        status,
        attempt=attempt,
        fence=fence,
        clean=clean,
        cancel_requested=cancelled,
        redeliveries=redeliveries,
        spec=replace(SPEC, guarantee=guarantee),
    )
    decision = decide(asking(SLOT.with_attempt(asked)), run, others=others, covered=covered)
    if decision.write is None:
        return
    assert decision.write.status in MOVES[status]
    assert decision.write.fence >= run.fence
    assert decision.write.attempt >= run.attempt
    assert decision.kind is not OpenKind.OPENED or decision.write.attempt == asked
