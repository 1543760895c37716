"""Writing down how an attempt ended, under the fence that ran it."""

from __future__ import annotations

import asyncio
from functools import partial

from cronpad_core.domain.events import AttemptFinished, LeaseLost
from cronpad_core.domain.run import Attempt
from cronpad_core.domain.tuning import Tuning
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

    def __init__(self, *, history: HistoryStore, clock: Clock, patience: Patience, tuning: Tuning, emit: Emit) -> None:
        self._history = history
        self._clock = clock
        self._patience = patience
        self._tuning = tuning
        self._emit = emit
        self._waiting: list[tuple[RecordRequest, asyncio.Future[RecordAnswer]]] = []
        self._flushing: set[asyncio.Task[None]] = set()

    async def record(self, ticket: Ticket, result: Result) -> RecordAnswer:
        """Stores the result. A worker that took over a newer lease meanwhile writes again under the new fence."""
        holding = ticket.holding
        while True:
            fence = holding.fence
            request = self._request(ticket, result, fence)
            answer = await self._store(request)
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

    async def _store(self, request: RecordRequest) -> RecordAnswer:
        """Writes at once, or together with what ends within the flush interval; either way the answer comes after the commit."""
        if not self._tuning.flush_ms:
            [answer] = await self._patience.insist("history", partial(self._history.record, [request]))
            return answer
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[RecordAnswer] = loop.create_future()
        self._waiting.append((request, answered))
        if len(self._waiting) >= self._tuning.batch:
            self._flush()
        elif len(self._waiting) == 1:
            loop.call_later(self._tuning.flush_ms / 1000, self._flush)
        return await answered

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            task = asyncio.ensure_future(self._write(waiting))
            self._flushing.add(task)
            task.add_done_callback(self._flushing.discard)

    async def _write(self, waiting: list[tuple[RecordRequest, asyncio.Future[RecordAnswer]]]) -> None:
        requests = [request for request, _ in waiting]
        try:
            answers = await self._patience.insist("history", partial(self._history.record, requests))
        except Exception as error:  # each caller has to hear of it; none may wait for ever
            for _, answered in waiting:
                if not answered.done():
                    answered.set_exception(error)
            return
        for (_, answered), answer in zip(waiting, answers, strict=True):
            if not answered.done():
                answered.set_result(answer)

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
