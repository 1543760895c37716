"""How this process fares while it dispatches: what the pulse says besides that it beats."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from cronpad_core.domain.events import AlertFailed, AlertSent, ClockStepped, Event, RunEnded, StoreFailed, StoreRecovered
from cronpad_core.domain.run import RunStatus
from cronpad_core.domain.timing import HOUR, MINUTE, SECOND, Millis
from cronpad_core.host.records import PluginRecord, PluginState
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.storage import StorageTools
from cronpad_core.runtime.health import Pulse, read_pulse, write_pulse

__all__ = ["Vitals"]

STARTS, STARTS_WITHIN_MS = 5, MINUTE
"""More starts after a crash than this within a minute are a crash loop."""

BACK_OFF_MS = SECOND
STEPPED_FOR_MS = 10 * MINUTE
POISONED_FOR_MS = HOUR
LEAKED, TOO_MANY_LEAKED = 10, 50
UNTOLD_AFTER = 3
"""An alert that failed so often is said to be failing until one of its name is sent."""

_LOOK_S: Final = 1.0
_STEP_MS: Final = SECOND
_CODE: Final = re.compile(r"\([A-Z]+_([A-Z_]+)\)\Z")


class Vitals:
    """Gathers what happens, and what is looked at each beat. Never raises, and never waits long for anything."""

    def __init__(self, directory: Path | None, clock: Clock, plugins: Iterable[PluginRecord], tools: StorageTools | None) -> None:
        self._directory = directory
        self._clock = clock
        self._tools = tools
        bad = (PluginState.FAILED, PluginState.INCOMPATIBLE)
        self._plugins = [f"plugin:{one.name}" for one in plugins if one.state in bad]
        self._starts: tuple[Millis, ...] | None = None
        self._ahead_ms = clock.wall_ms() - clock.boot_ms()
        self._stepped_at_ms: Millis | None = None
        self._poisoned_at_ms: Millis | None = None
        self._untold: set[str] = set()
        self._looked: Sequence[str] = ()
        self._looking: asyncio.Future[list[str]] | None = None
        self.wrong: dict[str, str] = {}

    def tell(self, event: Event) -> None:
        """Something happened in the engine."""
        now_ms = self._clock.boot_ms()
        if isinstance(event, StoreFailed):
            code = _CODE.search(event.error)
            self.wrong[event.store] = code[1].lower() if code else "failing"
        elif isinstance(event, StoreRecovered):
            self.wrong.pop(event.store, None)
        elif isinstance(event, ClockStepped) and event.by_ms:
            self._stepped_at_ms = now_ms
        elif isinstance(event, AlertFailed) and (event.given_up or event.tries >= UNTOLD_AFTER):
            self._untold.add(event.name)
        elif isinstance(event, AlertSent):
            self._untold.discard(event.name)
        elif isinstance(event, RunEnded) and event.status is RunStatus.POISONED:
            self._poisoned_at_ms = now_ms

    def note_start(self) -> bool:
        """Counts this start, once; answers whether it is one too many. Called by the holder of the lock, before its first claim.

        A start after a graceful stop begins the count again: what is counted are crashes.
        """
        if self._starts is None:
            before = None if self._directory is None else read_pulse(self._directory)
            known = before is not None and before.boot_id == self._clock.boot_id() and before.dispatcher != "stopped"
            last = before.starts if before is not None and known else ()
            self._starts = (*self._recent(last), self._clock.boot_ms())
        return self._crash_loop

    async def back_off(self) -> None:
        """Counts this start, leaves word of it at once, and waits a moment where it is one of a crash loop."""
        looping = self.note_start()
        if self._directory is not None:
            write_pulse(self._directory, self._starting())
        if looping:
            await self._clock.sleep(BACK_OFF_MS)

    def _starting(self) -> Pulse:
        return Pulse(
            dispatcher="starting",
            pid=os.getpid(),
            term=None,
            boot_id=self._clock.boot_id(),
            beat_boot_ms=self._clock.boot_ms(),
            fresh_for_ms=MINUTE,
            degraded=self.codes(0),
            starts=self.starts,
        )

    def _recent(self, starts: Sequence[Millis]) -> tuple[Millis, ...]:
        now_ms = self._clock.boot_ms()
        return tuple(one for one in starts if now_ms - STARTS_WITHIN_MS < one <= now_ms)[-2 * STARTS :]

    @property
    def starts(self) -> tuple[Millis, ...]:
        """The starts of the last minute, this one included."""
        return self._recent(self._starts or ())

    @property
    def _crash_loop(self) -> bool:
        return len(self.starts) > STARTS

    async def look(self) -> None:
        """Looks at clock and storage. A storage that does not answer within a second is asked again at the next beat."""
        now_ms = self._clock.boot_ms()
        ahead_ms = self._clock.wall_ms() - now_ms
        if abs(ahead_ms - self._ahead_ms) > _STEP_MS:
            self._stepped_at_ms = now_ms
        self._ahead_ms = ahead_ms
        if self._tools is None:
            return
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._tools.degraded())
        done, _ = await asyncio.wait({self._looking}, timeout=_LOOK_S)
        if done:
            failed = self._looking.cancelled() or self._looking.exception() is not None
            self._looked, self._looking = () if failed else self._looking.result(), None

    def codes(self, abandoned: int) -> tuple[str, ...]:
        """The codes of the pulse's ``degraded``; ``abandoned``: how many deliveries never ended although they were told to."""
        found = ["crash_loop"] if self._crash_loop else []
        found += self._looked
        if abandoned > LEAKED:
            found.append("leaked_tasks")
        if abandoned > TOO_MANY_LEAKED:
            found.append("restart_wanted")
        if self._within(self._stepped_at_ms, STEPPED_FOR_MS):
            found.append("clock_stepped")
        if self._within(self._poisoned_at_ms, POISONED_FOR_MS):
            found.append("poisoned")
        if self._untold:
            found.append("alerts_failing")
        return (*found, *self._plugins)

    def _within(self, at_ms: Millis | None, for_ms: Millis) -> bool:
        return at_ms is not None and self._clock.boot_ms() - at_ms < for_ms
