"""A storage, or a sink, that fails on demand: shipped code needs no fail points, because every port call is one.

A *step* is a call of a port: ``queue.claim``, ``history.open_runs``, ``sink.deliver``. ``STEPS`` has them all.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from cronpad_core.api import CatalogStore, HistoryStore, QueueStore, Sink, Storage, StoreError

__all__ = ["STEPS", "Action", "Call", "Plan", "Trip", "Tripwire", "freezes", "kills", "raises", "sleeps", "stops"]

Action: TypeAlias = Callable[[], Awaitable[None]]
"""What happens at a step."""


@dataclass(frozen=True, slots=True)
class Call:
    """One side of one call: the ``number``-th of its step, counted from 1, ``after`` it was applied or before."""

    step: str
    number: int
    after: bool


Plan: TypeAlias = Callable[[Call], Action | None]
"""Decides what happens at a call; ``None`` lets it pass."""


def _steps(prefix: str, port: type) -> list[str]:
    return [
        f"{prefix}.{name}"
        for name, member in inspect.getmembers(port, inspect.iscoroutinefunction)
        if not name.startswith("_") and callable(member)
    ]


STEPS: Final[tuple[str, ...]] = (
    *_steps("storage", Storage),
    *_steps("queue", QueueStore),
    *_steps("catalog", CatalogStore),
    *_steps("history", HistoryStore),
    *_steps("sink", Sink),
)
"""Every step, read off the ports: a new port method is a new step without a line here."""


def raises(error: BaseException) -> Action:
    """Raises ``error``: before the call nothing was applied, after it the caller does not learn that it was."""

    async def act() -> None:
        raise error

    return act


def kills() -> Action:
    """Ends this process at once, with nothing flushed (SIGKILL)."""
    return _signals(signal.SIGKILL)


def stops() -> Action:
    """Freezes this process until somebody sends it SIGCONT."""
    return _signals(signal.SIGSTOP)


def _signals(number: signal.Signals) -> Action:
    async def act() -> None:
        os.kill(os.getpid(), number)

    return act


def sleeps(duration_ms: int) -> Action:
    """Makes the call slow, by the time of the loop that runs it."""

    async def act() -> None:
        await asyncio.sleep(duration_ms / 1_000)

    return act


def freezes(until: asyncio.Event) -> Action:
    """Makes the call hang until the event is set, which may be never: in a simulation, how a process dies or stops at a step."""

    async def act() -> None:
        await until.wait()

    return act


@dataclass(frozen=True, slots=True)
class Trip:
    """An action at one side of the ``number``-th call of a step."""

    step: str
    action: Action
    number: int = 1
    after: bool = False

    def __post_init__(self) -> None:
        if self.step not in STEPS:
            raise ValueError(f"no such step: {self.step!r}; steps are {', '.join(STEPS)}")
        if self.number < 1:
            raise ValueError("calls are counted from 1")

    @classmethod
    def parse(cls, text: str) -> Trip:
        """Reads ``queue.claim#3/after/kill``; the last word is ``kill``, ``stop``, ``fail`` or ``sleep=MILLISECONDS``."""
        place, _, rest = text.partition("/")
        side, _, what = rest.partition("/")
        step, _, number = place.partition("#")
        verb, _, amount = what.partition("=")
        verbs: dict[str, Callable[[], Action]] = {
            "kill": kills,
            "stop": stops,
            "fail": lambda: raises(StoreError(f"tripped at {place}")),
            "sleep": lambda: sleeps(int(amount)),
        }
        if side not in ("before", "after") or verb not in verbs:
            raise ValueError(f"not a trip: {text!r}; write queue.claim#3/after/kill")
        return cls(step, verbs[verb](), int(number or 1), side == "after")


@dataclass(slots=True)
class Tripwire:
    """Watches over the calls of what it wraps. ``calls`` counts them by step, ``fired`` lists where something happened.

    Give it ``trips``, a ``plan`` for anything else (a seeded one, say), or both. ``between`` is awaited on both sides of each
    call: with ``lambda: asyncio.sleep(0)`` every port call is a scheduling point, in memory too.
    """

    trips: tuple[Trip, ...] = ()
    plan: Plan | None = None
    between: Action | None = None
    calls: Counter[str] = field(default_factory=Counter)
    fired: list[Call] = field(default_factory=list)

    def storage(self, inner: Storage) -> Storage:
        """The storage with all its stores under watch; everything else of it is as it was."""
        stores = {name: _Watched(self, name, getattr(inner, name), {}) for name in ("queue", "catalog", "history")}
        return cast("Storage", _Watched(self, "storage", inner, stores))

    def sink(self, inner: Sink) -> Sink:
        """The sink under watch. Its ``deliver`` is a coroutine function, also where the inner one runs in a thread."""
        return cast("Sink", _Watched(self, "sink", inner, {}))

    async def run(self, step: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Makes a call with both its sides watched."""
        self.calls[step] += 1
        number = self.calls[step]
        await self._pass(Call(step, number, after=False))
        answer = await call()
        await self._pass(Call(step, number, after=True))
        return answer

    async def _pass(self, call: Call) -> None:
        if self.between is not None:
            await self.between()
        actions = [
            trip.action for trip in self.trips if (trip.step, trip.number, trip.after) == (call.step, call.number, call.after)
        ]
        planned = None if self.plan is None else self.plan(call)
        if planned is not None:
            actions.append(planned)
        for action in actions:
            self.fired.append(call)
            await action()


class _Watched:
    """Stands before an object and lets each of its steps pass the wire."""

    def __init__(self, wire: Tripwire, prefix: str, inner: Any, parts: dict[str, Any]) -> None:
        self._wire, self._prefix, self._inner = wire, prefix, inner
        for name, part in parts.items():
            setattr(self, name, part)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        step = f"{self._prefix}.{name}"
        if step not in STEPS:
            return found
        wire = self._wire

        async def watched(*args: Any, **kwargs: Any) -> Any:
            if inspect.iscoroutinefunction(found):
                return await wire.run(step, lambda: found(*args, **kwargs))
            return await wire.run(step, lambda: asyncio.to_thread(found, *args, **kwargs))

        return watched
