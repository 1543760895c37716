"""``at 2026-12-24T18:00``: one fire at an instant, given with an offset or on the clock of the job's zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final, NoReturn

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.schedules.calendar import month_length
from cronpad_core.schedules.changes import FoldRule, GapRule
from cronpad_core.schedules.facts import ScheduleFacts
from cronpad_core.schedules.moments import to_datetime, to_ms
from cronpad_core.schedules.timeline import Timeline

__all__ = ["OneShotSchedule", "parse_once"]

_EXAMPLE: Final = "at 2026-12-24T18:00"
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})\Z")
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?(Z|z|[+-][0-9]{2}:?[0-9]{2})?\Z")
_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def parse_once(text: str) -> datetime:
    """The date and time after ``at``: aware where the text has an offset, else naive, to be read in the job's zone."""
    words = text.replace("\t", " ").split(" ")
    words = [word for word in words if word]
    if not words:
        _refuse("at-missing", "", f"'at' needs a time, for example '{_EXAMPLE}'.", _EXAMPLE)
    joined = re.split(r"[Tt]", words[0], maxsplit=1) if _DATE.match(words[0][:10]) and len(words[0]) > 10 else [words[0]]
    parts = [*joined, *words[1:]]
    date = _DATE.match(parts[0])
    if date is None:
        _refuse_shape(parts[0], words)
    if len(parts) == 1:
        mended = f"at {parts[0]}T00:00"
        _refuse("at-no-time", parts[0], f"The time of day is missing; write for example '{mended}'.", mended)
    time = _TIME.match(parts[1])
    if time is None:
        message = f"'{parts[1]}' is not a time of day in whole seconds; write for example '{_EXAMPLE}'."
        _refuse("at-format", parts[1], message, _EXAMPLE)
    if len(parts) > 2:
        message = "Put the zone in the job's timezone setting, or give an offset such as +02:00."
        _refuse("at-zone", " ".join(parts[2:]), message, f"at {parts[0]}T{parts[1]}")
    year, month, day = _checked_date(date)
    hour, minute, second = _checked_time(time, parts[1], date)
    zone = _offset(time[4])
    return datetime(year, month, day, hour, minute, second, tzinfo=zone)


def _refuse_shape(token: str, words: list[str]) -> NoReturn:
    if _TIME.match(token):
        hour, minute = int(token[:2]), int(token[3:5])
        message = f"The date is missing; write for example '{_EXAMPLE}'."
        if hour > 23 or minute > 59:
            _refuse("at-no-date", token, message, _EXAMPLE)
        daily = f"{minute} {hour} * * *"
        _refuse("at-no-date", token, f"{message} For daily at {token[:5]} use '{daily}'.", daily)
    token = " ".join(words)
    _refuse("at-format", token, f"'{token}' is not an ISO date and time; write for example '{_EXAMPLE}'.", _EXAMPLE)


def _checked_date(date: re.Match[str]) -> tuple[int, int, int]:
    year, month, day = int(date[1]), int(date[2]), int(date[3])
    if year == 0:
        _refuse("at-date", date[1], "Year 0 is out of range; allowed: 1-9999.")
    if not 1 <= month <= 12:
        _refuse("at-date", date[2], f"Month {month} is out of range; allowed: 1-12.")
    length = month_length(year, month)
    if not 1 <= day <= length:
        _refuse("at-date", date[0], f"{date[0]} does not exist: {_MONTHS[month - 1]} {year} has {length} days.")
    return year, month, day


def _checked_time(time: re.Match[str], text: str, date: re.Match[str]) -> tuple[int, int, int]:
    hour, minute, second = int(time[1]), int(time[2]), int(time[3] or 0)
    token = text[: time.end(3) if time[3] else time.end(2)]
    if hour == 24 and minute == second == 0 and date[0] != "9999-12-31":
        tomorrow = datetime(*_checked_date(date)) + timedelta(days=1)
        mended = f"{tomorrow:%Y-%m-%d}T00:00"
        message = f"Hour 24 is out of range; midnight is 00:00 of the next day, {mended}."
        _refuse("at-time", token, message, f"at {mended}")
    for name, value, high in (("Hour", hour, 23), ("Minute", minute, 59), ("Second", second, 59)):
        if value > high:
            _refuse("at-time", token, f"{name} {value} is out of range; allowed: 0-{high}.")
    return hour, minute, second


