"""Opening a run under caps, quotas and cancels."""

from __future__ import annotations

from dataclasses import replace

import pytest
from one_decision import decide, end_of, pending, ruled, waiting
from one_run import SLOT, SPEC, row

from cronpad_core.api import (
    Limit,
    Occurrence,
    OpenKind,
    OverlapPolicy,
    Quota,
    RetryPlan,
    Run,
    RunStatus,
    SkipReason,
    Trigger,
)

P, K = OverlapPolicy, OpenKind
LIMITS = (Limit(scope="all", max=9), Limit(scope="workspace:default", max=2), Limit(scope="key:db", max=1))


@pytest.mark.parametrize(
    ("running_in", "scope"),
    [
        ({}, None),
        ({"all": 8, "workspace:default": 1, "key:db": 0}, None),
        ({"all": 9}, "all"),
        ({"all": 10, "key:db": 5}, "all"),
        ({"workspace:default": 2, "key:db": 1}, "workspace:default"),
        ({"key:db": 1, "key:other": 9}, "key:db"),
    ],
)
def test_caps(running_in: dict[str, int], scope: str | None) -> None:
    """A cap without room holds what is fresh, waits or is retried, names the first such scope, and writes nothing."""
    runs: list[tuple[Run | None, Occurrence]] = [
        (None, SLOT),
        (pending(), replace(SLOT, trigger=Trigger.MANUAL)),
        (waiting(ruled(P.QUEUE_ONE)), SLOT),
        (row(RunStatus.RETRYING, retry=RetryPlan(attempt=1, at_ms=1)), SLOT.with_attempt(1)),
    ]
    for run, occurrence in runs:
        decision = decide(SPEC, run, occurrence=occurrence, running_in=running_in, limits=LIMITS)
        assert (decision.kind, decision.scope) == ((K.OPENED, None) if scope is None else (K.HELD, scope))
        assert scope is None or (decision.write, decision.counted, decision.run) == (None, False, run)


def test_a_cap_comes_before_overlap() -> None:
    """A slot that a cap holds is no overlap: it is neither skipped nor queued, and replaces nobody."""
    for policy in P:
        decision = decide(ruled(policy), running=1, running_in={"all": 1}, limits=(Limit(scope="all", max=1),))
        assert (decision.kind, decision.scope, decision.replaces) == (K.HELD, "all", None)


def test_a_run_that_was_running_is_not_limited_again() -> None:
    """A redelivery has its place already: full caps, a used up quota and a suspension do not concern it."""
    more = {"limits": (Limit(scope="all", max=1),), "quota": Quota(max=0), "skip": SkipReason.WORKSPACE_SUSPENDED}
    decision = decide(SPEC, row(RunStatus.RUNNING), running=5, running_in={"all": 5}, used=9, **more)
    assert (decision.kind, decision.redelivery, decision.counted) == (K.OPENED, True, False)


@pytest.mark.parametrize("policy", P)
def test_a_redelivery_beside_a_delivery_of_this_process(policy: OverlapPolicy) -> None:
    """While this process still runs another delivery of the job, one is held, unless several may run at once."""
    decision = decide(SPEC, row(RunStatus.RUNNING, spec=ruled(policy, 2)), local=1)
    assert decision.kind is (K.OPENED if policy is P.ALLOW else K.HELD)


@pytest.mark.parametrize("trigger", Trigger)
@pytest.mark.parametrize(("used", "most", "blocking"), [(2, 3, True), (3, 3, True), (3, 3, False), (4, 3, True), (0, 0, True)])
def test_quotas(trigger: Trigger, used: int, most: int, blocking: bool) -> None:
    """A used up quota skips, or opens and says so; a manual retry neither uses it nor is stopped by it."""
    run = None if trigger is Trigger.SCHEDULED else pending(trigger=trigger)
    quota = Quota(max=most, blocking=blocking)
    decision = decide(SPEC, run, occurrence=replace(SLOT, trigger=trigger), used=used, quota=quota)
    counts, used_up = trigger is not Trigger.RETRY, used >= most
    if counts and used_up and blocking:
        assert end_of(decision) == (K.SKIPPED, SkipReason.QUOTA_EXCEEDED)
        assert not decision.counted
    else:
        assert (decision.kind, decision.counted, decision.over_quota) == (K.OPENED, counts, counts and used_up)


