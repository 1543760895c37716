"""Which days of a month a cron text allows: one bit mask per shape of month, at most 28, built on first use."""

from __future__ import annotations

from datetime import date

from cronpad_core.schedules.cron import CronText
from cronpad_core.schedules.grammar import Item, LastDay, LastWeekday, NearestWeekday, NthWeekday

__all__ = ["DayMasks", "month_length"]

_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def month_length(year: int, month: int) -> int:
    """Days in the month."""
    if month == 2 and year % 4 == 0 and (year % 100 or year % 400 == 0):
        return 29
    return _LENGTHS[month]


class DayMasks:
    """The allowed days of any month. Safe to share: what is cached depends on the text alone.

    The day rule is that of crontab(5) as cron's entry.c has it: where one of the day fields starts with ``*``, a day has to
    match both, otherwise either is enough.
    """

    __slots__ = ("_masks", "_text")

    def __init__(self, text: CronText) -> None:
        self._text = text
        self._masks: dict[int, int] = {}

    def of(self, year: int, month: int) -> int:
        """Bit ``d`` is set where day ``d`` of this month is allowed; months and years themselves are not looked at."""
        first = date(year, month, 1).isoweekday() % 7
        length = month_length(year, month)
        key = first << 5 | length
        mask = self._masks.get(key)
        if mask is None:
            mask = self._masks[key] = self._build(first, length)
        return mask

    def _build(self, first: int, length: int) -> int:
        text = self._text
        by_day = text.days & ((1 << (length + 1)) - 2)
        for extra in text.day_extras:
            by_day |= _day_bit(extra, first, length)
        by_weekday = 0
        for day in range(1, length + 1):
            if text.weekdays >> ((first + day - 1) % 7) & 1:
                by_weekday |= 1 << day
        for extra in text.weekday_extras:
            by_weekday |= _weekday_bit(extra, first, length)
        return by_day & by_weekday if text.days_both else by_day | by_weekday


def _day_bit(item: Item, first: int, length: int) -> int:
    """L, L-n, LW or nW in a month that starts on weekday ``first``; 0 where the month has no such day."""
    match item:
        case LastDay(back=back):
            return 1 << (length - back) if back < length else 0
        case LastWeekday():
            weekday = (first + length - 1) % 7
            return 1 << (length - (2 if weekday == 0 else 1 if weekday == 6 else 0))
        case NearestWeekday(day=day):
            return 1 << _nearest(day, first, length) if day <= length else 0
        case _:
            return 0


def _nearest(day: int, first: int, length: int) -> int:
    """The weekday nearest to ``day`` that stays inside the month, as Quartz defines W."""
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else 3
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def _weekday_bit(item: Item, first: int, length: int) -> int:
    """``d#n`` or ``dL`` in a month that starts on weekday ``first``; 0 where the month has no such day."""
    match item:
        case NthWeekday(weekday=weekday, nth=nth):
            day = 1 + (weekday - first) % 7
            if nth == 0:
                return 1 << (day + (length - day) // 7 * 7)
            day += 7 * (nth - 1)
            return 1 << day if day <= length else 0
        case _:
            return 0
