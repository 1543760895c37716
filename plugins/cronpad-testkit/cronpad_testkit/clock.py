"""Virtual time: hours in milliseconds, with jumps of the wall clock, suspends and reboots on demand."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from cronpad_core.api import Millis
from cronpad_testkit.loop import VirtualDeadlockError, VirtualLimitError, VirtualLoop

__all__ = ["WALL_START", "VirtualClock", "VirtualDeadlockError", "VirtualLimitError", "VirtualLoop", "run_virtual"]

_T = TypeVar("_T")

WALL_START: Millis = 1_767_225_600_000
"""Where virtual wall time begins unless a test says otherwise: 2026-01-01T00:00:00Z."""

_BOOTED_FOR: Millis = 1_000_000
_LONGEST_SPIN: Millis = 10


class VirtualClock:
    """The clock port over a loop's own time; one object per simulated machine.

    ``jump`` moves the wall clock alone, ``suspend`` both lines while no timer runs, ``reboot`` begins another boot line.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        wall_ms: Millis = WALL_START,
        boot_ms: Millis = _BOOTED_FOR,
        boot_id: str = "boot-1",
    ) -> None:
        self._loop = loop
        self._boot_offset = boot_ms - self._loop_ms()
        self._wall_offset = wall_ms - boot_ms
        self._boot_id = boot_id
        self._suspended_ms: Millis = 0

    def _loop_ms(self) -> Millis:
        # A sum of floats that stands for 300 ms may be 299.9999…; a thousandth of a millisecond mends that.
        return math.floor(self._loop.time() * 1_000 + 0.001)

    def wall_ms(self) -> Millis:
        """Unix time in milliseconds."""
        return self.boot_ms() + self._wall_offset

    def boot_ms(self) -> Millis:
        """Milliseconds since the simulated machine was started, suspend included."""
        return self._loop_ms() + self._boot_offset

    def boot_id(self) -> str:
        """Names this start of the simulated machine."""
        return self._boot_id

    def suspended_ms(self) -> Millis:
        """How long the simulated machine slept."""
        return self._suspended_ms

    async def sleep(self, duration_ms: Millis) -> None:
        """Returns when the loop's time has moved on by ``duration_ms``; at least one step of the loop."""
        await asyncio.sleep(max(duration_ms, 0) / 1_000)

    async def until(self, wall_ms: Millis) -> None:
        """Returns at that wall instant; soon where the clock was set meanwhile, as the real one does."""
        await self.sleep(min(wall_ms - self.wall_ms(), _LONGEST_SPIN))

    def jump(self, by_ms: Millis) -> None:
        """Moves the wall clock, either way."""
        self._wall_offset += by_ms

    def set_wall(self, wall_ms: Millis) -> None:
        """Sets the wall clock."""
        self._wall_offset = wall_ms - self.boot_ms()

    def suspend(self, for_ms: Millis) -> None:
        """The machine slept and wakes up now: both lines moved on, timers did not."""
        self._boot_offset += for_ms
        self._suspended_ms += for_ms

    def reboot(self, *, boot_id: str, down_ms: Millis = 0) -> None:
        """The machine was started again: boot time counts from 0 under another id, the wall clock went on."""
        wall_ms = self.wall_ms() + down_ms
        self._boot_id = boot_id
        self._boot_offset = -self._loop_ms()
        self._wall_offset = wall_ms


def run_virtual(
    main: Callable[[VirtualClock], Coroutine[Any, Any, _T]],
    *,
    seed: int | None = None,
    wall_ms: Millis = WALL_START,
    limit_ms: Millis | None = None,
) -> _T:
    """Runs ``main(clock)`` to its end on a virtual loop and answers its result; tasks that it left are cancelled.

    The same ``seed`` gives the same run; without one callbacks run in asyncio's order. Raises ``VirtualDeadlockError`` where
    nothing can happen any more, and ``VirtualLimitError`` past ``limit_ms`` of virtual time.
    """
    loop = VirtualLoop(seed=seed, limit_s=None if limit_ms is None else limit_ms / 1_000)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(VirtualClock(loop, wall_ms=wall_ms)))
