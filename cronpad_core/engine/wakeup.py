"""Waking the claim loop, and only when something is due before it would have looked by itself."""

from __future__ import annotations

import asyncio

from cronpad_core.domain.timing import Millis

__all__ = ["WakeUp"]

_NEVER = 2**62


class WakeUp:
    """A bell with a planned time: an entry that is due later than that does not ring it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._planned_ms: Millis = _NEVER
        self._expired = False
        self.starved = False

    def offer(self, at_ms: Millis) -> None:
        """Something will be due at that wall time."""
        if at_ms < self._planned_ms:
            self._event.set()

    def freed(self) -> None:
        """A worker became free; rings only where entries had to wait for one."""
        if self.starved:
            self._event.set()

    def ring(self) -> None:
        """Look now, whatever was planned."""
        self._event.set()

    async def wait(self, until_ms: Millis, timeout_ms: Millis) -> bool:
        """Waits ``timeout_ms`` at most; answers whether the bell rang.

        ``until_ms`` is the wall time at which the caller looks again anyway. Between two waits everything rings.
        """
        self._planned_ms = until_ms
        self._expired = False
        try:
            if not self._event.is_set():
                handle = asyncio.get_running_loop().call_later(timeout_ms / 1000, self._expire)
                try:
                    await self._event.wait()
                finally:
                    handle.cancel()
            self._event.clear()
        finally:
            self._planned_ms = _NEVER
        return not self._expired

    def _expire(self) -> None:
        if not self._event.is_set():
            self._expired = True
            self._event.set()
