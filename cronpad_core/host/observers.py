"""Plugins that listen: events from a bounded queue, beside the line, so that the slowest of them delays no run."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from cronpad_core.domain.events import Event
from cronpad_core.host.calls import HookCall, Overdue, call_within, run_in_thread, said_of

__all__ = ["STARTED_S", "STOPPING_S", "Observers", "tell_hook"]

STARTED_S: Final = 30.0
STOPPING_S: Final = 5.0
_FAILURES: Final = 5


@dataclass(slots=True)
class _Listener:
    """One implementation of ``cronpad_event`` and how it has behaved."""

    call: HookCall
    errors: int = 0
    in_a_row: int = 0
    quarantined: str = ""


class Observers:
    """Feeds ``cronpad_event``. Nothing is started before the first event, and nothing at all where no plugin listens.

    ``tell`` may be called from any thread and never waits: an event that finds the queue full is dropped and counted in
    ``dropped``. Listeners are called in order, one at a time, each with ``deadline_s``; one that fails five times in a row, or
    once does not come back, is quarantined: not called again, and said through ``report``.
    """

    def __init__(
        self,
        calls: Sequence[HookCall],
        *,
        report: Callable[[str], None],
        capacity: int = 4096,
        deadline_s: float = 5.0,
    ) -> None:
        self._listeners = tuple(_Listener(call) for call in calls)
        self._report = report
        self._deadline_s = deadline_s
        self._events: queue.Queue[Event | None] = queue.Queue(capacity)
        self._lock = threading.Lock()
        self._feeder: threading.Thread | None = None
        self._closed = False
        self.dropped = 0
        self.wanted = bool(self._listeners)

    @property
    def quarantined(self) -> Mapping[str, str]:
        """The plugins that are no longer called, each with the reason."""
        return {one.call.plugin: one.quarantined for one in self._listeners if one.quarantined}

    @property
    def errors(self) -> Mapping[str, int]:
        """How often each plugin's listener raised or did not come back."""
        return {one.call.plugin: one.errors for one in self._listeners if one.errors}

    def tell(self, event: Event) -> None:
        """Queues one event for all listeners, or drops it."""
        if not self.wanted or self._closed:
            return
        if self._feeder is None:
            self._start()
        try:
            self._events.put_nowait(event)
        except queue.Full:
            with self._lock:
                self.dropped += 1

    def close(self, within_s: float = 2.0) -> None:
        """Takes no more events and gives those that are queued ``within_s``; the rest is dropped and counted."""
        self._closed = True
        feeder = self._feeder
        if feeder is None:
            return
        with contextlib.suppress(queue.Full):
            self._events.put(None, timeout=within_s / 2)
            feeder.join(within_s / 2)
        if feeder.is_alive():
            self.dropped += self._events.qsize()

    def _start(self) -> None:
        with self._lock:
            if self._feeder is None:
                self._feeder = threading.Thread(target=self._feed, name="cronpad-observers", daemon=True)
                self._feeder.start()

    def _feed(self) -> None:
        while (event := self._events.get()) is not None:
            for listener in self._listeners:
                if not listener.quarantined:
                    self._tell_one(listener, event)
            if all(one.quarantined for one in self._listeners):
                self.wanted = False
                return

    def _tell_one(self, listener: _Listener, event: Event) -> None:
        try:
            call_within(self._deadline_s, partial(listener.call, {"event": event}))
        except Overdue as error:
            listener.errors += 1
            listener.quarantined = str(error)
        except BaseException as error:
            listener.errors += 1
            listener.in_a_row += 1
            if listener.in_a_row < _FAILURES:
                self._report(f"{listener.call.whose}: cronpad_event raised {said_of(error)}")
                return
            listener.quarantined = f"{_FAILURES} failures in a row, the last: {said_of(error)}"
        else:
            listener.in_a_row = 0
            return
        self._report(f"{listener.call.whose}: cronpad_event is no longer called: {listener.quarantined}")


async def tell_hook(calls: Sequence[HookCall], arguments: Mapping[str, object], *, deadline_s: float) -> tuple[str, ...]:
    """Calls each implementation once, in order, in a thread; answers one line for each that raised or hung, and raises nothing.

    For ``cronpad_started`` (:data:`STARTED_S`) and ``cronpad_stopping`` (:data:`STOPPING_S`).
    """
    lines: list[str] = []
    for call in calls:
        task = asyncio.ensure_future(_said_by(call, arguments))
        try:
            await asyncio.wait({task}, timeout=deadline_s)
        finally:
            late = not task.done()
            task.cancel()
        said = f"gave no answer within {deadline_s:g} s and is left behind" if late else task.result()
        if said is not None:
            lines.append(f"{call.whose}: {call.hook} {said}")
    return tuple(lines)


async def _said_by(call: HookCall, arguments: Mapping[str, object]) -> str | None:
    try:
        await run_in_thread(partial(call, arguments))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling() > 0:
            raise
        return "cancelled itself"
    # An exit that left this task would end the loop.
    except BaseException as error:
        return f"raised {said_of(error)}"
    return None
