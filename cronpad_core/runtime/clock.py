"""The real clocks."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from cronpad_core.domain.timing import Millis

__all__ = ["SystemClock"]

_LONGEST_SPIN_NS = 10_000_000
_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """Wall time of the system; boot time with suspend included where the system has it (Linux)."""

    def __init__(self) -> None:
        try:
            self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            # Without a boot id, a start of the machine is told by its time, which a step of the clock makes look like another:
            # that voids leases early, and never keeps one too long.
            self._boot_id = f"since-{(time.time_ns() - time.clock_gettime_ns(_BOOT)) // 60_000_000_000}"

    def wall_ms(self) -> Millis:
        """Unix time in milliseconds."""
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> Millis:
        """Milliseconds since the machine was started."""
        return time.clock_gettime_ns(_BOOT) // 1_000_000

    def boot_id(self) -> str:
        """Names this start of the machine."""
        return self._boot_id

    def suspended_ms(self) -> Millis:
        """What boot time has counted and the running clock has not; 0 where the system does not tell them apart."""
        return (time.clock_gettime_ns(_BOOT) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)) // 1_000_000

    async def sleep(self, duration_ms: Millis) -> None:
        """Waits on the loop's own clock."""
        await asyncio.sleep(duration_ms / 1000)

    async def until(self, wall_ms: Millis) -> None:
        """Comes back to the loop again and again: its timers are a millisecond late, which is what this is there to avoid."""
        last = time.clock_gettime_ns(_BOOT) + _LONGEST_SPIN_NS
        while time.time_ns() < wall_ms * 1_000_000 and time.clock_gettime_ns(_BOOT) < last:
            await asyncio.sleep(0)
