"""The slow reference: walks every UTC minute of a stretch and replays the clock rules of cron(8), plainly.

Nothing is shared with the package: its own reading of the fields into sets, its own day test, no bit masks, no segments. A
``Stretch`` keeps the local readings of a zone, so that many texts can be walked over it.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
BOUNDS = {"second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}
EPOCH = datetime(1970, 1, 1)


def _number(text: str, field: str) -> int:
    if field == "month" and text in MONTHS:
        return MONTHS.index(text) + 1
    if field == "weekday" and text in WEEKDAYS:
        return WEEKDAYS.index(text)
    return int(text)


def _values(text: str, field: str) -> tuple[set[int], list[str]]:
    """The plain values of a field, and its L, W and # items as text."""
    low, high = BOUNDS[field]
    values: set[int] = set()
    specials: list[str] = []
    for item in text.upper().replace("?", "*").split(","):
        match = re.fullmatch(r"(\*|[0-9A-Z]+)(?:-([0-9A-Z]+))?(?:/([0-9]+))?", item)
        special = (
            "#" in item or (field == "day" and re.search("[LW]", item)) or (field == "weekday" and re.fullmatch(".+L", item))
        )
        if special or match is None:
            specials.append(item)
            continue
        first, last, step = match.groups()
        start = low if first == "*" else _number(first, field)
        if last is not None:
            stop = _number(last, field)
            stop = 7 if field == "weekday" and stop == 0 and start > 0 else stop
        elif first == "*" or step is not None:
            stop = 6 if field == "weekday" and start < 7 else high
        else:
            stop = start
        values |= set(range(start, stop + 1, int(step or 1)))
    return ({value % 7 for value in values} if field == "weekday" else values), specials


class SlowCron:
    """A five- or six-field text as plain sets."""

    def __init__(self, text: str) -> None:
        parts = text.split()
        if len(parts) == 5:
            parts = ["0", *parts]
        second, minute, hour, day, month, weekday = parts
        self.seconds = sorted(_values(second, "second")[0])
        self.minutes = _values(minute, "minute")[0]
        self.hours = _values(hour, "hour")[0]
        self.days, self.day_specials = _values(day, "day")
        self.months = _values(month, "month")[0]
        self.weekdays, self.weekday_specials = _values(weekday, "weekday")
        self.both = day[0] in "*?" or weekday[0] in "*?"
        self.wildcard = "*" in (second[0], minute[0], hour[0])
        self._known: dict[date, bool] = {}

    def matches_day(self, day: date) -> bool:
        known = self._known.get(day)
        if known is None:
            known = self._known[day] = self._matches_day(day)
        return known

    def _matches_day(self, day: date) -> bool:
        last = calendar.monthrange(day.year, day.month)[1]
        by_day = day.day in self.days or any(self._special_day(item, day, last) for item in self.day_specials)
        weekday = day.isoweekday() % 7
        by_weekday = weekday in self.weekdays
        for item in self.weekday_specials:
            name, _, nth = item.partition("#") if "#" in item else (item.strip("L"), "#", "L")
            if weekday == _number(name, "weekday") % 7:
                by_weekday |= day.day + 7 > last if nth == "L" else (day.day - 1) // 7 + 1 == int(nth)
        matched = (by_day and by_weekday) if self.both else (by_day or by_weekday)
        return matched and day.month in self.months

    @staticmethod
    def _special_day(item: str, day: date, last: int) -> bool:
        if item == "L":
            return day.day == last
        if item.startswith("L-"):
            return day.day == last - int(item[2:])
        wanted = last if item == "LW" else int(item[:-1])
        if wanted > last or day.weekday() > 4:
            return False
        near = [other for other in range(1, last + 1) if date(day.year, day.month, other).weekday() < 5]
        return day.day == min(near, key=lambda other: abs(other - wanted))

    def matches(self, reading: int) -> bool:
        """Whether the minute ``reading`` (minutes of naive local time since 1970) matches."""
        day, minute = divmod(reading, 1440)
        if minute % 60 not in self.minutes or minute // 60 not in self.hours:
            return False
        return self.matches_day(EPOCH.date() + timedelta(days=day))


class Stretch:
    """Every UTC minute from ``start`` to ``end`` with the reading of the zone's clock."""

    def __init__(self, zone: str, start: datetime, end: datetime) -> None:
        self.start = int(start.timestamp())
        self.end = int(end.timestamp())
        self.zone = zone
        key = ZoneInfo(zone)
        # A fold of up to three hours before or after the stretch still decides about fires in it.
        lead = 4 * 3600
        self.readings: list[tuple[int, int]] = []
        for at in range(self.start - lead, self.end + lead, 60):
            local = datetime.fromtimestamp(at, key).replace(tzinfo=None)
            self.readings.append((at, (local - EPOCH) // timedelta(minutes=1)))
        self._crons: dict[str, SlowCron] = {}
        self._known: dict[tuple[str, str | None, str | None], list[int]] = {}

    def fires(self, text: str, gap: str | None = None, fold: str | None = None) -> list[int]:
        """All fires in [start, end) as UTC seconds; ``gap`` and ``fold`` override cron's rules."""
        key = (text, gap, fold)
        if key not in self._known:
            cron = self._crons.setdefault(text, SlowCron(text))
            self._known[key] = self._walk(cron, gap, fold)
        return self._known[key]

    def _walk(self, cron: SlowCron, gap: str | None, fold: str | None) -> list[int]:
        gap = gap or ("skip" if cron.wildcard else "run_after")
        fold = fold or ("both" if cron.wildcard else "first")
        real: set[int] = set()
        made_up: set[int] = set()
        seen = before = self.readings[0][1] - 1
        for at, reading in self.readings:
            jump = reading - before - 1
            if 0 < jump < 180 and gap != "skip":
                skipped = [other for other in range(before + 1, reading) if cron.matches(other)]
                if skipped and gap == "run_after":
                    made_up.add(at)
                if gap == "shift":
                    moved = [at + (other - before - 1) * 60 for other in skipped]
                    made_up |= {minute + second for minute in moved for second in cron.seconds}
            if -180 <= jump < 0:
                seen = before
                if fold == "last":
                    real = {fire for fire in real if fire < at + jump * 60}
            elif jump:
                seen = reading - 1
            if cron.matches(reading) and not (fold == "first" and reading <= seen):
                real |= {at + second for second in cron.seconds}
            before = reading
        return sorted(fire for fire in real | made_up if self.start <= fire < self.end)


def changes(zone: str, first_year: int, last_year: int) -> list[datetime]:
    """The UTC instants at which the zone's offset changes, to the minute, found by probing every six hours."""
    key = ZoneInfo(zone)

    def offset(at: int) -> timedelta | None:
        return datetime.fromtimestamp(at, key).utcoffset()

    found: list[datetime] = []
    at = int(datetime(first_year, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(last_year + 1, 1, 1, tzinfo=UTC).timestamp())
    while at < end:
        if offset(at) != offset(at + 21600):
            low, high = at, at + 21600
            while high - low > 60:
                middle = (low + high) // 120 * 60
                low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
            found.append(datetime.fromtimestamp(high, UTC))
        at += 21600
    return found
