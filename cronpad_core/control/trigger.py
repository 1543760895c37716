"""Asking for a run: its row is durable before anybody is told that there is one."""

from __future__ import annotations

from dataclasses import replace

from cronpad_core.control.desk import Desk
from cronpad_core.domain.errors import NotFoundError, StoreError, TermRefusedError
from cronpad_core.domain.job import Job, JobStatus
from cronpad_core.domain.occurrence import Trigger
from cronpad_core.domain.overlap import OverlapRule
from cronpad_core.domain.run import Run, RunStatus, next_entry
from cronpad_core.domain.timing import JsonValue
from cronpad_core.ports.asked import PendingAnswer, PendingRequest
from cronpad_core.ports.queue import Entry

__all__ = ["ask_for", "require_kept", "trigger"]


async def trigger(
    desk: Desk, job: Job, *, payload: JsonValue = None, token: str | None = None, overlap: OverlapRule | None = None
) -> PendingAnswer:
    """A run of the job now, beside its schedule; a paused or completed job runs too. ``overlap`` takes the place of its rule.

    Asked twice with the same ``token`` it is the same run. Raises ``NotFoundError`` for a removed job, ``TermRefusedError``, and
    ``StoreError`` where history cannot keep the run; once it is kept, it runs.
    """
    require_kept(job)
    now_ms = desk.now_ms()
    request = PendingRequest(
        job_id=job.id,
        job_version=job.version,
        spec=job.spec if overlap is None else replace(job.spec, overlap=overlap),
        trigger=Trigger.MANUAL,
        at_ms=now_ms,
        slot_at_ms=now_ms,
        now_ms=now_ms,
        payload=payload,
        token=token or None,
    )
    return await ask_for(desk, request)


def require_kept(job: Job) -> None:
    """Raises ``NotFoundError`` for a job that was removed."""
    if job.status is JobStatus.DELETED:
        raise NotFoundError(f'job "{job.spec.name}" was removed', hint=f"add it again to {job.origin}")


async def ask_for(desk: Desk, request: PendingRequest) -> PendingAnswer:
    """Keeps the run, then queues it. One that was there before is queued again if it has not begun: its entry may be lost."""
    term = desk.require_term()
    [answer] = await desk.history.add_pending([request], term=term)
    if answer.run.status is RunStatus.PENDING:
        await _put(desk, answer.run, term)
    return answer


async def _put(desk: Desk, run: Run, term: int) -> None:
    occurrence, due_ms = next_entry(run)
    try:
        await desk.queue.put([Entry(member=occurrence.member, at_ms=due_ms)], term=term)
    except (StoreError, TermRefusedError):
        return  # the row is there: the reconciler, or whoever dispatches next, puts it
    desk.wake(due_ms)
