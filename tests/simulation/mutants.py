"""Broken protocols that the simulation must catch: a simulator that finds nothing proves nothing.

Each is a way to build a process with one rule left out: ``store`` replaces a store, ``engine`` a part of the engine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import mutants_limits as limits
from world import Process

from cronpad_core.builtin.memory_catalog import TermCell
from cronpad_core.builtin.memory_queue import MemoryQueue
from cronpad_core.domain.job import Job
from cronpad_core.domain.run import Run, RunStatus
from cronpad_core.engine.job_cache import JobCache
from cronpad_core.engine.ticket import Holding, Ticket
from cronpad_core.ports.history import RecordKind
from cronpad_core.ports.queue import Claimed, Entry, Lease, LeaseState
from cronpad_core.runtime.compose import Engine
from cronpad_core.runtime.line import Line

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One rule left out, the rules of which any may catch it, and the only faults that the storms have (none: any)."""

    caught_by: frozenset[str]
    kinds: tuple[str, ...] = ()
    store: Callable[[Any, Process], Any] = lambda store, process: store
    engine: Callable[[Engine], Engine] = lambda engine: engine


def _caught(*rules: str) -> frozenset[str]:
    return frozenset(rules)


# --- stores -----------------------------------------------------------------------------------------------------------------------
class _Instead:
    """A store of which some methods are replaced."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _AnyFenceAcks(_Instead):
    async def ack(self, lease: Lease, *, retry: Entry | None = None) -> LeaseState:
        file = self._inner._opened
        if lease.member not in file.inflight and lease.member not in file.due:
            return LeaseState.LOST
        file.drop(lease.member)
        if retry is not None:
            file.put(retry)
        return LeaseState.DONE


class _Unsorted(_Instead):
    async def claim(self, **rest: Any) -> list[Claimed]:
        claimed = await self._inner.claim(**rest)
        random.Random(len(claimed)).shuffle(claimed)
        return claimed


class _CounterFence(_Instead):
    """A fence counted in the queue's file alone, which begins again when the file is lost."""

    async def claim(self, *, limit: int, fence_from: int, **rest: Any) -> list[Claimed]:
        file = self._inner._opened
        counted = max((held.fence for held in file.inflight.values()), default=0)
        return await self._inner.claim(limit=limit, fence_from=counted + 1, **rest)


class _AnyTermQueue(MemoryQueue):
    def _under(self, term: int) -> Any:
        return self._opened


class _AnyTermCell(TermCell):
    __slots__ = ()

    def require(self, term: int) -> None:
        """Whatever the caller says."""


class _AnyFenceRecords(_Instead):
    """Results are taken whoever brings them."""

    async def record(self, requests: Sequence[Any]) -> Any:
        runs = self._inner._data.runs
        claimed = []
        for request in requests:
            run = runs.get(request.key)
            fence = request.attempt.fence if run is None else run.fence
            claimed.append(replace(request, attempt=replace(request.attempt, fence=fence)))
        return await self._inner.record(claimed)


def _queue(kind: type[_Instead]) -> Callable[[Any, Process], Any]:
    return lambda store, process: kind(store) if isinstance(store, MemoryQueue) else store


def _any_term(store: Any, process: Process) -> Any:
    if isinstance(store, MemoryQueue):
        return _AnyTermQueue(process.world.state.queue)
    process.world.state.catalog.term.__class__ = process.world.state.history.term.__class__ = _AnyTermCell
    return store


def _any_record(store: Any, process: Process) -> Any:
    return _AnyFenceRecords(store) if hasattr(store, "open_runs") else store


# --- lines ------------------------------------------------------------------------------------------------------------------------
def _line(kind: type[Line]) -> Callable[[Engine], Engine]:
    return lambda engine: replace(engine, line=kind(**{one.name: getattr(engine.line, one.name) for one in fields(Line)}))


