"""Broken limits, queues, cancellations and catch-ups that the simulation must catch, as parts of a history or of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from world import Process

from cronpad_core.builtin.memory_history import MemoryHistory
from cronpad_core.domain.admission import OpenDecision, OpenRequest, OpenSnapshot
from cronpad_core.domain.limits import month_of
from cronpad_core.domain.run import Run
from cronpad_core.domain.timing import HOUR
from cronpad_core.engine.recorder import Recorder
from cronpad_core.ports.asked import PendingAnswer, PendingRequest
from cronpad_core.ports.catalog import JobWrite
from cronpad_core.ports.history import RecordAnswer, RecordKind, RecordRequest
from cronpad_core.ports.keeping import CutRequest
from cronpad_core.runtime.compose import Engine

__all__ = [
    "counts_again",
    "forgets_bounds",
    "forgets_who_is_held",
    "hasty",
    "history",
    "keeps_its_place",
    "no_caps",
    "no_count",
    "no_cuts",
    "no_marks",
    "no_overlap",
    "no_quota",
    "no_tokens",
    "overtakes",
]


def history(kind: type[MemoryHistory]) -> Callable[[Any, Process], Any]:
    """Puts another kind of history in the place of the right one."""

    def change(store: Any, process: Process) -> Any:
        if type(store) is MemoryHistory:
            store.__class__ = kind
        return store

    return change


class _NoCaps(MemoryHistory):
    def _open_run(self, request: OpenRequest) -> OpenDecision:
        return super()._open_run(replace(request, limits=()))


class _NoQuota(MemoryHistory):
    def _open_run(self, request: OpenRequest) -> OpenDecision:
        return super()._open_run(replace(request, quota=None))


class _NoOverlap(MemoryHistory):
    def _seen(self, request: OpenRequest) -> OpenSnapshot:
        return replace(super()._seen(request), running_others=0)


class _Overtakes(MemoryHistory):
    def _seen(self, request: OpenRequest) -> OpenSnapshot:
        return replace(super()._seen(request), waiting_before=0)


class _NoMarks(MemoryHistory):
    def _replace_running(self, run: Run) -> None:
        """Nobody is asked to end."""


class _NoCount(MemoryHistory):
    def _open_run(self, request: OpenRequest) -> OpenDecision:
        used = self._data.used.copy()
        decision = super()._open_run(request)
        self._data.used = used
        return decision


class _CountsAgain(MemoryHistory):
    def _open_run(self, request: OpenRequest) -> OpenDecision:
        decision = super()._open_run(request)
        if decision.redelivery:
            self._data.used[request.spec.workspace, month_of(request.now_ms)] += 1
        return decision


class _NoTokens(MemoryHistory):
    def _add_pending(self, request: PendingRequest) -> PendingAnswer:
        self._data.of_job(request.job_id).tokens.clear()
        return super()._add_pending(request)


class _NoCuts(MemoryHistory):
    def _cut(self, request: CutRequest) -> list[Any]:
        return []


no_caps, no_quota, no_overlap, overtakes = map(history, (_NoCaps, _NoQuota, _NoOverlap, _Overtakes))
no_marks, no_count, counts_again, no_tokens = map(history, (_NoMarks, _NoCount, _CountsAgain, _NoTokens))
no_cuts = history(_NoCuts)


class _Hasty(Recorder):
    """Answers once the result is on its way, not once it is written."""

    async def _store(self, request: RecordRequest) -> RecordAnswer:
        loop = asyncio.get_running_loop()
        self._waiting.append((request, loop.create_future()))
        if len(self._waiting) == 1:
            loop.call_later(0.05, self._flush)
        return RecordAnswer(kind=RecordKind.RECORDED, status=request.status, retry=request.retry)


def hasty(engine: Engine) -> Engine:
    """Results are acknowledged before the batch that they wait for is written."""
    engine.line.recorder.__class__ = _Hasty
    return engine


def forgets_who_is_held(engine: Engine) -> Engine:
    """Whoever is given back for want of room comes up when nobody remembers why."""
    engine.line.holds.hold = lambda member, scope, cap: HOUR  # type: ignore[method-assign]  # that is the mutation
    engine.line.holds.first = lambda scopes: []  # type: ignore[method-assign]  # that is the mutation
    return engine


def keeps_its_place(engine: Engine) -> Engine:
    """What was of the past never gives its place in the budget back."""
    engine.budget.leave = lambda holding: None  # type: ignore[method-assign]  # that is the mutation
    return engine


def forgets_bounds(engine: Engine) -> Engine:
    """After the clock was set back, versions still reach to where it had been."""
    write = engine.rewinder._catalog.write

    class Forgetful:
        def __getattr__(self, name: str) -> Any:
            return getattr(engine.catalog, name)

        async def write(self, writes: Sequence[JobWrite], *, term: int | None) -> None:
            await write([replace(one, amends=()) for one in writes], term=term)

    engine.rewinder._catalog = Forgetful()  # type: ignore[assignment]  # that is the mutation
    return engine
