"""Calling the sink: one delivery, under trust, with a deadline that holds whatever the sink does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Protocol

from cronpad_core.domain.events import AttemptStarted
from cronpad_core.domain.job import ShutdownStyle
from cronpad_core.domain.outcome import Cancelled, Outcome, TimedOut
from cronpad_core.domain.settlement import settle
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.patience import Emit
from cronpad_core.engine.ticket import Holding, Result, Ticket
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.sink import CancelSignal, Delivery

__all__ = ["SHUTDOWN", "Sinks", "Worker"]

SHUTDOWN = "shutdown"
"""The cancel reason of a graceful stop: a delivery that ends for it is interrupted, not cancelled."""


class Sinks(Protocol):
    """The sinks by type, each call guarded."""

    def available(self, sink_type: str) -> bool:
        """Whether there is such a sink."""

    def graceful(self, sink_type: str) -> bool:
        """Whether that sink keeps its deadline and its cancel signal itself."""

    def deliver(self, sink_type: str, settings_key: Hashable, delivery: Delivery) -> Coroutine[object, object, Outcome]:
        """Hands a delivery over. Answers an outcome whatever the sink does; only a cancelled caller sees ``CancelledError``."""


class Worker:
    """Step 5 of the order of writes. Assumes an opened run and an advanced job.

    Guarantees: nothing is sent without trust in our term; an answer comes at most ``timeout`` (and for graceful sinks their kill
    grace) plus the cancel grace after the start. Dies half-way: the run is ``running``; the next holder delivers it again.
    """

    def __init__(
        self,
        *,
        sinks: Sinks,
        clock: Clock,
        authority: Authority,
        tuning: Tuning,
        present: Callable[[], bool],
        emit: Emit,
    ) -> None:
        self._sinks = sinks
        self._clock = clock
        self._authority = authority
        self._tuning = tuning
        self._present = present
        self._emit = emit
        self._seen_ms = -1
        self._deadlines = _Deadlines()
        self.abandoned = 0

    async def deliver(self, ticket: Ticket) -> Result | None:
        """Delivers once; ``None`` where the term ended before anything was sent."""
        holding, run = ticket.holding, ticket.run
        assert run is not None, "an opened ticket has its run"
        if not self._trusts(holding) and not await self._trusted(holding):
            return None
        spec, occurrence = run.spec, ticket.occurrence
        graceful = self._sinks.graceful(spec.sink.type)
        task: asyncio.Future[Outcome] | None = None

        def asked(stage: str) -> None:
            if task is None or (graceful and stage != "kill"):
                return
            if not graceful:
                task.cancel()
            self._deadlines.hurry(task, self._tuning.cancel_grace_ms)

        cancel = CancelSignal(asked)
        holding.cancel, holding.run_id, holding.job_name = cancel, run.id, spec.name
        holding.kill_grace_ms, holding.at_once = spec.kill_grace_ms, spec.shutdown is ShutdownStyle.AT_ONCE
        sent = self._clock.wall_ms()
        if holding.wanted is not None:
            outcome: Outcome = Cancelled(reason=holding.wanted[1])
            return Result(
                outcome=outcome, settlement=settle(run, occurrence, outcome, sent), sent_at_ms=sent, finished_at_ms=sent
            )
        self._emit(
            AttemptStarted(
                occurrence=occurrence,
                job_name=spec.name,
                run_id=run.id,
                at_ms=sent,
                lag_ms=sent - ticket.due_at_ms,
                redelivery=ticket.redelivery,
            )
        )
        holding.sending = True
        try:
            task = asyncio.get_running_loop().create_task(
                self._sinks.deliver(spec.sink.type, (occurrence.job_id, run.job_version), self._delivery(ticket, cancel))
            )
            limit = spec.timeout_ms + (spec.kill_grace_ms + self._tuning.cancel_grace_ms if graceful else 0)
            outcome = await self._watch(task, cancel, limit)
        finally:
            holding.sending = False
        finished = self._clock.wall_ms()
        interrupted = cancel.reason == SHUTDOWN and isinstance(outcome, Cancelled)
        cancelled = holding.wanted is not None
        settlement = settle(run, occurrence, outcome, finished, interrupted=interrupted and not cancelled, cancelled=cancelled)
        return Result(outcome=outcome, settlement=settlement, sent_at_ms=sent, finished_at_ms=finished)

    async def _trusted(self, holding: Holding) -> bool:
        """Waits for trust under the term by which the entry is held; False once that term is over."""
        while self._authority.term == holding.term:
            if self._trusts(holding):
                return True
            await self._clock.sleep(50)
        return False

    def _trusts(self, holding: Holding) -> bool:
        if self._authority.term != holding.term or not self._authority.may_claim():
            return False
        # A burst asks once a millisecond, not once a delivery: each question looks at three files.
        now = self._clock.boot_ms()
        if now == self._seen_ms or self._present():
            self._seen_ms = now
            return True
        self._authority.doubt()
        return False

    async def _watch(self, task: asyncio.Future[Outcome], cancel: CancelSignal, limit_ms: int) -> Outcome:
        # asyncio.wait_for would wait for ever on a task that swallows its cancellation.
        expired = False
        try:
            if not await self._deadlines.ends(task, limit_ms):
                expired = cancel.stage is None
                task.cancel()
                if expired:
                    await self._deadlines.ends(task, self._tuning.cancel_grace_ms)
        except asyncio.CancelledError:
            task.cancel()
            await self._deadlines.ends(task, self._tuning.cancel_grace_ms)
            raise
        if not task.done():
            self.abandoned += 1
            if not expired:
                return Cancelled(reason=f"{cancel.reason}; its sink did not stop when told to and was abandoned")
            return TimedOut(reason="timed out, and its sink did not stop when told to; it was abandoned")
        if task.cancelled():
            if expired or cancel.stage is None:
                return TimedOut(reason=f"timed out after {limit_ms / 1000:g} s")
            return Cancelled(reason=cancel.reason)
        return task.result()

    def _delivery(self, ticket: Ticket, cancel: CancelSignal) -> Delivery:
        run, occurrence, holding = ticket.run, ticket.occurrence, ticket.holding
        assert run is not None, "an opened ticket has its run"
        spec = run.spec
        return Delivery(
            job_id=occurrence.job_id,
            job_name=spec.name,
            workspace=spec.workspace,
            run_id=run.id,
            occurrence=occurrence.member,
            trigger=occurrence.trigger,
            attempt=occurrence.attempt,
            redelivery=run.redeliveries if ticket.redelivery else 0,
            slot_at_ms=run.slot_at_ms,
            scheduled_at_ms=occurrence.scheduled_at_ms,
            timezone=spec.schedule.timezone,
            fence=str(holding.fence),
            timeout_ms=spec.timeout_ms,
            kill_grace_ms=spec.kill_grace_ms,
            deadline_boot_ms=self._clock.boot_ms() + spec.timeout_ms,
            settings=spec.sink.settings,
            payload=run.payload,
            cancel=cancel,
            still_ours=lambda: not holding.lost and self._authority.trusted(),
        )


class _Deadlines:
    """One timer for all deliveries under way: almost all end long before their time is up."""

    def __init__(self) -> None:
        self._at: dict[asyncio.Future[None], float] = {}
        self._of: dict[asyncio.Future[Outcome], asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def ends(self, task: asyncio.Future[Outcome], within_ms: int) -> bool:
        """Whether the task ends in time. As ``asyncio.wait``, which makes more of one task than a small delivery costs."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        wake = partial(_wake, woken)
        self._of[task] = woken
        self._due(woken, loop, within_ms)
        task.add_done_callback(wake)
        try:
            await woken
        finally:
            task.remove_done_callback(wake)
            del self._at[woken], self._of[task]
            if not self._at and self._timer is not None:
                self._timer.cancel()
                self._timer = None
        return task.done()

    def hurry(self, task: asyncio.Future[Outcome], within_ms: int) -> None:
        """Whoever waits for this task waits no longer than that from now on."""
        woken, loop = self._of.get(task), asyncio.get_running_loop()
        if woken is not None and self._at[woken] > loop.time() + within_ms / 1000:
            self._due(woken, loop, within_ms)

    def _due(self, woken: asyncio.Future[None], loop: asyncio.AbstractEventLoop, within_ms: int) -> None:
        self._at[woken] = at = loop.time() + within_ms / 1000
        if self._timer is None or at < self._timer.when():
            self._set(loop, at)

    def _set(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(at, self._look, loop, at)

    def _look(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        """The timer's time has come: whose time is up is woken, the next one's is waited for."""
        self._timer = None
        now = max(now, loop.time())  # a loop may call a timer a little early
        later = []
        for woken, at in self._at.items():
            if at <= now:
                _wake(woken)
            else:
                later.append(at)
        if later:
            self._set(loop, min(later))


def _wake(woken: asyncio.Future[None], _: object = None) -> None:
    if not woken.done():
        woken.set_result(None)