class _AckFirst(Line):
    async def _deliver(self, ticket: Ticket) -> None:
        occurrence = ticket.occurrence
        if occurrence.is_slot and not await self.advancer.advance(occurrence, ticket.job, ticket.holding.term):
            return
        result = await self.worker.deliver(ticket)
        if result is not None:
            await self.settle.ack(ticket, result.settlement.retry)
            await self.recorder.record(ticket, result)


class _AdvanceFirst(Line):
    async def _walk(self, ticket: Ticket) -> None:
        admitted = await self._admit(ticket)
        if admitted is not None:
            if admitted.occurrence.is_slot:
                await self.advancer.advance(admitted.occurrence, admitted.job, admitted.holding.term)
            [(decision, admitted)] = await self.opener.open([admitted])
            await self._go_on(decision, admitted)


class _FinishedWithoutAdvance(Line):
    async def _close(self, ticket: Ticket, retry: Any) -> None:
        await self.settle.ack(ticket, retry)


class _HandOverAdvances(Line):
    async def hand_over(self, holding: Holding, fence: int, term: int) -> None:
        if await self.leases.take_over(holding, fence, term) and holding.occurrence.is_slot:
            await self.advancer.advance(holding.occurrence, await self.gate.job(holding.occurrence), term)


class _StaleIsAcked(Line):
    """What another holder recorded is acknowledged as if it were ours, and interrupted attempts too."""

    async def _deliver(self, ticket: Ticket) -> None:
        if ticket.occurrence.is_slot:
            await self.advancer.advance(ticket.occurrence, ticket.job, ticket.holding.term)
        result = await self.worker.deliver(ticket)
        if result is not None:
            answer = await self.recorder.record(ticket, result)
            if answer.kind is not RecordKind.STALE or result.settlement.run is RunStatus.RUNNING:
                await self.settle.ack(ticket, answer.retry)


# --- parts ------------------------------------------------------------------------------------------------------------------------
def _without(part: str, method: str, answer: object) -> Callable[[Engine], Engine]:
    """The engine with one method that does nothing."""

    async def nothing(*args: object, **rest: object) -> object:
        return answer

    def change(engine: Engine) -> Engine:
        setattr(getattr(engine, part), method, nothing)
        return engine

    return change


def _no_ranges(engine: Engine) -> Engine:
    engine.line.catchup._ranges = lambda *args: []  # type: ignore[method-assign]  # that is the mutation
    return engine


def _impatient(engine: Engine) -> Engine:
    engine.dispatcher._allowed = lambda sight: True  # type: ignore[method-assign]  # that is the mutation
    return engine


def _trustful(engine: Engine) -> Engine:
    """Trusts its lock until somebody says no, however long it slept."""
    authority = engine.authority
    authority.trusted = lambda: authority.term is not None  # type: ignore[method-assign]  # that is the mutation
    return engine


class _Forgetful(JobCache):
    """Remembers every answer, whatever happened while it was on its way."""

    def _end(self, job_id: str, job: Job | None) -> None:
        self._doubtful.clear()
        super()._end(job_id, job)


def _old_answers(engine: Engine) -> Engine:
    engine.catalog.__class__ = _Forgetful
    return engine


def _redelivers_finished(store: Any, process: Process) -> Any:
    """Opens a run again although it has ended."""
    if not hasattr(store, "open_runs"):
        return store

    class Again(_Instead):
        async def open_runs(self, requests: Sequence[Any]) -> Any:
            for request in requests:
                run: Run | None = self._inner._data.runs.get(request.occurrence.key)
                if run is not None and run.status.terminal:
                    again = replace(run, status=RunStatus.RUNNING, fence=request.fence)
                    self._inner._data.set_run(again, keep=10**9)
            return await self._inner.open_runs(requests)

    return Again(store)


