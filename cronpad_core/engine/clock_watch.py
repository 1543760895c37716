"""Noticing that the wall clock was set, or that the machine slept."""

from __future__ import annotations

from cronpad_core.domain.events import ClockStepped
from cronpad_core.domain.timing import MINUTE, SECOND, Millis
from cronpad_core.engine.patience import Emit
from cronpad_core.ports.clock import Clock

__all__ = ["ClockWatch"]

_STEP, _SUSPEND, _BACK = SECOND // 2, SECOND, MINUTE


class ClockWatch:
    """Compares the lines of time between two looks. Nothing depends on it but how soon things are noticed, and what is told."""

    def __init__(self, clock: Clock, emit: Emit) -> None:
        self._clock = clock
        self._emit = emit
        self._offset_ms = clock.wall_ms() - clock.boot_ms()
        self._slept_ms = clock.suspended_ms()
        self._back_ms: Millis = 0

    def look(self) -> bool:
        """One look; whether something was noticed, so that the queue had better be looked at now."""
        offset, slept = self._clock.wall_ms() - self._clock.boot_ms(), self._clock.suspended_ms()
        by_ms, asleep_ms = offset - self._offset_ms, slept - self._slept_ms
        self._offset_ms, self._slept_ms = offset, slept
        if abs(by_ms) <= _STEP and asleep_ms <= _SUSPEND:
            return False
        self._back_ms = max(0, self._back_ms - by_ms)
        self._emit(ClockStepped(by_ms=by_ms if abs(by_ms) > _STEP else 0, suspended_ms=max(0, asleep_ms)))
        return True

    @property
    def went_back(self) -> bool:
        """Whether the clock was set back by more than a minute since :meth:`settled`."""
        return self._back_ms > _BACK

    def settled(self) -> None:
        """What a step back had left behind was put right."""
        self._back_ms = 0
