"""A cron text in a zone: wall readings found by ``search``, placed on the UTC line by the windows of ``changes``."""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

from cronpad_core.schedules.changes import FoldRule, GapRule, Window, windows_of
from cronpad_core.schedules.cron import CronText
from cronpad_core.schedules.facts import ScheduleFacts
from cronpad_core.schedules.search import WallSearch
from cronpad_core.schedules.timeline import Timeline
from cronpad_core.schedules.zones import DISTANT

__all__ = ["CronSchedule"]

# More than any clock ever moved at once (Alaska and Manila changed the date by 24 hours).
_NEAR: Final = 2 * 86400
# Changes are looked for in these years when warning about times that a clock change touches; the answer must not depend on now.
_WARN_FROM: Final = 1735689600
_WARN_UNTIL: Final = 2208988800
_GAP_WORDS: Final = {
    GapRule.DROP: "nothing is made up for skipped time",
    GapRule.RUN_AFTER: "skipped runs make one run right after the gap",
    GapRule.SHIFT: "skipped runs are moved by the length of the gap",
}
_FOLD_WORDS: Final = {
    FoldRule.FIRST: "repeated time runs in the first pass only",
    FoldRule.LAST: "repeated time runs in the second pass only",
    FoldRule.BOTH: "repeated time runs in both passes",
}


