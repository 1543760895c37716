"""Waiting for the end of a run, on behalf of somebody who asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from cronpad_core.domain.errors import ConfigurationError, NotFoundError, NotRunningError, StoreBusyError, StoreError
from cronpad_core.domain.events import Event
from cronpad_core.domain.run import Attempt, Run
from cronpad_core.domain.timing import SECOND, JsonValue, Millis, rfc3339
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import HistoryStore

__all__ = ["RunEnds"]

_LOOK_MS: Final[Millis] = SECOND


class RunEnds:
    """Looks when the engine says that something became of the run, and once a second: some ends are told by nobody."""

    def __init__(self, history: HistoryStore, clock: Clock) -> None:
        self._history = history
        self._clock = clock
        self._bells: dict[str, set[asyncio.Event]] = {}
        self._releases = 0

    def heard(self, event: Event) -> None:
        """Rings for those who wait for the run that the event is about."""
        for bell in self._bells.get(getattr(event, "run_id", None) or "", ()):
            bell.set()

    def release(self) -> None:
        """Ends all waiting."""
        self._releases += 1
        for bells in self._bells.values():
            for bell in bells:
                bell.set()

    async def wait(self, arguments: Mapping[str, JsonValue], gone: Callable[[], bool], released: str) -> dict[str, JsonValue]:
        """The run ``run_id`` once it has ended, or as it stands after ``timeout_ms``, if that is given.

        Raises ``NotFoundError``, ``ConfigurationError``, ``StoreError``, ``NotRunningError`` once released, ``OSError`` once gone.
        """
        run_id, timeout_ms = _read(arguments)
        end_ms = None if timeout_ms is None else self._clock.boot_ms() + timeout_ms
        releases, bell = self._releases, asyncio.Event()
        self._bells.setdefault(run_id, set()).add(bell)
        try:
            while True:
                bell.clear()
                run = await self._look(run_id)
                left_ms = _LOOK_MS if end_ms is None else end_ms - self._clock.boot_ms()
                if run is not None and (run.status.terminal or left_ms <= 0):
                    attempts = await self._history.attempts(run.id)
                    return _document(run, attempts[-1] if attempts else None)
                if run is None and left_ms <= 0:
                    raise StoreBusyError("history does not answer at the moment", hint="'cronpad health' says more")
                if self._releases != releases:
                    raise NotRunningError(released, hint="the run goes on with the next process that dispatches")
                if gone():
                    raise ConnectionResetError("the client has gone")
                try:
                    async with asyncio.timeout(min(_LOOK_MS, max(left_ms, 1)) / 1000):
                        await bell.wait()
                except TimeoutError:
                    continue
        finally:
            self._bells[run_id].discard(bell)
            if not self._bells[run_id]:
                del self._bells[run_id]

    async def _look(self, run_id: str) -> Run | None:
        """The run as stored; ``None`` while history does not answer."""
        try:
            run = await self._history.run_by_id(run_id)
        except StoreError:
            return None
        if run is None:
            raise NotFoundError(f'no run "{run_id}" in this state', hint="'cronpad runs list' shows the newest")
        return run


def _read(arguments: Mapping[str, JsonValue]) -> tuple[str, Millis | None]:
    run_id, timeout_ms = arguments.get("run_id"), arguments.get("timeout_ms")
    if not isinstance(run_id, str) or not run_id:
        raise ConfigurationError('argument "run_id" of "wait" must be a run\'s id')
    if timeout_ms is not None and (not isinstance(timeout_ms, int) or isinstance(timeout_ms, bool) or timeout_ms < 0):
        raise ConfigurationError('argument "timeout_ms" of "wait" must be a number of milliseconds')
    return run_id, timeout_ms


def _document(run: Run, last: Attempt | None) -> dict[str, JsonValue]:
    return {
        "run_id": run.id,
        "job": run.spec.name,
        "ended": run.status.terminal,
        "status": run.status.value,
        "reason": run.reason,
        "skip_reason": run.skip_reason.value if run.skip_reason else None,
        "attempts": 0 if last is None else last.attempt + 1,
        "attempt_status": None if last is None else last.status.value,
        "attempt_reason": "" if last is None else last.reason,
        "exit_code": None if last is None else last.exit_code,
        "finished_at": rfc3339(run.finished_at_ms),
        "finished_at_ms": run.finished_at_ms,
    }
