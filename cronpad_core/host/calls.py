"""One hook implementation as something to call: with a deadline, in a thread that nobody waits for at exit, and traced."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

__all__ = ["HookCall", "Overdue", "Trace", "call_within", "run_in_thread", "said_of"]

Answer = TypeVar("Answer")
Trace: TypeAlias = "Callable[[str, str, float, str | None], None]"
"""Told of each hook call: the hook, the plugin, how many milliseconds it took, and what it raised."""


class Overdue(Exception):
    """A plugin's code did not come back within its deadline; its thread is left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """One plugin's implementation of one hook; ``accepts`` are the arguments that it declared."""

    hook: str
    plugin: str
    function: Callable[..., object]
    accepts: frozenset[str]
    trace: Trace | None = None
    distribution: str = ""

    @property
    def whose(self) -> str:
        """``plugin pager (cronpad-pager)``."""
        return f"plugin {self.plugin}" + (f" ({self.distribution})" if self.distribution else "")

    def __call__(self, arguments: Mapping[str, object]) -> object:
        """Calls it with those of the arguments that it wants. Raises whatever it raises."""
        wanted = {name: value for name, value in arguments.items() if name in self.accepts}
        if self.trace is None:
            return self.function(**wanted)
        raised: str | None = None
        started = time.perf_counter()
        try:
            return self.function(**wanted)
        except BaseException as error:
            raised = said_of(error)
            raise
        finally:
            self.trace(self.hook, self.plugin, (time.perf_counter() - started) * 1000, raised)


def said_of(error: BaseException) -> str:
    """``ValueError: bad port``, in one line, even of an exception that cannot be printed."""
    kind = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = "(its message cannot be read)"
    return f"{kind}: {text}" if text else kind


def call_within(seconds: float, function: Callable[[], Answer]) -> Answer:
    """The function's answer, or what it raises; :class:`Overdue` after ``seconds``. The calling thread waits."""
    # A thread of its own each time: daemon, because a hung one must not keep the process from ending.
    done = threading.Event()
    answer: list[Answer] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            answer.append(function())
        except BaseException as error:
            raised.append(error)
        finally:
            done.set()

    threading.Thread(target=contextvars.copy_context().run, args=(work,), name="cronpad-hook", daemon=True).start()
    if not done.wait(seconds):
        raise Overdue(f"no answer within {seconds:g} s")
    if raised:
        if isinstance(raised[0], KeyboardInterrupt):
            # Never the user's: an interrupt from the keyboard arrives in the main thread.
            raise RuntimeError("KeyboardInterrupt was raised by the plugin itself") from raised[0]
        raise raised[0]
    return answer[0]


async def run_in_thread(function: Callable[[], Answer], *, ended: Callable[[], None] | None = None) -> Answer:
    """The function's answer from a daemon thread; cancelling frees the caller while the thread goes on.

    ``ended`` is called on the loop when the thread is over, whether or not anybody still waits for its answer.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[list[Answer], BaseException | None]] = loop.create_future()

    def settle(answer: list[Answer], error: BaseException | None) -> None:
        if ended is not None:
            ended()
        if not future.done():
            # As a value, not as the future's exception: a future refuses StopIteration and warns of unread ones.
            future.set_result((answer, error))

    def work() -> None:
        answer: list[Answer] = []
        error: BaseException | None = None
        try:
            answer.append(function())
        except BaseException as caught:
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(settle, answer, error)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), name="cronpad-plugin", daemon=True).start()
    answer, error = await future
    if error is not None:
        raise error
    return answer[0]
