"""Writing down how an attempt ended, under the fence that ran it."""

from __future__ import annotations

from functools import partial

from cronpad_core.domain.events import AttemptFinished, LeaseLost
from cronpad_core.domain.run import Attempt
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.engine.ticket import Result, Ticket
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import HistoryStore, RecordAnswer, RecordKind, RecordRequest

__all__ = ["Recorder"]


class Recorder:
    """Step 6 of the order of writes: result, run status and retry plan in one transaction, guarded by the fence.

    Guarantees: before anything is acknowledged the result is durable, or known to be another holder's business. Dies half-way: as
    if it had not begun, or had ended; the redelivery finds out.
    """

    def __init__(self, *, history: HistoryStore, clock: Clock, patience: Patience, emit: Emit) -> None:
        self._history = history
        self._clock = clock
        self._patience = patience
        self._emit = emit

    async def record(self, ticket: Ticket, result: Result) -> RecordAnswer:
        """Stores the result. A worker that took over a newer lease meanwhile writes again under the new fence."""
        holding = ticket.holding
        while True:
            fence = holding.fence
            request = self._request(ticket, result, fence)
            [answer] = await self._patience.insist("history", partial(self._history.record, [request]))
            while holding.offered > holding.fence:
                await self._clock.sleep(10)
            if answer.kind is RecordKind.STALE and holding.fence != fence:
                continue
            break
        run = ticket.run
        assert run is not None, "an opened ticket has its run"
        if answer.kind is RecordKind.STALE:
            self._emit(LeaseLost(member=ticket.occurrence.member, run_id=run.id))
        else:
            self._emit(
                AttemptFinished(
                    occurrence=ticket.occurrence,
                    job_name=run.spec.name,
                    workspace=run.spec.workspace,
                    run_id=run.id,
                    attempt=request.attempt,
                    status=request.status,
                    retry_at_ms=answer.retry.at_ms if answer.retry else None,
                )
            )
        return answer

    def _request(self, ticket: Ticket, result: Result, fence: int) -> RecordRequest:
        run, outcome, settlement = ticket.run, result.outcome, result.settlement
        assert run is not None, "an opened ticket has its run"
        attempt = Attempt(
            run_id=run.id,
            attempt=ticket.occurrence.attempt,
            fence=fence,
            status=settlement.attempt,
            due_at_ms=ticket.due_at_ms,
            claimed_at_ms=ticket.claimed_at_ms,
            opened_at_ms=ticket.opened_at_ms,
            sent_at_ms=result.sent_at_ms,
            finished_at_ms=result.finished_at_ms,
            held_since_ms=ticket.held_since_ms,
            reason=outcome.reason,
            exit_code=outcome.exit_code,
            facts=outcome.facts,
            output=outcome.output,
        )
        return RecordRequest(key=run.key, attempt=attempt, status=settlement.run, retry=settlement.retry)
