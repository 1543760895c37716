"""How fast slots of the past may be run, so that catching up never gets in the way of what is due now."""

from __future__ import annotations

from cronpad_core.domain.timing import MINUTE, SECOND, Millis
from cronpad_core.engine.ticket import Holding

__all__ = ["ReplayBudget"]


class ReplayBudget:
    """One budget for all jobs: at most ``rate`` starts a second, and at most half of the workers at once."""

    def __init__(self, *, rate: int, workers: int) -> None:
        self._every_ms = SECOND / rate
        self._most = max(1, workers // 2)
        self._free_ms = 0.0
        self._running: set[Holding] = set()

    def next_ms(self, now_ms: Millis) -> Millis:
        """Takes the next free instant: now, or when the budget has room again (wall)."""
        if self._free_ms > now_ms + MINUTE * 60:
            self._free_ms = now_ms  # the clock was set back: what was given out is long past
        at_ms = max(float(now_ms), self._free_ms)
        self._free_ms = at_ms + self._every_ms
        return int(at_ms)

    def enter(self, holding: Holding) -> bool:
        """Lets a delivery of the past begin, or says that too many run already."""
        if len(self._running) >= self._most:
            return False
        self._running.add(holding)
        return True

    def leave(self, holding: Holding) -> None:
        """The entry is done with, for now."""
        self._running.discard(holding)