MUTANTS: dict[str, Mutant] = {
    "no fence on ack": Mutant(store=_queue(_AnyFenceAcks), caught_by=_caught("S6", "S14"), kinds=("freeze", "leases", "slow")),
    "ack before record": Mutant(engine=_line(_AckFirst), caught_by=_caught("S14")),
    "advance before row": Mutant(engine=_line(_AdvanceFirst), caught_by=_caught("order")),
    "finished without advance": Mutant(engine=_line(_FinishedWithoutAdvance), caught_by=_caught("S13")),
    "rebuild without runs": Mutant(engine=_without("reconciler", "_runs", 0), caught_by=_caught("L2", "no outcome")),
    "no term check": Mutant(store=_any_term, caught_by=_caught("S6")),
    "counter-only fence": Mutant(store=_queue(_CounterFence), caught_by=_caught("S5")),
    "claims out of order": Mutant(store=_queue(_Unsorted), caught_by=_caught("Q2", "S5")),
    "no fence on record": Mutant(store=_any_record, caught_by=_caught("S6"), kinds=("freeze", "slow")),
    "a hand-over advances before the row": Mutant(
        engine=_line(_HandOverAdvances), caught_by=_caught("order", "L2"), kinds=("leases", "trouble", "slow")
    ),
    "interrupted is acknowledged": Mutant(engine=_line(_StaleIsAcked), caught_by=_caught("S14"), kinds=("stop",)),
    "no missed ranges": Mutant(engine=_no_ranges, caught_by=_caught("order")),
    "no dropped ranges": Mutant(engine=_without("reconciler", "_drop_ended", None), caught_by=_caught("no outcome")),
    "no repair": Mutant(engine=_without("reconciler", "_put_missing", 0), caught_by=_caught("L1", "S2", "L2", "no outcome")),
    "takes the lock at once": Mutant(engine=_impatient, caught_by=_caught("two holders"), kinds=("freeze", "slow")),
    "trusts for ever": Mutant(engine=_trustful, caught_by=_caught("two holders"), kinds=("freeze",)),
    "old answers of the catalogue": Mutant(engine=_old_answers, caught_by=_caught("S13"), kinds=("edit", "slow")),
    "finished runs are opened again": Mutant(
        store=_redelivers_finished, caught_by=_caught("S3"), kinds=("kill", "trouble", "queue old")
    ),
    "caps are ignored": Mutant(store=limits.no_caps, caught_by=_caught("cap")),
    "overlap is ignored": Mutant(store=limits.no_overlap, caught_by=_caught("cap", "S11")),
    "who waits is overtaken": Mutant(store=limits.overtakes, caught_by=_caught("overtaken")),
    "nobody is marked to make way": Mutant(store=limits.no_marks, caught_by=_caught("marks")),
    "the quota is not counted": Mutant(store=limits.no_count, caught_by=_caught("S12")),
    "a redelivery counts for the quota": Mutant(store=limits.counts_again, caught_by=_caught("S12"), kinds=("kill", "workspace")),
    "the quota blocks nothing": Mutant(store=limits.no_quota, caught_by=_caught("quota"), kinds=("workspace", "kill")),
    "a token is forgotten": Mutant(store=limits.no_tokens, caught_by=_caught("token"), kinds=("trigger", "retry")),
    "acknowledged while its batch waits": Mutant(engine=limits.hasty, caught_by=_caught("S14")),
    "who is held is forgotten": Mutant(
        engine=limits.forgets_who_is_held, caught_by=_caught("L1", "L2", "L4", "no outcome", "backfill", "audit")
    ),
    "a place in the budget is kept": Mutant(
        engine=limits.keeps_its_place,
        caught_by=_caught("L2", "no outcome", "backfill", "audit", "L4"),
        kinds=("backfill", "clock forward"),
    ),
    "moved back without cutting ranges": Mutant(
        store=limits.no_cuts, caught_by=_caught("ahead"), kinds=("clock forward", "clock back", "slow")
    ),
    "moved back without cutting versions": Mutant(
        engine=limits.forgets_bounds,
        caught_by=_caught("no outcome", "audit", "ledger"),
        kinds=("clock back", "edit", "pause", "resume"),
    ),
}
