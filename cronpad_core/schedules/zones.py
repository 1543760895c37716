"""Time zones as lists of stretches with a constant offset.

The list of a zone is cut out of ``zoneinfo`` by probing and bisection, cached for the process, and grown by years as questions
reach further. Nothing but ``utcoffset`` is used: the DST flag of the tz database says nothing about which way a clock moves
(Casablanca, Dublin).
"""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NoReturn
from zoneinfo import ZoneInfo, available_timezones

from cronpad_core.domain.errors import ScheduleError

__all__ = ["DISTANT", "Segment", "SegmentTable", "forget_zones", "load_zone", "segments_of"]

# Far outside every datetime, so that a comparison with it never decides.
DISTANT: Final = 10**15
_DAY: Final = 86400
# The shortest stretch between two changes in the tz database is just under four days (Freetown, 1939); a test keeps watch.
_PROBE: Final = 3 * _DAY
# No zone left its local mean time before 1840, and no datetime lies after 9999.
_FIRST_YEAR: Final = 1840
_LAST_YEAR: Final = 9998
# Copies for C libraries (right/ counts leap seconds and would shift every fire), and names that differ from host to host.
_NOT_ZONES: Final = ("right/", "posix/", "localtime", "posixrules")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """UTC seconds [``start``, ``end``) in which the zone's offset is constant."""

    start: int
    end: int
    offset: int


@lru_cache(maxsize=1024)
def load_zone(name: str) -> tzinfo:
    """The zone of this IANA name; raises ``ScheduleError`` with what to write instead."""
    if name == "UTC":
        return UTC
    if not name.strip():
        _refuse(name, "The time zone is empty; use an IANA name such as Europe/Berlin, or UTC.")
    if name[0] in "+-" or (name[:3].upper() in ("UTC", "GMT") and name[3:4] in ("+", "-") and ":" in name):
        message = "Fixed offsets are not time zones here. Use an IANA name such as Europe/Riga (or Etc/GMT-2)."
        _refuse(name, message)
    if name[0] in "./" or ".." in name or "\\" in name or not name.isascii() or not name.isprintable():
        _refuse(name, f"'{name}' is not a time zone name.")
    try:
        if not name.startswith(_NOT_ZONES):
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    except (struct.error, EOFError, IndexError, OverflowError):
        _refuse(name, f"The data of the time zone '{name}' is damaged; install the system's time-zone data again.")
    names = {known.lower(): known for known in available_timezones()}
    cities = [known for known in names if known.rpartition("/")[2] == name.lower().replace(" ", "_")]
    near = sorted(cities, key=len) or get_close_matches(name.lower(), names, n=1, cutoff=0.8)
    suggestion = names[near[0]] if near else None
    instead = f"Did you mean {suggestion}?" if suggestion else "Use an IANA name such as Europe/Berlin, or UTC."
    _refuse(name, f"Unknown time zone '{name}'. {instead}", suggestion)


def forget_zones() -> None:
    """Lets zones be read anew: ``zoneinfo`` keeps what it has read for the life of the process."""
    ZoneInfo.clear_cache()
    load_zone.cache_clear()
    segments_of.cache_clear()


def _refuse(name: str, message: str, suggestion: str | None = None) -> NoReturn:
    raise ScheduleError(message, code="timezone", field="timezone", token=name, suggestion=suggestion)


@lru_cache(maxsize=1024)
def segments_of(zone: tzinfo) -> SegmentTable:
    """The shared table of a zone."""
    return SegmentTable(zone)


def _start_of(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


class SegmentTable:
    """The segments of one zone, as far as anybody has asked. Readers take a snapshot and never wait for a writer."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._lock = threading.Lock()
        self._years = (0, -1)
        self._changes: list[tuple[int, int]] = []
        self._first_offset = 0
        self.snapshot: tuple[Segment, ...] = ()
        if zone is UTC:
            self._years = (_FIRST_YEAR, _LAST_YEAR)
            self.snapshot = (Segment(start=-DISTANT, end=DISTANT, offset=0),)

    def cover(self, start: int, end: int) -> tuple[Segment, ...]:
        """Segments that reach from ``start`` to ``end`` within a day, as far as calendars go.

        The outermost two may be cut off short of a change: only what lies inside the asked range is final.
        """
        low, high = _year_of(start), _year_of(end)
        if self._years[0] <= low and high <= self._years[1]:
            return self.snapshot
        with self._lock:
            self._grow(low, high)
            return self.snapshot

    def _grow(self, low: int, high: int) -> None:
        first, last = self._years
        if last < first:
            first, last = low, low - 1
        while last < high:
            last += 1
            self._changes += self._scan(last)
        while first > low:
            first -= 1
            self._changes[:0] = self._scan(first)
        # In this order: whoever sees the new years without the lock has to find the new segments too.
        self.snapshot = self._segments(first, last)
        self._years = (first, last)

    def _segments(self, first: int, last: int) -> tuple[Segment, ...]:
        start = -DISTANT if first == _FIRST_YEAR else _start_of(first)
        end = DISTANT if last == _LAST_YEAR else _start_of(last + 1)
        starts = [start, *(at for at, _ in self._changes)]
        offsets = [self._offset(_start_of(first)), *(offset for _, offset in self._changes)]
        ends = [*starts[1:], end]
        return tuple(Segment(start=s, end=e, offset=o) for s, e, o in zip(starts, ends, offsets, strict=True))

    def _offset(self, at: int) -> int:
        delta = datetime.fromtimestamp(at, self._zone).utcoffset()
        assert delta is not None, "a loaded zone knows its offset"
        return delta.days * _DAY + delta.seconds

    def _scan(self, year: int) -> list[tuple[int, int]]:
        """The changes within (start of ``year``, start of the next], each with the offset that it begins."""
        at, end = _start_of(year), _start_of(year + 1)
        offset = self._offset(at)
        changes: list[tuple[int, int]] = []
        while at < end:
            probe = min(at + _PROBE, end)
            later = self._offset(probe)
            if later != offset:
                before, after = at, probe
                while after - before > 1:
                    middle = (before + after) // 2
                    if self._offset(middle) == offset:
                        before = middle
                    else:
                        after = middle
                changes.append((after, later))
            at, offset = probe, later
        return changes


def _year_of(at: int) -> int:
    return min(max(1970 + at // 31556952, _FIRST_YEAR), _LAST_YEAR)
