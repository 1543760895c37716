"""An event loop that never waits: when everything sleeps, its time jumps to the next timer."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

__all__ = ["VirtualDeadlockError", "VirtualLimitError", "VirtualLoop"]

_Ts = TypeVarTuple("_Ts")
_T = TypeVar("_T")

_SPINS = 1_000_000
_RESOLUTION = 1e-5
"""Timers nearer than this are due: wide enough that decades of virtual seconds still add up in a float."""


class VirtualDeadlockError(RuntimeError):
    """Nothing is ready and no timer is set, so nothing can ever happen again; names what each task waits in."""


class VirtualLimitError(RuntimeError):
    """Virtual time passed the limit, or the loop turned a million times without time moving."""


class _Shuffled(deque[Any]):
    """A ready queue that hands out any of its entries, as the seed has it."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = random.Random(seed)

    def popleft(self) -> Any:
        if len(self) > 1:
            self.rotate(-self._rng.randrange(len(self)))
        return super().popleft()


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs tasks in virtual seconds from 0; the same seed gives the same run.

    With a ``seed`` the ready callbacks run in an order drawn from it, else in asyncio's own. ``run_in_executor`` (and with it
    ``asyncio.to_thread``) calls the function on the loop, as one step. There are no sockets, pipes, signals or children.
    ``call_soon_threadsafe`` works from the loop's own thread only: another thread would have to be waited for in real time.
    """

    def __init__(self, *, seed: int | None = None, limit_s: float | None = None) -> None:
        super().__init__()
        self._now = 0.0
        self._limit = limit_s
        self._spins = 0
        self._clock_resolution = _RESOLUTION
        self._selector = self
        self._home = threading.get_ident()
        if seed is not None:
            self._ready: deque[Any] = _Shuffled(seed)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Stands in for the selector: instead of waiting it moves time to the next timer."""
        if timeout is None:
            raise VirtualDeadlockError(_stuck(self))
        if timeout <= 0:
            self._spins += 1
            if self._spins > _SPINS:
                raise VirtualLimitError(f"the loop turned {_SPINS} times at {self._now:.3f} s; something spins\n{_stuck(self)}")
            return []
        self._spins = 0
        # Whole microseconds, or the errors of a long sum of floats would show as lost milliseconds.
        self._now = max(self._now, round(self._scheduled[0].when(), 6))  # type: ignore[attr-defined]  # asyncio's own heap of timers
        if self._limit is not None and self._now > self._limit:
            raise VirtualLimitError(f"virtual time passed {self._limit:.3f} s\n{_stuck(self)}")
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There is nothing that could become readable."""

    def _write_to_self(self) -> None:
        """Nobody else waits for this loop."""

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As ``call_soon``; refused from another thread."""
        if threading.get_ident() != self._home:
            raise RuntimeError("a virtual loop cannot be called from another thread: its time would depend on real time")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: object, func: Callable[[Unpack[_Ts]], _T], *args: *_Ts) -> asyncio.Future[_T]:
        """Calls ``func`` on the loop as a step of its own."""
        future: asyncio.Future[_T] = self.create_future()

        def call() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except StopIteration as error:
                future.set_exception(RuntimeError(f"{error!r} cannot be raised into a future"))
            except Exception as error:
                future.set_exception(error)

        self.call_soon(call)
        return future


def _stuck(loop: asyncio.AbstractEventLoop) -> str:
    lines = ["nothing is ready and no timer is set" if not getattr(loop, "_scheduled", None) else "these tasks are alive:"]
    for task in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()):
        stack = task.get_stack(limit=1)
        where = f"{stack[0].f_code.co_filename}:{stack[0].f_lineno}" if stack else "not started"
        lines.append(f"  {task.get_name()} waits in {task.get_coro()!r} at {where}")
    return "\n".join(lines)
