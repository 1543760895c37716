"""Writing down how an attempt ended, under the fence that ran it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from cronpad_core.domain.alert_cases import case_of_result
from cronpad_core.domain.events import AttemptFinished, LeaseLost, SlaBreached
from cronpad_core.domain.occurrence import Trigger
from cronpad_core.domain.run import Attempt
from cronpad_core.domain.timing import Millis
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.alert_book import AlertBook
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.engine.rush import Rush
from cronpad_core.engine.ticket import Result, Ticket
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import HistoryStore, RecordAnswer, RecordKind, RecordRequest

__all__ = ["Recorder", "sla_breaches"]


_LONGEST_RUSH_MS = 50


def sla_breaches(ticket: Ticket, result: Result) -> list[tuple[str, Millis]]:
    """Which rules of the job's SLA this attempt broke, and by how much: a first start too late, an end of the run too late.

    Counted from when the slot is due, or from when somebody asked for the run. The time that a cap, or the run's own place in a
    queue, held it back does not count.
    """
    run, occurrence = ticket.run, ticket.occurrence
    sla = run.spec.sla if run is not None else None
    if run is None or sla is None:
        return []
    due_ms = run.created_at_ms
    if occurrence.trigger is Trigger.SCHEDULED:
        due_ms = run.spec.start_at_ms(replace(occurrence, scheduled_at_ms=run.slot_at_ms), None)
    held_ms = 0 if ticket.held_since_ms is None else max(0, ticket.opened_at_ms - ticket.held_since_ms)
    found = []
    if sla.start_within_ms is not None and occurrence.attempt == 0 and not ticket.redelivery:
        found.append(("start_within", result.sent_at_ms - due_ms - held_ms - sla.start_within_ms))
    if sla.finish_within_ms is not None and result.settlement.run.terminal:
        found.append(("finish_within", result.finished_at_ms - due_ms - held_ms - sla.finish_within_ms))
    return [(rule, over_ms) for rule, over_ms in found if over_ms > 0]


class Recorder:
    """Step 6 of the order of writes: result, run status and retry plan in one transaction, guarded by the fence.

    Guarantees: before anything is acknowledged the result is durable, or known to be another holder's business. Dies half-way: as
    if it had not begun, or had ended; the redelivery finds out.
    """

    def __init__(
        self,
        *,
        history: HistoryStore,
        clock: Clock,
        patience: Patience,
        tuning: Tuning,
        rush: Rush,
        emit: Emit,
        alerts: AlertBook,
    ) -> None:
        self._history = history
        self._clock = clock
        self._patience = patience
        self._tuning = tuning
        self._rush = rush
        self._emit = emit
        self._alerts = alerts
        self._waiting: list[tuple[RecordRequest, asyncio.Future[RecordAnswer]]] = []
        self._flushing: set[asyncio.Task[None]] = set()

    async def record(self, ticket: Ticket, result: Result) -> RecordAnswer:
        """Stores the result. A worker that took over a newer lease meanwhile writes again under the new fence."""
        holding = ticket.holding
        breaches = sla_breaches(ticket, result)
        while True:
            fence = holding.fence
            request = self._request(ticket, result, fence, breaches)
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
            for rule, over_ms in breaches:
                self._emit(
                    SlaBreached(occurrence=ticket.occurrence, job_name=run.spec.name, run_id=run.id, rule=rule, over_ms=over_ms)
                )
        return answer

    def _store(self, request: RecordRequest) -> asyncio.Future[RecordAnswer]:
        """Writes it together with whatever else ends meanwhile; the answer comes after the commit."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[RecordAnswer] = loop.create_future()
        self._waiting.append((request, answered))
        if len(self._waiting) >= self._tuning.batch:
            self._flush()
        elif len(self._waiting) == 1:
            if self._tuning.flush_ms:
                loop.call_later(self._tuning.flush_ms / 1000, self._flush)
            elif not self._flushing:
                self._flush_soon()
        return answered

    def _flush_soon(self) -> None:
        """In this turn of the loop; or after the claim that is being opened, unless that has to wait for a store."""
        loop = asyncio.get_running_loop()
        if self._rush.after(self._flush):
            loop.call_later(_LONGEST_RUSH_MS / 1000, self._flush)
        else:
            loop.call_soon(self._flush)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            task = asyncio.ensure_future(self._write(waiting))
            self._flushing.add(task)
            task.add_done_callback(self._flushed)

    def _flushed(self, task: asyncio.Task[None]) -> None:
        self._flushing.discard(task)
        if self._waiting and not self._tuning.flush_ms:
            self._flush_soon()

    async def _write(self, waiting: list[tuple[RecordRequest, asyncio.Future[RecordAnswer]]]) -> None:
        try:
            answers = await self._insist([request for request, _ in waiting])
        except asyncio.CancelledError:
            for _, answered in waiting:
                answered.cancel()
            raise
        except Exception as error:  # a result that no store takes must not keep the others from being written
            for request, answered in waiting:
                await self._write_alone(request, answered, error)
            return
        for (_, answered), answer in zip(waiting, answers, strict=True):
            if not answered.done():
                answered.set_result(answer)

    async def _write_alone(self, request: RecordRequest, answered: asyncio.Future[RecordAnswer], error: Exception) -> None:
        """One result; where it cannot be stored as it is, without what its sink said, or it would be delivered for ever."""
        attempt = request.attempt
        said = f"what its sink answered cannot be stored: {type(error).__name__}"
        bare = replace(request, attempt=replace(attempt, reason=said, exit_code=None, facts={}, output=()))
        for one in (request, bare):
            try:
                [answer] = await self._insist([one])
            except Exception as again:  # told to its caller below, if the bare one is refused too
                error = again
                continue
            if not answered.done():
                answered.set_result(answer)
            return
        if not answered.done():
            answered.set_exception(error)

    async def _insist(self, requests: Sequence[RecordRequest]) -> list[RecordAnswer]:
        return await self._patience.insist("history", partial(self._history.record, requests))

    def _request(self, ticket: Ticket, result: Result, fence: int, breaches: Sequence[tuple[str, Millis]]) -> RecordRequest:
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
            facts={**outcome.facts, "sla": [rule for rule, _ in breaches]} if breaches else outcome.facts,
            output=outcome.output,
        )
        rules = self._alerts.rules(run.spec.alerts)
        case = case_of_result(rules, run, attempt, settlement.run, [rule for rule, _ in breaches]) if rules else None
        return RecordRequest(key=run.key, attempt=attempt, status=settlement.run, retry=settlement.retry, alerts=case)
