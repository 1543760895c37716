"""What control operations answer, as JSON. Each instant is there twice: in RFC 3339, and as ``…_ms``."""

from __future__ import annotations

from cronpad_core.control.backfills import BackfillPlan
from cronpad_core.control.workspaces import WorkspaceView
from cronpad_core.domain.backfill import Backfill
from cronpad_core.domain.job import Job
from cronpad_core.domain.outbox import AlertChannel, AlertEntry, AlertStatus
from cronpad_core.domain.run import Run
from cronpad_core.domain.timing import JsonValue, Millis, rfc3339

__all__ = ["alert_document", "backfill_document", "channel_document", "job_document", "run_document", "workspace_document"]

Document = dict[str, JsonValue]


def _instant(name: str, instant_ms: Millis | None) -> Document:
    return {name: rfc3339(instant_ms), f"{name}_ms": instant_ms}


def job_document(job: Job) -> Document:
    """A job as it stands."""
    return {
        "job_id": job.id,
        "job": job.spec.name,
        "status": job.status.value,
        "version": job.version,
        **_instant("next_run_at", job.next_run_at_ms),
        "paused_reason": job.paused_reason,
        **_instant("paused_until_at", job.paused_until_ms),
    }


def run_document(run: Run) -> Document:
    """A run as it stands; ``scheduled_at`` is part of its key, ``slot_at`` what its sink sees."""
    return {
        "job_id": run.key.job_id,
        "job": run.spec.name,
        "run_id": run.id,
        "trigger": run.key.trigger.value,
        "status": run.status.value,
        "reason": run.reason,
        "cancel_requested": run.cancel_requested,
        "retry_of": run.retry_of,
        **_instant("scheduled_at", run.key.scheduled_at_ms),
        **_instant("slot_at", run.slot_at_ms),
        **_instant("created_at", run.created_at_ms),
        **_instant("finished_at", run.finished_at_ms),
    }


def backfill_document(job: Job | None, plan: BackfillPlan | None, backfill: Backfill | None) -> Document:
    """A backfill that is planned (then ``slots`` and the first and last of them are there), stored, or both."""
    document: Document = {}
    if job is not None:
        document = {"job_id": job.id, "job": job.spec.name}
    if plan is not None:
        document |= {"slots": plan.slots, **_instant("from_at", plan.from_ms), **_instant("to_at", plan.to_ms)}
        document |= {**_instant("first_at", plan.first_ms), **_instant("last_at", plan.last_ms)}
    if backfill is not None:
        document |= {
            "job_id": backfill.job_id,
            "backfill_id": backfill.id,
            "status": backfill.status.value,
            "started": backfill.started,
            "passed": backfill.passed,
            "overlap": None if backfill.overlap is None else backfill.overlap.policy.value,
            **_instant("from_at", backfill.from_ms),
            **_instant("to_at", backfill.to_ms),
            **_instant("cursor_at", backfill.cursor_ms),
            **_instant("created_at", backfill.created_at_ms),
            **_instant("finished_at", backfill.finished_at_ms),
        }
    return document


def workspace_document(view: WorkspaceView) -> Document:
    """A workspace with what it has used; ``quota`` and ``concurrency`` are ``null`` where there is no such limit."""
    workspace, quota = view.workspace, view.workspace.quota
    return {
        "workspace": workspace.name,
        "suspended": workspace.suspended,
        "reason": workspace.reason,
        "quota": None if quota is None else quota.max,
        "quota_blocking": None if quota is None else quota.blocking,
        "concurrency": workspace.concurrency,
        "month": view.month,
        "used": view.used,
    }


def alert_document(entry: AlertEntry, *, snoozed: bool) -> Document:
    """One alert on its way, or at its end; ``state`` is its status, or ``snoozed`` while it waits for that."""
    waits = snoozed and entry.status is AlertStatus.PENDING
    return {
        "id": entry.id,
        "alert": entry.name,
        "state": "snoozed" if waits else entry.status.value,
        "kind": "several" if entry.kind is None else entry.kind.value,
        "text": "; ".join(item.text for item in entry.items),
        "items": [
            {"id": item.id, "kind": item.kind.value, "job": item.job_name, "run_id": item.run_id, "text": item.text}
            for item in entry.items
        ],
        "left_out": entry.left_out,
        "tries": entry.tries,
        "error": entry.error,
        **_instant("created_at", entry.created_at_ms),
        **_instant("next_at", entry.next_at_ms if entry.status is AlertStatus.PENDING else None),
        **_instant("settled_at", entry.settled_at_ms),
    }


def channel_document(channel: AlertChannel) -> Document:
    """How an alert fares."""
    return {
        "alert": channel.name,
        **_instant("snoozed_until_at", channel.snoozed_until_ms or None),
        "failures": channel.failures,
        "dropped": channel.dropped,
    }
