"""The sink: one delivery is one call of a function."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar, TypeVar

from cronpad_core.api import Cancelled, Delivery, Failed, JsonValue, Outcome, SinkContext, TimedOut
from cronpad_python.answers import LeftError, Mask, raised, returned
from cronpad_python.settings import Settings as PythonSettings
from cronpad_python.target import Target, UnusableTarget, find_target

__all__ = ["PythonSink"]

_MASKED = "***"
_SECRET = "secret:"
Answer = TypeVar("Answer")


class PythonSink:
    """Calls a function per delivery; keeps nothing between deliveries but the tasks of those that are left behind."""

    name: ClassVar[str] = "python"
    api: ClassVar[int] = 1
    Settings: ClassVar[type[PythonSettings]] = PythonSettings
    capabilities: ClassVar[frozenset[str]] = frozenset({"graceful"})

    def __init__(self, context: SinkContext) -> None:
        self._secret = context.secret
        self._left: set[asyncio.Task[object]] = set()

    async def deliver(self, delivery: Delivery) -> Outcome:
        """Calls the function and answers how it ended."""
        settings = delivery.settings
        if not isinstance(settings, PythonSettings):
            raise TypeError(f"the settings of a function are not {type(settings).__name__}")
        if delivery.cancel.stage is not None:
            return Cancelled(reason=delivery.cancel.reason or "cancelled before it was called")
        secrets: list[str] = []
        mask = partial(_masked, secrets)
        try:
            # In a thread: an import may take long, and runs code of its own.
            target = await _in_a_thread(partial(find_target, settings.call, settings.runs_in))
            args = {name: self._resolved(value, secrets) for name, value in settings.args.items()}
            given = target.arguments(args, delivery)
        except UnusableTarget as error:
            return Failed(reason=mask(str(error)), retryable=False, undelivered=True)
        except Exception as error:
            failed = raised(error, mask)
            reason = f"{settings.call} could not be made ready: {failed.reason}"
            return Failed(reason=reason, retryable=False, undelivered=True, output=failed.output)
        return await self._see_through(target, _started(target, given), delivery, mask)

    async def close(self) -> None:
        """Nothing is kept open; a thread cannot be ended."""

    async def _see_through(self, target: Target, task: asyncio.Task[object], delivery: Delivery, mask: Mask) -> Outcome:
        stop = asyncio.ensure_future(delivery.cancel.wait())
        try:
            await asyncio.wait({task, stop}, timeout=delivery.timeout_ms / 1_000, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return _outcome(task, mask)
            timed_out = not stop.done()
            if target.is_async:
                task.cancel()
            await self._grace(target, task, delivery, timed_out=timed_out)
        finally:
            stop.cancel()
            if not task.done():
                self._leave(task)
        reason = f"timed out after {delivery.timeout_ms / 1_000:g} s" if timed_out else delivery.cancel.reason or "cancelled"
        kind = TimedOut if timed_out else Cancelled
        if task.done():
            ended = None if task.cancelled() else _outcome(task, mask)
            return kind(reason=reason, facts=ended.facts if ended else {}, output=ended.output if ended else ())
        why = "it did not end when it was cancelled" if target.is_async else "a thread cannot be killed"
        return kind(reason=f"{reason}; {why}, and it was abandoned", facts={"abandoned": True})

    async def _grace(self, target: Target, task: asyncio.Task[object], delivery: Delivery, *, timed_out: bool) -> None:
        """Waits for a function that knows that it should end; a thread does not know of its timeout."""
        if timed_out and not target.is_async:
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + delivery.kill_grace_ms / 1_000
        while not task.done() and delivery.cancel.stage != "kill" and (left := until - loop.time()) > 0:
            harder = asyncio.ensure_future(delivery.cancel.wait())
            await asyncio.wait({task, harder}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            harder.cancel()
        if target.is_async and not task.done():
            # Killed before it could take its cancellation: one turn of the loop is enough for a function that heeds it.
            await asyncio.wait({task}, timeout=0.1)

    def _leave(self, task: asyncio.Task[object]) -> None:
        task.cancel()
        self._left.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # seen by nobody else: its run is over

    def _resolved(self, value: JsonValue, secrets: list[str]) -> JsonValue:
        if isinstance(value, dict):
            return {name: self._resolved(one, secrets) for name, one in value.items()}
        if isinstance(value, list):
            return [self._resolved(one, secrets) for one in value]
        if isinstance(value, str) and value.startswith(_SECRET):
            found = self._secret(value)
            # Twice: in a result it stands as JSON writes it.
            secrets += (found, json.dumps(found, ensure_ascii=False)[1:-1])
            return found
        return value


def _started(target: Target, given: dict[str, object]) -> asyncio.Task[object]:
    call = partial(target.function, **given)
    return asyncio.ensure_future(_awaited(call) if target.is_async else _in_thread(call))


def _called(call: Callable[[], Answer]) -> Answer:
    try:
        return call()
    except (SystemExit, KeyboardInterrupt) as error:
        # A task hands these on to whoever runs the loop: the runner would end with the function.
        raise LeftError(error) from error


async def _in_thread(call: Callable[[], object]) -> object:
    """What a plain function returns may be a coroutine all the same: a decorator hides what it wraps."""
    answer = await _in_a_thread(call)
    return await _awaited(lambda: answer)


async def _in_a_thread(call: Callable[[], Answer]) -> Answer:
    # Not at the top: whoever only reads a jobs file needs nothing of what runs one, which takes a tenth of a second.
    from cronpad_core.app import run_in_thread

    return await run_in_thread(partial(_called, call))


async def _awaited(call: Callable[[], object]) -> object:
    try:
        answer = call()
        return await answer if isinstance(answer, Awaitable) else answer
    except (SystemExit, KeyboardInterrupt) as error:
        raise LeftError(error) from error


def _outcome(task: asyncio.Task[object], mask: Mask) -> Outcome:
    if task.cancelled():
        return Failed(reason="it cancelled itself", facts={"exception": "CancelledError"})
    error = task.exception()
    return returned(task.result(), mask) if error is None else raised(error, mask)


def _masked(secrets: list[str], text: str) -> str:
    for one in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(one, _MASKED)
    return text