def _offset(text: str | None) -> tzinfo | None:
    if text is None:
        return None
    if text in ("Z", "z"):
        return UTC
    hours, minutes = int(text[1:3]), int(text[-2:])
    if hours > 23 or minutes > 59:
        _refuse("at-offset", text, f"The offset {text} is out of range; allowed: -23:59 to +23:59.")
    delta = timedelta(hours=hours, minutes=minutes)
    return timezone(-delta if text[0] == "-" else delta)


def _refuse(code: str, token: str, message: str, suggestion: str | None = None) -> NoReturn:
    raise ScheduleError(message, code=code, field="time", token=token, suggestion=suggestion)


def place_once(moment: datetime, zone: tzinfo, gap: GapRule | None, fold: FoldRule | None) -> tuple[int, str | None]:
    """The instant in milliseconds, and what a clock change had to do with it.

    A one-shot is never dropped: in skipped time it runs right after the gap, or with ``gap = "shift"`` as much later as the
    gap is long. In repeated time it runs in the first pass, or with ``fold = "last"`` in the second.
    """
    if moment.tzinfo is not None:
        return to_ms(moment), None
    first, second = moment.replace(tzinfo=zone), moment.replace(tzinfo=zone, fold=1)
    early, late = first.utcoffset(), second.utcoffset()
    assert early is not None and late is not None, "a loaded zone knows its offset"
    naive_ms = to_ms(moment.replace(tzinfo=UTC))
    if early == late:
        return naive_ms - early // timedelta(milliseconds=1), None
    if early < late:
        # Skipped: the offset before the change gives the moved instant; the change itself lies where the two readings meet.
        moved_ms = naive_ms - early // timedelta(milliseconds=1)
        if gap is GapRule.SHIFT:
            return moved_ms, "dst_gap: the clock skips this time; the run is moved by the length of the gap"
        return _change_before(moved_ms, zone), "dst_gap: the clock skips this time; it runs at the first instant after the gap"
    chosen, which = (late, "second") if fold is FoldRule.LAST else (early, "first")
    note = f"dst_overlap: the clock shows this time twice; it runs in the {which} pass"
    return naive_ms - chosen // timedelta(milliseconds=1), note


def _change_before(instant_ms: int, zone: tzinfo) -> int:
    """The last change of offset at or before the instant."""
    # A gap is at most a day long, so the change is at most a day back.
    high = instant_ms // 1000
    low = high - 2 * 86400
    target = datetime.fromtimestamp(high, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == target:
            high = middle
        else:
            low = middle
    return high * 1000


class OneShotSchedule(Timeline):
    """One fire, then never again."""

    def __init__(self, *, text: str, timezone: str, zone: tzinfo, at_ms: int, note: str | None) -> None:
        super().__init__(text=text, timezone=timezone, zone=zone)
        self._at_ms = at_ms
        self._note = note

    @property
    def warnings(self) -> tuple[str, ...]:
        """A time that a clock change skips or repeats."""
        return (self._note.partition(": ")[2].capitalize() + ".",) if self._note else ()

    def next_after_ms(self, instant_ms: int) -> int | None:
        """The fire, if it is still to come."""
        return self._at_ms if instant_ms < self._at_ms else None

    def prev_at_or_before_ms(self, instant_ms: int) -> int | None:
        """The fire, if it has been."""
        return self._at_ms if self._at_ms <= instant_ms else None

    def count_between_ms(self, after_ms: int, until_ms: int) -> int:
        """1 if the fire lies in (``after_ms``, ``until_ms``], else 0."""
        return int(after_ms < self._at_ms <= until_ms)

    def note_for_ms(self, instant_ms: int) -> str | None:
        """What a clock change had to do with the fire."""
        return self._note if instant_ms == self._at_ms else None

    def facts(self) -> ScheduleFacts:
        """The instant."""
        at = to_datetime(self._at_ms, self._zone).isoformat()
        return ScheduleFacts(kind="one-shot", sentences=(f"Once, at {at}; then the job is completed.",), at_ms=self._at_ms)
