"""What the ends of runs, openings and missed slots mean for alerts."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_core.domain.admission import OpenDecision, OpenKind, OpenRequest
from cronpad_core.domain.alerts import AlertCase, AlertKind, AlertRule
from cronpad_core.domain.job import Job
from cronpad_core.domain.limits import month_of
from cronpad_core.domain.run import Attempt, Run, RunStatus, SkipReason
from cronpad_core.domain.timing import JsonValue, Millis, rfc3339

__all__ = ["case_of_end", "case_of_missed", "case_of_opening", "case_of_result"]

_ENDS = {
    RunStatus.SUCCEEDED: AlertKind.RUN_SUCCEEDED,
    RunStatus.FAILED: AlertKind.RUN_FAILED,
    RunStatus.UNKNOWN: AlertKind.RUN_FAILED,
    RunStatus.POISONED: AlertKind.RUN_POISONED,
}
_SLA = {"start_within": AlertKind.RUN_LATE, "finish_within": AlertKind.RUN_SLOW}
_LONGEST_REASON = 500


def case_of_result(
    rules: tuple[AlertRule, ...], run: Run, attempt: Attempt, status: RunStatus, broken: Sequence[str]
) -> AlertCase | None:
    """What an attempt's result means: retries within a run do not count, and lateness is told of where it was seen.

    ``broken`` are the rules of the job's sla that this attempt broke.
    """
    kinds = [_SLA[rule] for rule in broken]
    over = [_SLA["start_within"]] if attempt.attempt == 0 and "start_within" not in broken else []
    if status.terminal:
        kinds += [_ENDS[status]] if status in _ENDS else []
        over += [AlertKind.SLOT_MISSED] + ([] if "finish_within" in broken else [_SLA["finish_within"]])
    at_ms = attempt.sent_at_ms if attempt.finished_at_ms is None else attempt.finished_at_ms
    if not (kinds or over) or at_ms is None:
        return None
    return _of_run(rules, run, at_ms, kinds, over=over, reason=attempt.reason, status=status, attempt=attempt)


def case_of_end(
    rules: tuple[AlertRule, ...], run: Run, status: RunStatus, reason: str, now_ms: Millis, *, over: Sequence[AlertKind] = ()
) -> AlertCase | None:
    """What it means that a run ends without another attempt; a cancellation is nothing to tell of."""
    kinds = [_ENDS[status]] if status in _ENDS else []
    return _of_run(rules, run, now_ms, kinds, over=over, reason=reason, status=status) if kinds or over else None


def case_of_opening(request: OpenRequest, decision: OpenDecision) -> AlertCase | None:
    """What an opening means: a start, an end that it came upon, or a quota that is used up."""
    run = decision.run
    if not request.alerts or run is None or decision.write is None:
        return None
    if decision.kind is OpenKind.FINISHED:
        return case_of_end(request.alerts, run, run.status, run.reason, request.now_ms)
    kinds: list[AlertKind] = []
    if decision.kind is OpenKind.OPENED and run.attempt == 0 and not decision.redelivery:
        kinds.append(AlertKind.RUN_STARTED)
    if decision.over_quota or (decision.kind is OpenKind.SKIPPED and run.skip_reason is SkipReason.QUOTA_EXCEEDED):
        kinds.append(AlertKind.QUOTA_EXCEEDED)
    wanted = [kind for kind in kinds if any(kind in rule.events for rule in request.alerts)]
    if not wanted:
        return None
    month = month_of(request.now_ms)
    reason = f"in {month}" if AlertKind.QUOTA_EXCEEDED in wanted else ""
    return _of_run(request.alerts, run, request.now_ms, wanted, reason=reason, period=month, status=run.status)


def case_of_missed(
    rules: tuple[AlertRule, ...], job: Job, first_ms: Millis, last_ms: Millis, missed: int, now_ms: Millis
) -> AlertCase | None:
    """What it means that slots were missed and will not run."""
    if not rules or missed <= 0:
        return None
    return AlertCase(
        rules=rules,
        job_id=job.id,
        job_name=job.spec.name,
        run_id=None,
        at_ms=now_ms,
        kinds=(AlertKind.SLOT_MISSED,),
        reason=f"{missed} from {rfc3339(first_ms)} to {rfc3339(last_ms)}",
        facts={"missed": missed, "first_at": rfc3339(first_ms), "last_at": rfc3339(last_ms), "workspace": job.spec.workspace},
    )


def _of_run(
    rules: tuple[AlertRule, ...],
    run: Run,
    at_ms: Millis,
    kinds: Sequence[AlertKind],
    *,
    status: RunStatus,
    over: Sequence[AlertKind] = (),
    reason: str = "",
    period: str = "",
    attempt: Attempt | None = None,
) -> AlertCase:
    facts: dict[str, JsonValue] = {
        "status": status.value,
        "scheduled_at": rfc3339(run.slot_at_ms),
        "workspace": run.spec.workspace,
        "tags": list(run.spec.tags),
    }
    if attempt is not None:
        facts |= {"attempts": attempt.attempt + 1, "exit_code": attempt.exit_code}
        if attempt.finished_at_ms is not None and attempt.sent_at_ms is not None:
            facts["duration_ms"] = attempt.finished_at_ms - attempt.sent_at_ms
    return AlertCase(
        rules=rules,
        job_id=run.key.job_id,
        job_name=run.spec.name,
        run_id=run.id,
        at_ms=at_ms,
        kinds=tuple(kinds),
        over=tuple(over),
        period=period,
        reason=reason[:_LONGEST_REASON],
        facts=facts,
    )