def test_a_retry_uses_no_quota() -> None:
    """Later attempts belong to the run that was counted."""
    retrying = row(RunStatus.RETRYING, retry=RetryPlan(attempt=1, at_ms=1))
    decision = decide(SPEC, retrying, occurrence=SLOT.with_attempt(1), used=5, quota=Quota(max=1))
    assert (decision.kind, decision.counted, decision.over_quota) == (K.OPENED, False, False)


def test_suspension_comes_first_then_the_quota_then_caps() -> None:
    """What is wrong first is the reason that is told."""
    full = {"limits": (Limit(scope="all", max=0),), "quota": Quota(max=0)}
    assert end_of(decide(skip=SkipReason.WORKSPACE_SUSPENDED, **full)) == (K.SKIPPED, SkipReason.WORKSPACE_SUSPENDED)
    assert end_of(decide(**full)) == (K.SKIPPED, SkipReason.QUOTA_EXCEEDED)
    assert decide(limits=full["limits"]).kind is K.HELD
    assert end_of(decide(SPEC, waiting(ruled(P.QUEUE_ONE)), quota=Quota(max=0))) == (K.SKIPPED, SkipReason.QUOTA_EXCEEDED)


@pytest.mark.parametrize(
    ("run", "occurrence"),
    [
        (pending(cancel_requested=True), replace(SLOT, trigger=Trigger.MANUAL)),
        (replace(waiting(ruled(P.QUEUE_ONE)), cancel_requested=True), SLOT),
        (row(RunStatus.RETRYING, retry=RetryPlan(attempt=1, at_ms=1), cancel_requested=True), SLOT.with_attempt(1)),
        (row(RunStatus.RUNNING, cancel_requested=True), SLOT),
    ],
    ids=["pending", "waiting", "retrying", "running"],
)
def test_a_cancelled_run_ends_when_its_entry_comes_up(run: Run, occurrence: Occurrence) -> None:
    """Whatever it waited for, and although everything is full; nothing of it is counted or replaced."""
    decision = decide(
        SPEC, run, occurrence=occurrence, running=3, before=2, running_in={"all": 3}, limits=(Limit(scope="all", max=1),)
    )
    assert decision.kind is K.FINISHED
    assert decision.write == decision.run
    assert decision.write is not None
    assert (decision.write.status, decision.write.retry, decision.write.finished_at_ms) == (RunStatus.CANCELLED, None, 61_000)
    assert decision.write.reason
    assert (decision.counted, decision.replaces) == (False, None)


@pytest.mark.parametrize("policy", P)
@pytest.mark.parametrize("waits", [0, 3])
def test_a_retry_waits_for_running_runs_alone(policy: OverlapPolicy, waits: int) -> None:
    """Held while as many run as the rule allows, whoever waits; it replaces nobody and uses no attempt."""
    spec = ruled(policy, 2)
    retrying = row(RunStatus.RETRYING, spec=spec, retry=RetryPlan(attempt=1, at_ms=1))
    retry = SLOT.with_attempt(1)
    limit = 2 if policy is P.ALLOW else 1
    held = decide(SPEC, retrying, occurrence=retry, running=limit, before=waits)
    assert (held.kind, held.write, held.scope, held.replaces) == (K.HELD, None, "job:job_a", None)
    opened = decide(SPEC, retrying, occurrence=retry, running=limit - 1, before=waits)
    assert (opened.kind, opened.write and opened.write.attempt) == (K.OPENED, 1)
