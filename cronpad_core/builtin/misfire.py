"""The misfire policies of the core: which overdue slots run. Registered through the same door as a stranger's.

Each looks at a window through at most some seventy questions to its schedule, however many slots are overdue.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from cronpad_core.api import SECOND, Millis, MissedWindow, ReplayPlan

__all__ = ["All", "AllSettings", "Earliest", "Latest", "PlainSettings", "Skip"]

_NONE: Final = ReplayPlan()


class PlainSettings(BaseModel):
    """No settings beside the policy's name and window."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AllSettings(BaseModel):
    """How much of a long absence is caught up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max: int = Field(default=1000, ge=1, le=50_000, description="Run at most this many of the overdue slots, the newest.")


class Latest:
    """One run for all that was missed: the newest slot, if it is within the window."""

    name = "latest"
    api = 1
    Settings = PlainSettings

    def decide(self, window: MissedWindow) -> ReplayPlan:
        """The newest slot, or none."""
        if window.earliest_ms is None:
            return _NONE
        return ReplayPlan(first_ms=window.newest_ms, until_ms=window.newest_ms)


class Earliest:
    """One run for all that was missed: the oldest slot that is within the window."""

    name = "earliest"
    api = 1
    Settings = PlainSettings

    def decide(self, window: MissedWindow) -> ReplayPlan:
        """The oldest slot within the window, or none."""
        return ReplayPlan(first_ms=window.earliest_ms, until_ms=window.earliest_ms)


class Skip:
    """No run for what was missed."""

    name = "skip"
    api = 1
    Settings = PlainSettings

    def decide(self, window: MissedWindow) -> ReplayPlan:
        """None, whatever the window."""
        return _NONE


class All:
    """Every missed slot within the window, oldest first; of more than ``max`` only the newest ``max``."""

    name = "all"
    api = 1
    Settings = AllSettings

    def decide(self, window: MissedWindow) -> ReplayPlan:
        """From the oldest slot that is chosen up to the newest."""
        if window.earliest_ms is None:
            return _NONE
        most = AllSettings.model_validate(dict(window.rule.settings)).max
        return ReplayPlan(first_ms=_first_of_newest(window, window.earliest_ms, most), until_ms=window.newest_ms)


def _first_of_newest(window: MissedWindow, earliest_ms: Millis, most: int) -> Millis:
    """The slot from which on there are ``most`` slots up to the newest, or the earliest if there are fewer."""
    newest = window.newest_ms
    # Backwards from the newest in doubling strides: a schedule that can only count by walking is then asked about little more
    # than ``most`` slots, not about the whole absence. The first stride holds no more than that at one slot a second.
    few, stride = newest, most * SECOND
    while True:
        many = max(newest - stride, earliest_ms - 1)
        if window.count_between(many, newest) > most:
            break
        if many < earliest_ms:
            return earliest_ms
        few, stride = many, stride * 2
    while few - many > 1:
        middle = (few + many) // 2
        if window.count_between(middle, newest) > most:
            many = middle
        else:
            few = middle
    # ``few`` itself is the slot that would be one too many, so the first chosen one is the next.
    first = window.next_after(few)
    return newest if first is None else min(first, newest)
