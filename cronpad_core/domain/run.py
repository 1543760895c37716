"""Runs and attempts: one row per slot or trigger, one per delivery, and the moves between their statuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from cronpad_core.domain.job import JobSpec
from cronpad_core.domain.occurrence import Occurrence, RunKey
from cronpad_core.domain.outcome import StreamCapture
from cronpad_core.domain.retry import RetryPlan
from cronpad_core.domain.timing import JsonValue, Millis
from cronpad_core.domain.values import value

__all__ = ["MOVES", "Attempt", "AttemptStatus", "Run", "RunStatus", "SkipReason", "next_entry"]


class RunStatus(StrEnum):
    """(waiting →) pending → running → (retrying → running)* → one of the terminal six."""

    WAITING = "waiting"
    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    POISONED = "poisoned"

    @property
    def terminal(self) -> bool:
        """Whether the run has ended: such a status never changes again."""
        return self not in (RunStatus.WAITING, RunStatus.PENDING, RunStatus.RUNNING, RunStatus.RETRYING)


_ENDS = frozenset(status for status in RunStatus if status.terminal)

MOVES: Mapping[RunStatus | None, frozenset[RunStatus]] = {
    None: frozenset({RunStatus.WAITING, RunStatus.PENDING, RunStatus.RUNNING, RunStatus.SKIPPED}),
    RunStatus.WAITING: frozenset({RunStatus.RUNNING, RunStatus.CANCELLED, RunStatus.SKIPPED}),
    RunStatus.PENDING: frozenset({RunStatus.WAITING, RunStatus.RUNNING, RunStatus.CANCELLED, RunStatus.SKIPPED}),
    RunStatus.RUNNING: frozenset({RunStatus.RUNNING, RunStatus.RETRYING}) | (_ENDS - {RunStatus.SKIPPED}),
    RunStatus.RETRYING: frozenset({RunStatus.RUNNING, RunStatus.FAILED, RunStatus.CANCELLED}),
}
"""The statuses that each status may move to; a terminal one moves nowhere."""


class AttemptStatus(StrEnum):
    """How one delivery ended. ``STALE``: its holder had lost the lease, and it changed nothing else."""

    RUNNING = "running"
    DELIVERED = "delivered"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"
    STALE = "stale"


class SkipReason(StrEnum):
    """Why a slot was not run although its time came."""

    WORKSPACE_SUSPENDED = "workspace_suspended"
    QUOTA_EXCEEDED = "quota_exceeded"
    PREVIOUS_RUN_IN_PROGRESS = "previous_run_in_progress"
    QUEUE_FULL = "queue_full"
    MISFIRE = "misfire"
    PLUGIN_UNAVAILABLE = "plugin_unavailable"


@value
class Run:
    """One run as stored. ``spec`` is the settings snapshot that it started with and finishes with.

    ``attempt`` is the highest one opened; ``retry`` the stored plan of the next while ``retrying``; ``clean`` that its last
    holder stopped gracefully; ``redeliveries`` how often it was opened again after a holder died while it was running.
    ``payload`` is what a trigger gave it for its sink; ``token`` the word by which a caller asks twice for the same run.
    """

    id: str
    key: RunKey
    job_version: int
    spec: JobSpec
    status: RunStatus
    attempt: int
    fence: int
    slot_at_ms: Millis
    created_at_ms: Millis
    opened_at_ms: Millis | None = None
    finished_at_ms: Millis | None = None
    retry: RetryPlan | None = None
    retry_of: str | None = None
    skip_reason: SkipReason | None = None
    reason: str = ""
    redeliveries: int = 0
    clean: bool = False
    cancel_requested: bool = False
    payload: JsonValue = None
    token: str | None = None


@value
class Attempt:
    """One delivery as stored, keyed ``(run_id, attempt, fence)``.

    ``due_at_ms`` is when it should have started (slot + jitter, or the retry's time), ``claimed_at_ms`` when its entry was
    claimed, ``opened_at_ms`` when its row was written, ``sent_at_ms`` when the sink was called: together they split its lateness.
    """

    run_id: str
    attempt: int
    fence: int
    status: AttemptStatus
    due_at_ms: Millis
    claimed_at_ms: Millis
    opened_at_ms: Millis
    sent_at_ms: Millis | None = None
    finished_at_ms: Millis | None = None
    held_since_ms: Millis | None = None
    reason: str = ""
    exit_code: int | None = None
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    output: tuple[StreamCapture, ...] = ()


def next_entry(run: Run) -> tuple[Occurrence, Millis]:
    """The entry that an unfinished run must have in the queue, and when it is due."""
    retrying = run.status is RunStatus.RETRYING
    attempt = run.attempt + 1 if retrying else run.attempt
    if retrying and run.retry is not None:
        attempt, due = run.retry.attempt, run.retry.at_ms
    else:
        due = run.created_at_ms if run.opened_at_ms is None else run.opened_at_ms
    key = run.key
    occurrence = Occurrence(
        job_id=key.job_id,
        scheduled_at_ms=key.scheduled_at_ms,
        attempt=attempt,
        job_version=run.job_version,
        trigger=key.trigger,
    )
    return occurrence, due
