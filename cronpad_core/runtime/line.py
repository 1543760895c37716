"""The order of the line: the only file that knows which step follows which.

::

    1 queue    claim            (the loop)
    2 history  open run         Opener
    3 control  advance          Advancer
    4 queue    put the next     Advancer
    5 sink     deliver          Worker
    6 history  record           Recorder
    7 queue    ack with retry   Settle

With ``delivery = "fast"`` 3 and 4 go on beside 5, and 7 waits for both. 2 before 3, or a lost queue in between loses the slot. 6
before 7, or a crash in between strands the run. Each step may be done twice; none may be left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cronpad_core.domain.admission import OpenDecision, OpenKind
from cronpad_core.domain.errors import CronpadError, ScheduleError, TermRefusedError
from cronpad_core.domain.events import EntryDropped, JobUnreadable, LineFailed, RunHeld
from cronpad_core.domain.limits import scopes_of
from cronpad_core.domain.occurrence import Occurrence
from cronpad_core.domain.outcome import Failed
from cronpad_core.domain.retry import RetryPlan
from cronpad_core.domain.run import RunStatus
from cronpad_core.domain.timing import MINUTE
from cronpad_core.engine.advancer import Advancer
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.budget import ReplayBudget
from cronpad_core.engine.catchup import CatchUp, Decided
from cronpad_core.engine.gate import Gate, Verdict
from cronpad_core.engine.holds import Holds
from cronpad_core.engine.leases import LeaseKeeper
from cronpad_core.engine.opener import Opener
from cronpad_core.engine.patience import Emit
from cronpad_core.engine.recorder import Recorder
from cronpad_core.engine.rush import Rush
from cronpad_core.engine.settle import Settle
from cronpad_core.engine.ticket import Holding, Holdings, Ticket
from cronpad_core.engine.wakeup import WakeUp
from cronpad_core.engine.worker import Worker
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import RecordKind

__all__ = ["Line"]

_PAST = "past"
_TOGETHER = 100

Spawn = Callable[[Coroutine[object, object, None]], None]
PauseJob = Callable[[Occurrence, str], Awaitable[object]]
"""Pauses the job of an occurrence for a reason."""


class _Moving:
    """Steps 3 and 4 of all that one claim opened, beside the deliveries and after the last of them has begun."""

    def __init__(self, advancer: Advancer) -> None:
        self._advancer = advancer
        self._tickets: list[Ticket] = []
        self._moving: asyncio.Task[None] | None = None
        self._moved: list[bool] | None = None
        self._over = asyncio.Event()

    def add(self, ticket: Ticket) -> Callable[[], Awaitable[bool]]:
        """Adds a ticket; the answer waits until its job was moved on, by itself where that broke off for all."""
        self._tickets.append(ticket)
        return partial(self._answer, ticket, len(self._tickets) - 1)

    def begin(self) -> None:
        """Moves them on; no ticket is added after this."""
        if self._tickets:
            self._moving = asyncio.ensure_future(self._move())

    async def _move(self) -> None:
        slots = [(one.occurrence, one.job) for one in self._tickets if one.job is not None]
        try:
            self._moved = await self._advancer.advance_all(slots, self._tickets[0].holding.term)
        except Exception:  # whatever it is about one of them is found when each is moved alone
            self._moved = None
        finally:
            self._over.set()

    async def _answer(self, ticket: Ticket, index: int) -> bool:
        await self._over.wait()
        if self._moved is not None:
            return self._moved[index]
        return await self._advancer.advance(ticket.occurrence, ticket.job, ticket.holding.term)


@dataclass(slots=True, kw_only=True)
class Line:
    """Walks tickets. Every ticket ends with its entry acknowledged, given back, or left to a later holder."""

    gate: Gate
    catchup: CatchUp
    opener: Opener
    advancer: Advancer
    worker: Worker
    recorder: Recorder
    settle: Settle
    leases: LeaseKeeper
    holdings: Holdings
    holds: Holds
    budget: ReplayBudget
    rush: Rush
    fast: bool
    authority: Authority
    clock: Clock
    wake: WakeUp
    emit: Emit
    pause: PauseJob

    async def begin(self, tickets: Sequence[Ticket], spawn: Spawn) -> None:
        """Walks what one claim brought: what goes the usual way shares its transactions; from the delivery on each is alone.

        A few dozen at a time, so that the first are delivered while the rows of the others are written. With ``delivery = "fast"``
        their jobs are moved on once all have begun.
        """
        moving = _Moving(self.advancer) if self.fast else None
        try:
            with self.rush.hour():
                for first in range(0, len(tickets), _TOGETHER):
                    await self._begin(tickets[first : first + _TOGETHER], spawn, moving)
        finally:
            if moving is not None:
                moving.begin()

    async def _begin(self, tickets: Sequence[Ticket], spawn: Spawn, moving: _Moving | None) -> None:
        usual = await self._sort_out(tickets, spawn)
        if not usual:
            return
        try:
            opened = await self.opener.open(usual)
        except asyncio.CancelledError:
            for ticket in usual:
                self.holdings.remove(ticket.holding)
            raise
        except Exception:  # whatever it is about one of them is found when each is walked alone
            for ticket in usual:
                spawn(self.walk(ticket))
            return
        going: list[Ticket] = []
        for decision, ticket in opened:
            if decision.kind is OpenKind.OPENED and ticket.job is not None:
                going.append(ticket)
            else:
                spawn(self._guard(ticket, partial(self._go_on, decision, ticket)))
        if moving is None:
            await self._advance_all(going, spawn)
            return
        for ticket in going:
            spawn(self._guard(ticket, partial(self._send, ticket, moving.add(ticket))))

    async def _sort_out(self, tickets: Sequence[Ticket], spawn: Spawn) -> list[Ticket]:
        """The tickets that go the usual way, with their jobs; each of the others begins its walk."""
        if len(tickets) == 1:
            spawn(self.walk(tickets[0]))
            return []
        usual, rest = self._plain(tickets)
        slots = [ticket.occurrence for ticket in rest if ticket.occurrence.is_slot]
        if len(slots) > 1:
            # After a start no job is known yet; asked for by one walk each, a whole backlog would go the long way.
            try:
                await asyncio.gather(*map(self.gate.job, slots), return_exceptions=True)
            except asyncio.CancelledError:
                for ticket in tickets:
                    self.holdings.remove(ticket.holding)
                raise
            more, rest = self._plain(rest)
            usual += more
        for ticket in rest:
            spawn(self.walk(ticket))
        return usual

    def _plain(self, tickets: Sequence[Ticket]) -> tuple[list[Ticket], list[Ticket]]:
        """Those that go the usual way as far as is known without asking, and the others."""
        usual: list[Ticket] = []
        rest: list[Ticket] = []
        for ticket in tickets:
            plain = self.gate.plain(ticket)
            if plain is None or plain.of_the_past:
                rest.append(ticket)
            else:
                usual.append(plain)
        return usual, rest

    async def _advance_all(self, going: Sequence[Ticket], spawn: Spawn) -> None:
        if not going:
            return
        slots = [(ticket.occurrence, ticket.job) for ticket in going if ticket.job is not None]
        try:
            advanced = await self.advancer.advance_all(slots, going[0].holding.term)
        except asyncio.CancelledError:
            for ticket in going:
                self.holdings.remove(ticket.holding)
            raise
        except Exception:  # as above; what was advanced is found to be so
            for ticket in going:
                spawn(self._guard(ticket, partial(self._deliver, ticket)))
            return
        for ticket, done in zip(going, advanced, strict=True):
            spawn(self._guard(ticket, partial(self._send if done else self._give_back, ticket)))

    async def walk(self, ticket: Ticket) -> None:
        """One claimed entry, from the gate to its end."""
        await self._guard(ticket, partial(self._walk, ticket))

    async def _guard(self, ticket: Ticket, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except TermRefusedError:
            await self._give_back(ticket)
        except ScheduleError as error:
            self.emit(JobUnreadable(job_id=ticket.occurrence.job_id, error=error.message))
            await self.settle.release(ticket, delay_ms=MINUTE)
        except Exception as error:  # one entry's trouble must not reach the others; what was written so far is a valid stop
            self.emit(LineFailed(member=ticket.occurrence.member, error=f"{type(error).__name__}: {error}"))
            await self.settle.release(ticket, delay_ms=MINUTE)
        finally:
            self.holdings.remove(ticket.holding)
            self.budget.leave(ticket.holding)
            self.wake.freed()

    async def hand_over(self, holding: Holding, fence: int, term: int) -> None:
        """A running worker's own entry came up again under a newer fence: it goes on under that, or a new line begins."""
        occurrence = holding.occurrence
        while not await self.leases.take_over(holding, fence, term):
            other = self.holdings.get(occurrence.member)
            if other is None:
                break
            if other.fence >= fence:
                return
            holding = other
        else:
            await self._advance_again(occurrence, term)
            return
        now = self.clock.wall_ms()
        successor = Holding(occurrence=occurrence, fence=fence, term=term)
        self.holdings.add(successor)
        await self.walk(Ticket(occurrence=occurrence, holding=successor, due_at_ms=now, claimed_at_ms=now))

    async def _advance_again(self, occurrence: Occurrence, term: int) -> None:
        """Step 3 once more, under a newer lease; never before step 2."""
        if not occurrence.is_slot or await self.gate.run(occurrence) is None:
            return
        try:
            await self.advancer.advance(occurrence, await self.gate.job(occurrence), term)
        except ScheduleError as error:
            self.emit(JobUnreadable(job_id=occurrence.job_id, error=error.message))

    async def _walk(self, ticket: Ticket) -> None:
        admitted = await self._admit(ticket)
        if admitted is None:
            return
        if admitted.of_the_past and not self.budget.enter(admitted.holding):
            delay = self.holds.hold(admitted.occurrence.member, _PAST, self.budget.most)
            await self.settle.release(admitted, delay_ms=delay)
            return
        [(decision, opened)] = await self.opener.open([admitted])
        await self._go_on(decision, opened)

    async def _go_on(self, decision: OpenDecision, ticket: Ticket) -> None:
        match decision.kind:
            case OpenKind.OPENED:
                await self._deliver(ticket)
            case OpenKind.HELD | OpenKind.WAITING:
                await self._wait(decision, ticket)
            case OpenKind.STALE:
                return
            case OpenKind.FINISHED | OpenKind.COVERED | OpenKind.SKIPPED | OpenKind.SUPERSEDED:
                await self._close(ticket, decision.retry)

    async def _admit(self, ticket: Ticket) -> Ticket | None:
        """Gates 0 and 1, again from the start where somebody changed the job under way."""
        occurrence, term = ticket.occurrence, ticket.holding.term
        while self.authority.term == term:
            verdict, ticket = await self.gate.judge(ticket)
            if verdict is Verdict.OPEN:
                return ticket
            if verdict is Verdict.DROP:
                self.emit(EntryDropped(member=occurrence.member, reason="its job changed before it came up"))
                await self._ack(ticket)
                return None
            if verdict is Verdict.ENDED:
                await self._close(ticket, None)
                return None
            decided = await self.catchup.decide(ticket)
            if decided.kind is Decided.SELF:
                return replace(ticket, job=decided.job)
            if decided.kind is Decided.MOVED:
                await self.advancer.put_next(decided.job, occurrence, term)
                await self._ack(ticket)
                return None
        await self._give_back(ticket)
        return None

    async def _wait(self, decision: OpenDecision, ticket: Ticket) -> None:
        """Gives the entry back until there may be room; a run that waits in a row of its own lets its schedule go on."""
        occurrence, waiting, job = ticket.occurrence, decision.kind is OpenKind.WAITING, ticket.job
        # It may come up many times before its turn; its job is moved on once.
        stands = job is not None and (decision.write is not None or job.next_run_at_ms == occurrence.scheduled_at_ms)
        if waiting and occurrence.is_slot and stands and not await self.advancer.advance(occurrence, job, ticket.holding.term):
            await self._give_back(ticket)
            return
        scope = decision.scope or f"job:{occurrence.job_id}"
        if ticket.held_since_ms is None and job is not None:
            self.emit(RunHeld(occurrence=occurrence, job_name=job.spec.name, scope=scope, waiting=waiting))
        delay = self.holds.hold(occurrence.member, scope, self.opener.room(ticket, scope))
        await self.settle.release(ticket, delay_ms=delay, held=True)

    async def _deliver(self, ticket: Ticket) -> None:
        occurrence, holding = ticket.occurrence, ticket.holding
        if self.fast and occurrence.is_slot:
            beside = asyncio.ensure_future(self.advancer.advance(occurrence, ticket.job, holding.term))
            await self._send(ticket, lambda: beside)
            return
        if occurrence.is_slot and not await self.advancer.advance(occurrence, ticket.job, holding.term):
            await self._give_back(ticket)
            return
        await self._send(ticket)

    async def _send(self, ticket: Ticket, advanced: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Steps 5 to 7; ``advanced`` where steps 3 and 4 go on beside the delivery, to be waited for before the last."""
        self.holds.leave(ticket.occurrence.member)
        result = await self.worker.deliver(ticket)
        if result is None:
            if advanced is not None:
                await advanced()
            await self._give_back(ticket)
            return
        answer = await self.recorder.record(ticket, result)
        moved = advanced is None or await advanced()
        if isinstance(result.outcome, Failed) and result.outcome.pause is not None and answer.kind is not RecordKind.STALE:
            await self._pause(ticket, result.outcome.pause)
        # Of a stale result another holder decides; where the entry is ours all the same, nobody else delivers it again.
        if not moved or answer.kind is RecordKind.STALE or result.settlement.run is RunStatus.RUNNING:
            await self._give_back(ticket)
        else:
            await self.settle.ack(ticket, answer.retry)
        if len(self.holds):
            await self._make_room(ticket)

    async def _pause(self, ticket: Ticket, reason: str) -> None:
        """Pauses the ticket's job. What keeps it from that is told; the next slot's answer will ask for it again."""
        try:
            await self.pause(ticket.occurrence, reason)
        except CronpadError as error:
            self.emit(LineFailed(member=ticket.occurrence.member, error=f"its job could not be paused: {error.message}"))

    async def _give_back(self, ticket: Ticket) -> None:
        await self.settle.release(ticket, delay_ms=0)

    async def _close(self, ticket: Ticket, retry: RetryPlan | None) -> None:
        """Advance, then acknowledge: no slot's entry goes before its job has moved."""
        occurrence = ticket.occurrence
        if occurrence.is_slot and not await self.advancer.advance(occurrence, ticket.job, ticket.holding.term):
            await self._give_back(ticket)
            return
        await self._ack(ticket, retry)
        await self._make_room(ticket)

    async def _ack(self, ticket: Ticket, retry: RetryPlan | None = None) -> None:
        self.holds.leave(ticket.occurrence.member)
        await self.settle.ack(ticket, retry)

    async def _make_room(self, ticket: Ticket) -> None:
        """A run has ended, or waits for its retry: of each of its scopes, whoever has waited longest comes up now."""
        run = ticket.run
        if run is None or not len(self.holds):
            return
        spec = run.spec
        if ticket.of_the_past:
            self.budget.leave(ticket.holding)
        waiting = self.holds.first((*scopes_of(run.key.job_id, spec.workspace, spec.concurrency), _PAST))
        if waiting:
            await self.advancer.hurry(waiting, ticket.holding.term)
