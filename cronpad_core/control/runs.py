"""Ending a run before it ends by itself, and running one again."""

from __future__ import annotations

from dataclasses import dataclass

from cronpad_core.control.desk import Desk
from cronpad_core.control.trigger import ask_for, require_kept
from cronpad_core.domain.errors import CronpadError, NotFoundError
from cronpad_core.domain.events import RunEnded
from cronpad_core.domain.occurrence import Trigger
from cronpad_core.domain.run import Run, RunStatus, next_entry
from cronpad_core.domain.timing import rfc3339
from cronpad_core.ports.asked import PendingAnswer, PendingRequest
from cronpad_core.ports.history import EndRequest

__all__ = ["Cancelled", "cancel", "retry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """``run`` as stored: cancelled, or still running and marked. ``told`` says that its delivery was asked to end.

    A running run that nobody could be told of (its process died) ends as cancelled when its entry comes up again.
    """

    run: Run
    told: bool


async def cancel(desk: Desk, run: Run, *, reason: str | None = None) -> Cancelled:
    """Ends a run: at once where no attempt is running, else by asking its delivery to stop.

    Its entry is dropped when it comes up. Raises ``CronpadError`` for a run that has ended already, ``TermRefusedError`` and
    ``StoreError``.
    """
    said = f"cancelled: {reason}" if reason else "cancelled"
    while True:
        term = desk.require_term()
        stored = await desk.history.request_cancel(run.key, term=term)
        if stored is None:
            raise NotFoundError(f'no run "{run.id}" in this state')
        if stored.status.terminal:
            raise CronpadError(_ended(stored))
        if stored.status is RunStatus.RUNNING:
            return Cancelled(run=stored, told=desk.tell(stored.key, "stop", said))
        request = EndRequest(
            key=stored.key,
            was=stored.status,
            attempt=stored.attempt,
            fence=stored.fence,
            status=RunStatus.CANCELLED,
            reason=said,
            now_ms=desk.now_ms(),
        )
        if await desk.history.end(request):
            occurrence, _ = next_entry(stored)
            desk.emit(
                RunEnded(
                    occurrence=occurrence,
                    job_name=stored.spec.name,
                    run_id=stored.id,
                    status=RunStatus.CANCELLED,
                    reason=said,
                )
            )
            return Cancelled(run=await desk.history.run(stored.key) or stored, told=False)


async def retry(desk: Desk, run: Run, *, token: str | None = None) -> PendingAnswer:
    """A new run of the same slot, with the payload of the old one and the job's present settings; answers it.

    Any run that has ended may be retried, a poisoned or skipped one too. Asked twice with the same ``token`` it is the same run.
    Raises ``CronpadError`` for a run that has not ended, ``NotFoundError`` where its job was removed, and as ``trigger``.
    """
    stored = await desk.history.run(run.key) or run
    if not stored.status.terminal:
        raise CronpadError(
            f'run {stored.id} of "{stored.spec.name}" has not ended: it is {stored.status.value}',
            hint=f"wait for it, or 'cronpad runs cancel {stored.id}'",
        )
    job = await desk.catalog.job(stored.key.job_id)
    if job is None:
        raise NotFoundError(f'the job of run {stored.id}, "{stored.spec.name}", is not in this state any more')
    require_kept(job)
    now_ms = desk.now_ms()
    request = PendingRequest(
        job_id=job.id,
        job_version=job.version,
        spec=job.spec,
        trigger=Trigger.RETRY,
        at_ms=now_ms,
        slot_at_ms=stored.slot_at_ms,
        now_ms=now_ms,
        retry_of=stored.id,
        payload=stored.payload,
        token=token or None,
    )
    return await ask_for(desk, request)


def _ended(run: Run) -> str:
    when = f" at {rfc3339(run.finished_at_ms)}" if run.finished_at_ms is not None else ""
    why = run.skip_reason.value if run.skip_reason is not None else run.reason
    return f'run {run.id} of "{run.spec.name}" has ended already: {run.status.value}{when}{f" ({why})" if why else ""}'
