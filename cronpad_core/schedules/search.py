"""Search in wall time: the next, the previous and the number of matching readings of a clock that never changes.

Wall time is counted in seconds since 1970-01-01T00:00:00 of the naive local clock. The search takes the lowest (or highest)
set bit of a mask and carries into the next field; it loops over months at most, never over days or minutes.
"""

from __future__ import annotations

from datetime import date
from typing import Final

from cronpad_core.schedules.calendar import DayMasks
from cronpad_core.schedules.cron import CronText

__all__ = ["WallSearch"]

_DAY: Final = 86400
_EPOCH: Final = date(1970, 1, 1).toordinal()
_BASE_YEAR: Final = 1970
# Longer than any gap the calendar can make: 29 February on a given weekday comes back after 40 years at the latest.
_HORIZON: Final = 60
_FIRST_YEAR: Final = 1
_LAST_YEAR: Final = 9999
_FIRST_READING: Final = (1 - _EPOCH) * _DAY
_LAST_READING: Final = (date.max.toordinal() + 1 - _EPOCH) * _DAY - 1


class WallSearch:
    """The matching wall readings of one cron text. Pure and safe to share between threads."""

    __slots__ = ("_days", "_hours", "_last_sod", "_minutes", "_months", "_per_day", "_seconds", "_start", "_years")

    def __init__(self, text: CronText) -> None:
        self._days = DayMasks(text)
        self._seconds, self._minutes, self._hours = text.seconds, text.minutes, text.hours
        self._months, self._years = text.months, text.years
        self._start = _low(text.hours) * 3600 + _low(text.minutes) * 60 + _low(text.seconds)
        self._last_sod = _high(text.hours) * 3600 + _high(text.minutes) * 60 + _high(text.seconds)
        self._per_day = text.hours.bit_count() * text.minutes.bit_count() * text.seconds.bit_count()

    def next(self, wall: int) -> int | None:
        """The first matching reading at or after ``wall``, or ``None`` if there is none within the horizon."""
        day, sod = divmod(wall, _DAY)
        try:
            today = date.fromordinal(day + _EPOCH)
        except (ValueError, OverflowError):
            return None if day > 0 else self._next_day(_FIRST_YEAR, 1, 1)
        year, month = today.year, today.month
        if self._months >> month & 1 and self._days.of(year, month) >> today.day & 1 and self._has_year(year):
            hour, rest = divmod(sod, 3600)
            hours = self._hours >> hour
            if hours & 1:
                minute, second = divmod(rest, 60)
                minutes = self._minutes >> minute
                if minutes & 1:
                    seconds = self._seconds >> second
                    if seconds:
                        return wall + (seconds & -seconds).bit_length() - 1
                minutes >>= 1
                if minutes:
                    minute += (minutes & -minutes).bit_length()
                    return day * _DAY + hour * 3600 + minute * 60 + _low(self._seconds)
            hours >>= 1
            if hours:
                hour += (hours & -hours).bit_length()
                return day * _DAY + hour * 3600 + self._start % 3600
        return self._next_day(year, month, today.day + 1)

    def previous(self, wall: int) -> int | None:
        """The last matching reading at or before ``wall``, or ``None`` if there is none within the horizon."""
        day, sod = divmod(wall, _DAY)
        try:
            today = date.fromordinal(day + _EPOCH)
        except (ValueError, OverflowError):
            return None if day < 0 else self._previous_day(_LAST_YEAR, 12, 31)
        if self._matches_day(today):
            hour, rest = divmod(sod, 3600)
            minute, second = divmod(rest, 60)
            if self._hours >> hour & 1:
                if self._minutes >> minute & 1:
                    seconds = self._seconds & ((2 << second) - 1)
                    if seconds:
                        return wall - second + seconds.bit_length() - 1
                minutes = self._minutes & ((1 << minute) - 1)
                if minutes:
                    return day * _DAY + hour * 3600 + (minutes.bit_length() - 1) * 60 + self._last_sod % 60
            hours = self._hours & ((1 << hour) - 1)
            if hours:
                return day * _DAY + (hours.bit_length() - 1) * 3600 + self._last_sod % 3600
        return self._previous_day(today.year, today.month, today.day - 1)

    def count(self, first: int, last: int) -> int:
        """How many matching readings lie in [``first``, ``last``]; 0 when the range is empty."""
        first, last = max(first, _FIRST_READING), min(last, _LAST_READING)
        if last < first:
            return 0
        first_day, first_sod = divmod(first, _DAY)
        last_day, last_sod = divmod(last, _DAY)
        total = self._count_days(first_day, last_day - 1) * self._per_day
        if self._matches_day_number(last_day):
            total += self._count_until(last_sod + 1)
        if self._matches_day_number(first_day):
            total -= self._count_until(first_sod)
        return total

    def _has_year(self, year: int) -> bool:
        return self._years is None or (year >= _BASE_YEAR and self._years >> (year - _BASE_YEAR) & 1 == 1)

    def _matches_day(self, day: date) -> bool:
        year, month = day.year, day.month
        return bool(self._months >> month & 1) and bool(self._days.of(year, month) >> day.day & 1) and self._has_year(year)

    def _matches_day_number(self, day: int) -> bool:
        return self._matches_day(date.fromordinal(day + _EPOCH))

    def _next_day(self, year: int, month: int, day: int) -> int | None:
        """The first reading on a matching day at or after this date; ``day`` may lie one past the end of the month."""
        stop = year + _HORIZON
        if self._years is not None:
            stop = _BASE_YEAR + self._years.bit_length() - 1
            if year < _BASE_YEAR:
                year, month, day = _BASE_YEAR, 1, 1
        stop = min(stop, _LAST_YEAR)
        while year <= stop:
            if self._years is not None and not self._years >> (year - _BASE_YEAR) & 1:
                year += _low(self._years >> (year - _BASE_YEAR))
                month, day = 1, 1
            if self._months >> month & 1:
                days = self._days.of(year, month) >> day
                if days:
                    day += _low(days)
                    return (date(year, month, day).toordinal() - _EPOCH) * _DAY + self._start
            months = self._months >> (month + 1)
            if months:
                month += 1 + _low(months)
            else:
                year, month = year + 1, _low(self._months)
            day = 1
        return None

    def _previous_day(self, year: int, month: int, day: int) -> int | None:
        """The last reading on a matching day at or before this date; ``day`` may be 0."""
        stop = max(year - _HORIZON, _FIRST_YEAR)
        if self._years is not None:
            stop = _BASE_YEAR + _low(self._years)
        while year >= stop:
            if self._years is not None and not self._years >> (year - _BASE_YEAR) & 1:
                below = self._years & ((1 << (year - _BASE_YEAR)) - 1)
                year, month, day = _BASE_YEAR + below.bit_length() - 1, 12, 31
            if self._months >> month & 1:
                days = self._days.of(year, month) & ((2 << day) - 1)
                if days:
                    return (date(year, month, days.bit_length() - 1).toordinal() - _EPOCH) * _DAY + self._last_sod
            months = self._months & ((1 << month) - 1)
            if months:
                month = months.bit_length() - 1
            else:
                year, month = year - 1, self._months.bit_length() - 1
            day = 31
        return None

    def _count_days(self, first: int, last: int) -> int:
        """Matching days among the day numbers [``first``, ``last``], month by month."""
        if last < first:
            return 0
        start, stop = date.fromordinal(first + _EPOCH), date.fromordinal(last + _EPOCH)
        total = 0
        year, month, day = start.year, start.month, start.day
        while (year, month) <= (stop.year, stop.month):
            if self._months >> month & 1 and self._has_year(year):
                days = self._days.of(year, month) >> day << day
                if (year, month) == (stop.year, stop.month):
                    days &= (2 << stop.day) - 1
                total += days.bit_count()
            year, month, day = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
        return total

    def _count_until(self, sod: int) -> int:
        """Matching times of day strictly before second ``sod`` of the day."""
        hour, rest = divmod(sod, 3600)
        minute, second = divmod(rest, 60)
        minutes, seconds = self._minutes.bit_count(), self._seconds.bit_count()
        total = (self._hours & ((1 << hour) - 1)).bit_count() * minutes * seconds
        if self._hours >> hour & 1:
            total += (self._minutes & ((1 << minute) - 1)).bit_count() * seconds
            if self._minutes >> minute & 1:
                total += (self._seconds & ((1 << second) - 1)).bit_count()
        return total


def _low(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _high(mask: int) -> int:
    return mask.bit_length() - 1
