"""Ordinary values for tests: a spec, a job, an opening, a result."""

from __future__ import annotations

from cronpad_core.api import (
    Attempt,
    AttemptStatus,
    Backfill,
    Guarantee,
    Job,
    JobSpec,
    JobStatus,
    JobVersion,
    Millis,
    Occurrence,
    OpenRequest,
    OverlapPolicy,
    OverlapRule,
    PendingRequest,
    RangeKind,
    RangeRequest,
    RecordRequest,
    RetryPlan,
    RunKey,
    RunStatus,
    ScheduleSpec,
    SinkSpec,
    SlotRange,
    Trigger,
    run_id_for,
)

__all__ = ["T0", "backfill", "fence", "job", "key", "opening", "pending", "ranging", "result", "slot", "spec", "version"]

T0: Millis = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""


def fence(number: int, *, term: int = 1) -> int:
    """The fence that a dispatcher of this term gives out."""
    return (term << 32) + number


def spec(
    name: str = "backup", *, overlap: int | OverlapRule | None = 3, guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
) -> JobSpec:
    """A spec that allows ``overlap`` runs at once, or has that rule; ``None`` skips while one runs."""
    rule = overlap or OverlapRule()
    if isinstance(rule, int):
        rule = OverlapRule(policy=OverlapPolicy.ALLOW, max=rule)
    return JobSpec(
        name=name,
        schedule=ScheduleSpec(texts=("* * * * *",), timezone="Europe/Zurich"),
        sink=SinkSpec(type="command", settings={"argv": ["true"], "deep": {"list": [1, 2.5, None, "ü"]}}),
        overlap=rule,
        guarantee=guarantee,
        tags=("a", "b"),
    )


def job(
    job_id: str = "job_a", *, next_run_at_ms: Millis | None = T0, status: JobStatus = JobStatus.ACTIVE, number: int = 1
) -> Job:
    """A job of version ``number`` that is due at ``next_run_at_ms``."""
    return Job(
        id=job_id,
        origin="api",
        version=number,
        status=status,
        spec=spec(job_id),
        next_run_at_ms=next_run_at_ms,
        valid_from_ms=T0 - 1,
    )


def version(
    job_id: str = "job_a", number: int = 1, *, until_ms: Millis | None = None, open_from_ms: Millis | None = None
) -> JobVersion:
    """A version of a job, ended where ``until_ms`` says so."""
    return JobVersion(
        job_id=job_id,
        version=number,
        spec=spec(job_id),
        valid_from_ms=T0 - 1,
        valid_until_ms=until_ms,
        open_from_ms=open_from_ms,
    )


def slot(
    at_ms: Millis = T0, *, job_id: str = "job_a", attempt: int = 0, number: int = 1, trigger: Trigger = Trigger.SCHEDULED
) -> Occurrence:
    """An attempt at a slot."""
    return Occurrence(job_id=job_id, scheduled_at_ms=at_ms, attempt=attempt, job_version=number, trigger=trigger)


def key(at_ms: Millis = T0, *, job_id: str = "job_a", trigger: Trigger = Trigger.SCHEDULED) -> RunKey:
    """The key of a run."""
    return RunKey(job_id=job_id, scheduled_at_ms=at_ms, trigger=trigger)


def opening(occurrence: Occurrence, number: int, *, term: int = 1, job_spec: JobSpec | None = None) -> OpenRequest:
    """Asks to open an attempt under the ``number``-th fence of the term, a second after its slot."""
    at_ms = occurrence.scheduled_at_ms
    return OpenRequest(
        occurrence=occurrence,
        spec=job_spec or spec(),
        fence=fence(number, term=term),
        now_ms=at_ms + 1_000,
        due_at_ms=at_ms + 5,
        claimed_at_ms=at_ms + 900,
    )


def pending(
    at_ms: Millis = T0,
    *,
    job_id: str = "job_a",
    trigger: Trigger = Trigger.MANUAL,
    job_spec: JobSpec | None = None,
    now_ms: Millis = T0 + 500,
    token: str | None = None,
) -> PendingRequest:
    """Asks for a run of version 1 of a job at ``at_ms``, whose sink is to see the slot ``T0``."""
    return PendingRequest(
        job_id=job_id,
        job_version=1,
        spec=job_spec or spec(),
        trigger=trigger,
        at_ms=at_ms,
        slot_at_ms=T0,
        now_ms=now_ms,
        token=token,
    )


def backfill(name: str = "bf_a", *, created_at_ms: Millis = T0, job_id: str = "job_a", cursor_ms: Millis = T0 - 900) -> Backfill:
    """An open backfill of version 3 of a job, from ``T0 - 900`` to ``T0 + 900``, that stands at ``cursor_ms``."""
    return Backfill(
        id=name,
        job_id=job_id,
        job_version=3,
        from_ms=T0 - 900,
        to_ms=T0 + 900,
        cursor_ms=cursor_ms,
        created_at_ms=created_at_ms,
    )


def result(
    request: OpenRequest,
    status: RunStatus = RunStatus.SUCCEEDED,
    attempt_status: AttemptStatus = AttemptStatus.DELIVERED,
    *,
    retry_at_ms: Millis | None = None,
    reason: str = "",
) -> RecordRequest:
    """The result of the attempt that ``request`` opened."""
    occurrence = request.occurrence
    attempt = Attempt(
        run_id=run_id_for(occurrence.key),
        attempt=occurrence.attempt,
        fence=request.fence,
        status=attempt_status,
        due_at_ms=request.due_at_ms,
        claimed_at_ms=request.claimed_at_ms,
        opened_at_ms=request.now_ms,
        sent_at_ms=request.now_ms + 1,
        finished_at_ms=request.now_ms + 50,
        reason=reason,
        exit_code=0,
        facts={"http_status": 200},
    )
    plan = None if retry_at_ms is None else RetryPlan(attempt=occurrence.attempt + 1, at_ms=retry_at_ms)
    return RecordRequest(key=occurrence.key, attempt=attempt, status=status, retry=plan)


def ranging(
    first_ms: Millis, last_ms: Millis, *, number: int = 1, kind: RangeKind = RangeKind.MISSED, every_ms: Millis = 10
) -> RangeRequest:
    """Asks to write a range of a job that is due at each multiple of ``every_ms``."""
    wanted = SlotRange(
        job_id="job_a", version=number, kind=kind, first_ms=first_ms, last_ms=last_ms, count=0, reason="the process was away"
    )
    return RangeRequest(range=wanted, slots=lambda first, last: last // every_ms - (first - 1) // every_ms)