class CronSchedule(Timeline):
    """The fires of a cron text.

    The set of fires is defined without a search: every matching reading that counts in its window, plus the runs made up for
    skipped readings. Next, previous and count are three ways of looking at that one set, so they always agree.
    """

    def __init__(
        self,
        *,
        text: str,
        timezone: str,
        zone: tzinfo,
        cron: CronText,
        gap: GapRule | None = None,
        fold: FoldRule | None = None,
    ) -> None:
        super().__init__(text=text, timezone=timezone, zone=zone)
        self._cron = cron
        self._gap = gap or (GapRule.DROP if cron.wildcard else GapRule.RUN_AFTER)
        self._fold = fold or (FoldRule.BOTH if cron.wildcard else FoldRule.FIRST)
        self._search = WallSearch(cron)
        self._windows = windows_of(zone, self._fold)
        # The window of the last answer. It is only a shortcut: any window in it gives the same answers.
        self._window = Window(start=0, end=0, offset=0, low=0, high=0, gap=0, repeat_start=0, repeat_end=0)
        self._warnings: tuple[str, ...] | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Large steps, two restricted day fields, and times that a clock change skips or repeats."""
        if self._warnings is None:
            self._warnings = (*self._cron.warnings, *self._clock_warnings())
        return self._warnings

    def next_after_ms(self, instant_ms: int) -> int | None:
        """The first fire strictly after the instant."""
        at = instant_ms // 1000 + 1
        window = self._window
        if not window.start <= at < window.end:
            window = self._window = self._windows.at(at)
        wall = at + window.offset
        found = self._search.next(wall if wall > window.low else window.low)
        if found is not None and found < window.high and (not window.gap or at > window.start + window.gap):
            return (found - window.offset) * 1000
        second = self._next(at, window)
        return None if second is None else second * 1000

    def prev_at_or_before_ms(self, instant_ms: int) -> int | None:
        """The last fire at or before the instant."""
        second = self._previous(instant_ms // 1000)
        return None if second is None else second * 1000

    def count_between_ms(self, after_ms: int, until_ms: int) -> int:
        """How many fires lie in (``after_ms``, ``until_ms``], counted by days; stretches around a clock change one by one."""
        after, until = after_ms // 1000, until_ms // 1000
        if until <= after:
            return 0
        total = 0
        for window in self._windows.between(after + 1, until):
            low = max(window.low, after + 1 + window.offset)
            high = min(window.high - 1, until + window.offset)
            total += self._search.count(low, high)
            made_up = self._next_made_up(window, after + 1)
            while made_up is not None and made_up <= until:
                total += not self._is_real(made_up, window)
                made_up = self._next_made_up(window, made_up + 1)
        return total

    def note_for_ms(self, instant_ms: int) -> str | None:
        """Whether a clock change made this fire up, or made its reading come twice."""
        at = instant_ms // 1000
        window = self._windows.at(at)
        if self._next_made_up(window, at) == at:
            minutes = window.gap // 60
            moved = "at the first instant after it" if self._gap is GapRule.RUN_AFTER else f"{minutes} minutes later"
            return f"dst_gap: the clock skips {minutes} minutes here; runs whose time is skipped happen {moved}"
        if at < window.start + window.repeat_start:
            return "dst_overlap: the clock shows this time twice; this is the second pass"
        if at >= window.end - window.repeat_end:
            passes = "it runs in both" if self._fold is FoldRule.BOTH else "it runs in this one only"
            return f"dst_overlap: the clock shows this time twice; this is the first pass, {passes}"
        return None

    def facts(self) -> ScheduleFacts:
        """The day rule, the clock rule and the fields with their draws made."""
        cron = self._cron
        days = (
            "A day has to match both day fields: one of them" if cron.days_both else "A day has to match either day field: none"
        )
        clock = "wildcard: its second, minute or hour starts with *"
        if not cron.wildcard:
            clock = "fixed-time: neither second nor minute nor hour starts with *"
        sentences = (
            f"{days} starts with *.",
            f"The job is {clock}.",
            f"When the clock of {self.timezone} changes, {_GAP_WORDS[self._gap]} and {_FOLD_WORDS[self._fold]}.",
        )
        return ScheduleFacts(
            kind="cron",
            sentences=sentences,
            fields=cron.resolved,
            day_rule="both" if cron.days_both else "either",
            clock_rule="wildcard" if cron.wildcard else "fixed-time",
            gap=self._gap.value,
            fold=self._fold.value,
        )

    def _next(self, at: int, window: Window) -> int | None:
        """The first fire at or after second ``at``, which lies in ``window``."""
        while True:
            wall = max(at + window.offset, window.low)
            found = self._search.next(wall)
            best = found - window.offset if found is not None and found < window.high else None
            made_up = self._next_made_up(window, at)
            if made_up is not None and (best is None or made_up < best):
                best = made_up
            if best is not None or window.end == DISTANT:
                return best
            # Only near a change can readings below the one found come back; else the windows up to it hold nothing.
            if window.end - at < _NEAR:
                at = window.end
            elif found is None:
                return None
            else:
                at = max(window.end, found - window.offset - _NEAR)
            window = self._windows.at(at)

    def _previous(self, at: int) -> int | None:
        """The last fire at or before second ``at``."""
        window = self._window
        if not window.start <= at < window.end:
            window = self._window = self._windows.at(at)
        while True:
            wall = min(at + window.offset, window.high - 1)
            found = self._search.previous(wall)
            best = found - window.offset if found is not None and found >= window.low else None
            made_up = self._previous_made_up(window, at)
            if made_up is not None and (best is None or made_up > best):
                best = made_up
            if best is not None or window.start == -DISTANT:
                return best
            if at - window.start < _NEAR:
                at = window.start - 1
            elif found is None:
                return None
            else:
                at = min(window.start - 1, found - window.offset + _NEAR)
            window = self._windows.at(at)

    def _next_made_up(self, window: Window, at: int) -> int | None:
        """The first run at or after ``at`` that stands for a reading skipped just before the window."""
        if not window.gap or self._gap is GapRule.DROP:
            return None
        start, wall = window.start, window.start + window.offset
        if self._gap is GapRule.RUN_AFTER:
            skipped = self._search.next(wall - window.gap) if at <= start else None
            return start if skipped is not None and skipped < wall else None
        if at >= start + window.gap:
            return None
        skipped = self._search.next(wall - window.gap + max(at - start, 0))
        if skipped is None or skipped >= wall:
            return None
        moved = skipped - window.offset + window.gap
        return moved if moved < window.end else None

    def _previous_made_up(self, window: Window, at: int) -> int | None:
        """The last run at or before ``at`` that stands for a reading skipped just before the window."""
        if not window.gap or self._gap is GapRule.DROP or at < window.start:
            return None
        start, wall = window.start, window.start + window.offset
        last = wall - 1
        if self._gap is GapRule.SHIFT:
            last = min(last, wall - window.gap + min(at, window.end - 1) - start)
        skipped = self._search.previous(last)
        if skipped is None or skipped < wall - window.gap:
            return None
        return start if self._gap is GapRule.RUN_AFTER else skipped - window.offset + window.gap

    def _is_real(self, at: int, window: Window) -> bool:
        wall = at + window.offset
        return window.low <= wall < window.high and self._search.next(wall) == wall

    def _clock_warnings(self) -> tuple[str, ...]:
        if self._gap is GapRule.DROP and self._fold is FoldRule.BOTH:
            return ()
        found: list[str] = []
        skipped = repeated = False
        for window in self._windows.between(_WARN_FROM, _WARN_UNTIL):
            wall = window.start + window.offset
            if window.gap and not skipped and self._search.count(wall - window.gap, wall - 1):
                skipped = True
                found.append(f"A clock change in {self.timezone} skips a time of this schedule; dst.gap is {self._gap}.")
            if window.repeat_start and not repeated and self._search.count(wall, wall + window.repeat_start - 1):
                repeated = True
                found.append(f"A clock change in {self.timezone} repeats a time of this schedule; dst.fold is {self._fold}.")
        return tuple(found)
