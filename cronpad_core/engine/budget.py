"""How fast slots of the past may be run, so that catching up never gets in the way of what is due now."""

from __future__ import annotations

from cronpad_core.domain.timing import SECOND, Millis
from cronpad_core.engine.ticket import Holding
from cronpad_core.ports.clock import Clock

__all__ = ["ReplayBudget"]


class ReplayBudget:
    """One budget for all jobs: at most ``rate`` starts a second, and at most half of the workers (``most``) at once."""

    def __init__(self, clock: Clock, *, rate: int, workers: int) -> None:
        self._clock = clock
        self._every_ms = SECOND / rate
        self.most = max(1, workers // 2)
        self._free_ms = 0.0
        self._running: set[Holding] = set()

    def next_ms(self, now_ms: Millis) -> Millis:
        """Takes the next free instant, counted on the boot clock: ``now_ms`` (wall), or when the budget has room again."""
        boot_ms = self._clock.boot_ms()
        at_ms = max(float(boot_ms), self._free_ms)
        self._free_ms = at_ms + self._every_ms
        return now_ms + int(at_ms - boot_ms)

    def enter(self, holding: Holding) -> bool:
        """Lets a delivery of the past begin, or says that too many run already."""
        if len(self._running) >= self.most:
            return False
        self._running.add(holding)
        return True

    def leave(self, holding: Holding) -> None:
        """The entry is done with, for now."""
        self._running.discard(holding)
