"""One decision about one entry of one job, with what the store sees given as numbers."""

from __future__ import annotations

from dataclasses import replace

from one_run import FENCE, SLOT, SPEC, row

from cronpad_core.api import (
    JobSpec,
    Occurrence,
    OpenDecision,
    OpenKind,
    OpenRequest,
    OpenSnapshot,
    OverlapPolicy,
    OverlapRule,
    Run,
    RunStatus,
    Trigger,
    decide_open,
)


def ruled(policy: OverlapPolicy, most: int = 1) -> JobSpec:
    return replace(SPEC, overlap=OverlapRule(policy=policy, max=most))


def decide(
    spec: JobSpec = SPEC,
    run: Run | None = None,
    *,
    occurrence: Occurrence = SLOT,
    running: int = 0,
    local: int = 0,
    before: int = 0,
    after: int = 0,
    running_in: dict[str, int] | None = None,
    used: int = 0,
    **more: object,
) -> OpenDecision:
    request = OpenRequest(
        occurrence=occurrence,
        spec=spec,
        fence=FENCE,
        now_ms=61_000,
        due_at_ms=60_000,
        claimed_at_ms=60_001,
        local_others=local,
    )
    seen = OpenSnapshot(
        run=run,
        running_others=running,
        covered=False,
        waiting_before=before,
        waiting_after=after,
        running_in=running_in or {},
        used=used,
    )
    return decide_open(replace(request, **more), seen)


def waiting(spec: JobSpec) -> Run:
    return row(RunStatus.WAITING, spec=spec)


def pending(spec: JobSpec = SPEC, *, trigger: Trigger = Trigger.MANUAL, **more: object) -> Run:
    return row(RunStatus.PENDING, fence=0, spec=spec, key=replace(SLOT.key, trigger=trigger), **more)


def end_of(decision: OpenDecision) -> tuple[OpenKind, object]:
    """The kind, and the reason of a skip, or the status that an ended run got."""
    written = decision.write
    if decision.kind is OpenKind.SKIPPED:
        assert written is not None
        assert written.status is RunStatus.SKIPPED
        return decision.kind, written.skip_reason
    if decision.kind is OpenKind.FINISHED:
        return decision.kind, written and written.status
    if decision.kind is OpenKind.OPENED:
        assert written is not None
        assert written.status is RunStatus.RUNNING
    return decision.kind, decision.replaces
