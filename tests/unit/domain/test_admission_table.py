"""Opening a run under each overlap policy, as tables, and what must hold over all of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_decision import decide, end_of, pending, ruled, waiting
from one_run import FENCE, SLOT, SPEC, row

from cronpad_core.api import (
    MOVES,
    Limit,
    OpenKind,
    OverlapPolicy,
    Quota,
    RetryPlan,
    RunStatus,
    SkipReason,
    Trigger,
)

P, K = OverlapPolicy, OpenKind
BUSY, FULL = SkipReason.PREVIOUS_RUN_IN_PROGRESS, SkipReason.QUEUE_FULL


# (policy, max) of the job, how many others run and wait → what becomes of a slot without a row, or of a pending run
FRESH = [
    (P.SKIP, 1, 0, 0, (K.OPENED, None)),
    (P.SKIP, 1, 1, 0, (K.SKIPPED, BUSY)),
    (P.ALLOW, 2, 1, 0, (K.OPENED, None)),
    (P.ALLOW, 2, 2, 0, (K.SKIPPED, BUSY)),
    (P.QUEUE_ONE, 1, 0, 0, (K.OPENED, None)),
    (P.QUEUE_ONE, 1, 1, 0, (K.WAITING, None)),
    (P.QUEUE_ONE, 1, 1, 1, (K.SKIPPED, FULL)),
    (P.QUEUE_ONE, 1, 0, 1, (K.SKIPPED, FULL)),
    (P.QUEUE_ONE, 9, 1, 1, (K.SKIPPED, FULL)),
    (P.QUEUE_ALL, 3, 0, 0, (K.OPENED, None)),
    (P.QUEUE_ALL, 3, 0, 2, (K.WAITING, None)),
    (P.QUEUE_ALL, 3, 1, 2, (K.WAITING, None)),
    (P.QUEUE_ALL, 3, 1, 3, (K.SKIPPED, FULL)),
    (P.CANCEL_RUNNING, 1, 0, 0, (K.OPENED, None)),
    (P.CANCEL_RUNNING, 1, 1, 0, (K.WAITING, "stop")),
    (P.CANCEL_RUNNING, 1, 1, 7, (K.WAITING, "stop")),
    (P.KILL_RUNNING, 1, 0, 0, (K.OPENED, None)),
    (P.KILL_RUNNING, 1, 2, 1, (K.WAITING, "kill")),
]


@pytest.mark.parametrize(("policy", "most", "running", "before", "expected"), FRESH)
def test_overlap_of_what_is_fresh(
    policy: OverlapPolicy, most: int, running: int, before: int, expected: tuple[OpenKind, object]
) -> None:
    """Each policy opens, queues, skips or replaces by what runs and waits, a scheduled slot as much as a pending run."""
    spec = ruled(policy, most)
    fresh = decide(spec, running=running, before=before)
    asked = decide(SPEC, pending(spec), occurrence=replace(SLOT, trigger=Trigger.MANUAL), running=running, before=before)
    assert end_of(fresh) == end_of(asked) == expected
    assert fresh.counted == asked.counted == (expected[0] is K.OPENED)
    assert end_of(decide(spec, local=running, before=before)) == expected
    if expected[0] is K.WAITING:
        assert fresh.scope == "job:job_a"
        assert fresh.write is not None
        assert (fresh.write.status, fresh.write.opened_at_ms, fresh.write.fence) == (RunStatus.WAITING, None, FENCE)
        assert asked.write == replace(pending(spec), status=RunStatus.WAITING, fence=FENCE)


@pytest.mark.parametrize("policy", P)
def test_who_is_created_later_counts_as_waiting_too(policy: OverlapPolicy) -> None:
    """A pending run that is older than those who wait starts before them; else it finds the queue as full as they make it."""
    spec = ruled(policy)
    asked = replace(SLOT, trigger=Trigger.MANUAL)
    assert decide(SPEC, pending(spec), occurrence=asked, after=1).kind is K.OPENED
    full = decide(SPEC, pending(spec), occurrence=asked, after=1, running=1)
    assert (
        end_of(full)
        == {
            P.SKIP: (K.SKIPPED, BUSY),
            P.ALLOW: (K.SKIPPED, BUSY),
            P.QUEUE_ONE: (K.SKIPPED, FULL),
            P.QUEUE_ALL: (K.SKIPPED, FULL),
            P.CANCEL_RUNNING: (K.WAITING, "stop"),
            P.KILL_RUNNING: (K.WAITING, "kill"),
        }[policy]
    )


@pytest.mark.parametrize("policy", [P.SKIP, P.ALLOW])
def test_who_waits_holds_no_place(policy: OverlapPolicy) -> None:
    """Under a rule that does not queue, runs that still wait since before an edit are no reason to skip."""
    assert decide(ruled(policy), before=1).kind is K.OPENED


# policy, how many others run, wait before and after → what becomes of a run that waits
TURNS = [
    (P.QUEUE_ONE, 0, 0, 0, (K.OPENED, None)),
    (P.QUEUE_ONE, 1, 0, 0, (K.WAITING, None)),
    (P.QUEUE_ALL, 0, 0, 5, (K.OPENED, None)),
    (P.QUEUE_ALL, 0, 1, 5, (K.WAITING, None)),
    (P.QUEUE_ALL, 1, 0, 5, (K.WAITING, None)),
    (P.CANCEL_RUNNING, 0, 0, 0, (K.OPENED, None)),
    (P.CANCEL_RUNNING, 1, 0, 0, (K.WAITING, "stop")),
    (P.CANCEL_RUNNING, 1, 3, 0, (K.WAITING, "stop")),
    (P.CANCEL_RUNNING, 1, 0, 1, (K.FINISHED, RunStatus.CANCELLED)),
    (P.CANCEL_RUNNING, 0, 0, 1, (K.FINISHED, RunStatus.CANCELLED)),
    (P.KILL_RUNNING, 1, 0, 0, (K.WAITING, "kill")),
    (P.KILL_RUNNING, 1, 1, 1, (K.FINISHED, RunStatus.CANCELLED)),
]


@pytest.mark.parametrize(("policy", "running", "before", "after", "expected"), TURNS)
def test_the_turn_of_a_run_that_waits(
    policy: OverlapPolicy, running: int, before: int, after: int, expected: tuple[OpenKind, object]
) -> None:
    """The oldest in a queue opens once none runs; of those that replace only the newest lives; waiting on writes nothing."""
    decision = decide(SPEC, waiting(ruled(policy, 9)), running=running, before=before, after=after)
    assert end_of(decision) == expected
    assert decision.counted == (expected[0] is K.OPENED)
    if expected[0] is K.WAITING:
        assert (decision.write, decision.scope) == (None, "job:job_a")


@pytest.mark.parametrize("policy", [P.CANCEL_RUNNING, P.KILL_RUNNING])
def test_a_successor_is_never_ended_by_an_older_one(policy: OverlapPolicy) -> None:
    """While an older run waits a newer one does not start, or the older would replace it; the older one ends first."""
    spec = ruled(policy)
    assert end_of(decide(spec, before=1)) == (K.WAITING, spec.overlap.replaces)
    assert decide(SPEC, waiting(spec), before=1).kind is K.WAITING
    assert end_of(decide(SPEC, waiting(spec), after=1)) == (K.FINISHED, RunStatus.CANCELLED)
    assert decide(SPEC, waiting(spec)).kind is K.OPENED


def test_the_present_spec_of_the_job_does_not_matter_to_a_row() -> None:
    """A run that waits follows the rule that it began to wait with."""
    assert decide(ruled(P.SKIP), waiting(ruled(P.QUEUE_ONE)), running=1).kind is K.WAITING


@pytest.mark.parametrize(
    ("policy", "before", "kind"),
    [
        (P.SKIP, 0, K.HELD),
        (P.ALLOW, 0, K.HELD),
        (P.QUEUE_ONE, 0, K.WAITING),
        (P.QUEUE_ONE, 1, K.HELD),
        (P.QUEUE_ALL, 2, K.HELD),
        (P.KILL_RUNNING, 0, K.WAITING),
    ],
)
def test_a_slot_of_a_catch_up_is_held_where_it_would_be_skipped(policy: OverlapPolicy, before: int, kind: OpenKind) -> None:
    """Slots that were chosen to be caught up with run one after another: none is skipped for the one before it."""
    decision = decide(ruled(policy, 2), running=2, before=before, patient=True)
    assert decision.kind is kind
    assert decision.scope == "job:job_a"
    assert kind is K.WAITING or decision.write is None
    assert decide(ruled(policy, 2), patient=True).kind is K.OPENED


@given(
    status=st.sampled_from(RunStatus) | st.none(),
    policy=st.sampled_from(P),
    most=st.integers(1, 3),
    trigger=st.sampled_from(Trigger),
    attempt=st.integers(0, 2),
    counts=st.tuples(*[st.integers(0, 3)] * 5),
    fence=st.sampled_from([0, FENCE - 1, FENCE, FENCE + 1, 3 << 32]),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    skip=st.sampled_from([None, SkipReason.WORKSPACE_SUSPENDED]),
)
def test_whatever_is_full_a_decision_is_one_that_a_store_can_write(
    status: RunStatus | None,
    policy: OverlapPolicy,
    most: int,
    trigger: Trigger,
    attempt: int,
    counts: tuple[int, ...],
    fence: int,
    flags: tuple[bool, ...],
    skip: SkipReason | None,
) -> None:
    """Rows move along the table of moves; only an opening is counted; nothing opens beyond a limit; only who waits replaces."""
    running, before, after, capped, used = counts
    cancelled, patient, blocking = flags
    spec = ruled(policy, most)
    occurrence = replace(SLOT, trigger=trigger).with_attempt(attempt)
    plan = RetryPlan(attempt=1, at_ms=1) if status is RunStatus.RETRYING else None
    run = status and row(status, spec=spec, fence=fence, cancel_requested=cancelled, retry=plan, key=occurrence.key)
    decision = decide(
        spec,
        run,
        occurrence=occurrence,
        running=running,
        before=before,
        after=after,
        running_in={"all": capped},
        used=used,
        limits=(Limit(scope="all", max=2),),
        quota=Quota(max=2, blocking=blocking),
        patient=patient,
        skip=skip,
    )
    if decision.write is not None:
        assert decision.write.status in MOVES[status]
        assert decision.write == decision.run
        assert decision.kind is not K.HELD
    assert not decision.counted or (decision.kind is K.OPENED and trigger is not Trigger.RETRY and not decision.redelivery)
    assert not decision.over_quota or (decision.counted and used >= 2 and not blocking)
    assert (decision.kind in (K.HELD, K.WAITING)) or decision.scope is None
    assert decision.replaces is None or decision.kind is K.WAITING
    starts = decision.kind is K.OPENED and status is not RunStatus.RUNNING
    assert not starts or (capped < 2 and running < spec.overlap.limit and (run is None or not cancelled))
