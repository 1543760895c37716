"""What a change of the clock does to a job: each stretch of constant offset with the wall readings that count in it.

The default rules are those of cron(8) as Debian and cronie have them: jobs at a fixed time that fall into skipped time run
right after it, and are not run again in repeated time; jobs with ``*`` follow the clock. A change of three hours or more
forwards, or of more than three hours back, is a correction of the clock: the new time holds at once, whatever the rule.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Final

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.schedules.zones import DISTANT, Segment, segments_of

__all__ = ["FoldRule", "GapRule", "Window", "WindowTable", "parse_dst", "windows_of"]

_CORRECTION: Final = 3 * 3600
_MARGIN: Final = 40 * 86400
_REACH: Final = 400 * 86400


class GapRule(StrEnum):
    """What becomes of readings that a clock skips."""

    DROP = "skip"
    RUN_AFTER = "run_after"
    SHIFT = "shift"


class FoldRule(StrEnum):
    """Which pass counts for readings that a clock shows twice."""

    FIRST = "first"
    LAST = "last"
    BOTH = "both"


def parse_dst(dst: Mapping[str, str] | str | None) -> tuple[GapRule | None, FoldRule | None]:
    """The rules given explicitly, ``None`` for what is left to cron's; raises ``ScheduleError`` for anything else."""
    if dst is None or dst == "cron":
        return None, None
    if not isinstance(dst, Mapping):
        message = f"dst is '{dst}'; allowed: 'cron', or a table with gap (run_after, skip, shift) and fold (first, last, both)."
        raise ScheduleError(message, code="dst", field="dst", token=str(dst), suggestion="cron")
    for key in dst:
        if key not in ("gap", "fold"):
            raise ScheduleError(f"dst knows no '{key}'; allowed: gap, fold.", code="dst-key", field="dst", token=str(key))
    gap, fold = dst.get("gap"), dst.get("fold")
    if gap is not None and gap not in tuple(GapRule):
        message = f"dst.gap is '{gap}'; allowed: run_after, skip, shift."
        raise ScheduleError(message, code="dst-value", field="dst", token=str(gap))
    if fold is not None and fold not in tuple(FoldRule):
        message = f"dst.fold is '{fold}'; allowed: first, last, both."
        raise ScheduleError(message, code="dst-value", field="dst", token=str(fold))
    return (None if gap is None else GapRule(gap)), (None if fold is None else FoldRule(fold))


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """UTC seconds [``start``, ``end``) with one offset, and the wall readings [``low``, ``high``) that count in it.

    ``gap`` is the length of the skipped stretch just before ``start``, 0 where there is none (or it is a correction);
    ``repeat_start`` the length of time after ``start`` in which readings come for the second time, ``repeat_end`` that before
    ``end`` in which they come for the first.
    """

    start: int
    end: int
    offset: int
    low: int
    high: int
    gap: int
    repeat_start: int
    repeat_end: int


@lru_cache(maxsize=4096)
def windows_of(zone: tzinfo, fold: FoldRule) -> WindowTable:
    """The shared windows of a zone under a rule."""
    return WindowTable(zone, fold)


class WindowTable:
    """The windows of one zone under one rule for repeated time; grows with the zone's segments."""

    def __init__(self, zone: tzinfo, fold: FoldRule) -> None:
        self._segments = segments_of(zone)
        self._fold = fold
        self._built: tuple[tuple[Segment, ...], tuple[Window, ...], list[int]] = ((), (), [])

    def at(self, instant: int) -> Window:
        """The window that holds this UTC second. Its ends are real changes, or lie more than a month away from it."""
        segments = self._segments.cover(instant - _REACH, instant + _REACH)
        built = self._built
        if built[0] is not segments:
            windows = tuple(self._build(segments))
            built = self._built = (segments, windows, [window.start for window in windows])
        return built[1][max(bisect_right(built[2], instant) - 1, 0)]

    def between(self, start: int, end: int) -> list[Window]:
        """All windows that touch [``start``, ``end``], in order."""
        # All at once, so that no window of the range is cut where the table stops.
        self._segments.cover(start - _REACH, end + _REACH)
        window = self.at(start)
        found = [window]
        while window.end <= end:
            window = self.at(window.end)
            found.append(window)
        return found

    def _build(self, segments: tuple[Segment, ...]) -> list[Window]:
        built: list[Window] = []
        for index, segment in enumerate(segments):
            before = segments[index - 1].offset if index else segment.offset
            after = segments[index + 1].offset if index + 1 < len(segments) else segment.offset
            gap = segment.offset - before
            repeat_start = max(before - segment.offset, 0)
            repeat_end = max(segment.offset - after, 0)
            start, end = segment.start, segment.end
            # A cut end is not a change: stay away from it, so that whoever comes near asks for a longer table.
            if index == 0 and start != -DISTANT:
                start += _MARGIN
            if index + 1 == len(segments) and end != DISTANT:
                end -= _MARGIN
            low, high = start + segment.offset, end + segment.offset
            if self._fold is FoldRule.FIRST and repeat_start <= _CORRECTION:
                low += repeat_start
            if self._fold is FoldRule.LAST and repeat_end <= _CORRECTION:
                high -= repeat_end
            built.append(
                Window(
                    start=start,
                    end=end,
                    offset=segment.offset,
                    low=low,
                    high=high,
                    gap=gap if 0 < gap < _CORRECTION else 0,
                    repeat_start=repeat_start if repeat_start <= _CORRECTION else 0,
                    repeat_end=repeat_end if repeat_end <= _CORRECTION else 0,
                )
            )
        return built
