"""``every 1h30m``: elapsed time from an anchor, in UTC, so that a clock change neither stretches nor shrinks it."""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Final, NoReturn

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.schedules.facts import ScheduleFacts
from cronpad_core.schedules.moments import LAST_MS, to_datetime
from cronpad_core.schedules.timeline import Timeline

__all__ = ["IntervalSchedule", "parse_interval"]

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_UNITS: Final = {
    **{word: "s" for word in ("s", "sec", "secs", "second", "seconds")},
    **{word: "m" for word in ("m", "min", "mins", "minute", "minutes")},
    **{word: "h" for word in ("h", "hr", "hrs", "hour", "hours")},
    **{word: "d" for word in ("d", "day", "days")},
    **{word: "w" for word in ("w", "wk", "week", "weeks")},
}
_NO_LENGTH: Final = {
    "month": ("A month has no fixed length. Use the cron form '0 0 1 * *' or @monthly.", "@monthly"),
    "year": ("A year has no fixed length. Use the cron form '0 0 1 1 *' or @yearly.", "@yearly"),
}
_NO_LENGTH_WORDS: Final = {
    **{word: "month" for word in ("mo", "mon", "month", "months")},
    **{word: "year" for word in ("y", "yr", "yrs", "year", "years")},
}
_DAYS: Final = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_PART: Final = re.compile(r"([0-9]+)\s*([A-Za-z]*)\s*")
# Ten years with three leap days.
_LONGEST: Final = 3653 * 86400


def parse_interval(text: str) -> int:
    """The length in seconds of what stands after ``every``; raises ``ScheduleError`` with field ``interval``."""
    body = text.strip(" \t\r\n\f\v")
    if not body:
        _refuse("interval-missing", "", "'every' needs a length of time, for example 'every 30s' or 'every 1h30m'.", "every 30s")
    if not body.isascii():
        _refuse("interval-format", body, f"'{body}': only ASCII characters are allowed, for example 'every 30s'.")
    if body[0] == "-":
        mended = f"every {body[1:].strip()}"
        _refuse("interval-negative", body, f"The interval must be positive. Did you mean '{mended}'?", mended)
    if re.match(r"[0-9]*[.,][0-9]", body):
        _refuse_fraction(body)
    if not body[0].isdigit():
        _refuse_word(body)
    total, at = 0, 0
    units: list[str] = []
    while at < len(body):
        part = _PART.match(body, at)
        if part is None:
            _refuse("interval-format", body, f"'{body}' is not a length of time; write for example 'every 1h30m'.", "every 1h30m")
        if re.match(r"[.,][0-9]", body[part.end() :]):
            _refuse_fraction(body)
        total += _part_seconds(part[1], part[2], body, first=at == 0)
        if _UNITS[part[2].lower()] in units:
            _refuse(
                "interval-unit", part[2], f"The unit '{part[2]}' stands there twice; write each unit once, for example 1h30m."
            )
        units.append(_UNITS[part[2].lower()])
        at = part.end()
    if total == 0:
        _refuse("interval-zero", body, "The interval must be at least 1 second.", "every 1s")
    if total > _LONGEST:
        _refuse("interval-too-long", body, "The longest interval is 10 years.")
    return total


def _part_seconds(digits: str, word: str, body: str, *, first: bool) -> int:
    if not word:
        if first:
            mended = f"every {digits}s"
            _refuse("interval-unit", body, f"The number has no unit; write for example '{mended}'.", mended)
        short = re.sub(r"[a-z]+", lambda match: _UNITS.get(match[0], match[0]), body.lower().replace(" ", ""))
        mended = f"every {short}s"
        _refuse("interval-unit", body, f"The last number has no unit; write '{mended}'.", mended)
    unit = word.lower()
    if unit in _NO_LENGTH_WORDS:
        message, suggestion = _NO_LENGTH[_NO_LENGTH_WORDS[unit]]
        _refuse("interval-unit", word, message, suggestion)
    if unit not in _UNITS:
        _refuse("interval-unit", word, f"Unknown unit '{word}'; allowed: s, m, h, d, w.")
    # Beyond this many digits the length is far over the limit, and int() would take quadratic time.
    return (int(digits) if len(digits) < 12 else 10**12) * _SECONDS[_UNITS[unit]]


def _refuse_fraction(body: str) -> NoReturn:
    match = re.fullmatch(r"([0-9]*)[.,]([0-9]{1,6})\s*([a-z]+)", body.lower())
    message, suggestion = "Whole numbers only.", None
    if match and match[3] in _UNITS and len(match[1]) < 6:
        scale = 10 ** len(match[2])
        seconds = (int(match[1] or "0") * scale + int(match[2])) * _SECONDS[_UNITS[match[3]]]
        if seconds >= scale and seconds % scale == 0:
            suggestion = f"every {_spell(seconds // scale)}"
            message = f"{message} Did you mean '{suggestion}'?"
    _refuse("interval-fraction", body, message, suggestion)


def _spell(seconds: int) -> str:
    words: list[str] = []
    for unit in ("d", "h", "m", "s"):
        count, seconds = divmod(seconds, _SECONDS[unit])
        if count:
            words.append(f"{count}{unit}")
    return "".join(words)


def _refuse_word(body: str) -> NoReturn:
    written = body.split()[0]
    word = written.lower()
    day = _DAYS.get(word[:3])
    if day is not None:
        hour = re.search(r"\bat ([0-9]{1,2})\b", body)
        at = int(hour[1]) if hour and int(hour[1]) < 24 else 9
        name = ("Sun", "Mon", "Tues", "Wednes", "Thurs", "Fri", "Satur")[day]
        mended = f"0 {at} * * {day}"
        message = f"'every' takes a length of time. For {name}days at {at:02d}:00 write '{mended}'."
        _refuse("interval-day", written, message, mended)
    if word in _UNITS:
        mended = f"every 1{_UNITS[word]}"
        _refuse("interval-format", written, f"'every' takes a number and a unit. Did you mean '{mended}'?", mended)
    if word in _NO_LENGTH_WORDS:
        message, suggestion = _NO_LENGTH[_NO_LENGTH_WORDS[word]]
        _refuse("interval-unit", written, message, suggestion)
    _refuse("interval-format", written, f"'{written}' is not a length of time; write for example 'every 1h30m'.", "every 1h30m")


def _refuse(code: str, token: str, message: str, suggestion: str | None = None) -> NoReturn:
    raise ScheduleError(message, code=code, field="interval", token=token, suggestion=suggestion)


class IntervalSchedule(Timeline):
    """Fires at anchor + k × interval for k = 0, 1, 2, …; the anchor itself is the first fire."""

    def __init__(self, *, text: str, timezone: str, zone: tzinfo, every_ms: int, anchor_ms: int) -> None:
        super().__init__(text=text, timezone=timezone, zone=zone)
        self._every_ms = every_ms
        self._anchor_ms = anchor_ms

    def next_after_ms(self, instant_ms: int) -> int | None:
        """The first fire strictly after the instant."""
        elapsed = instant_ms - self._anchor_ms
        if elapsed < 0:
            return self._anchor_ms
        fire = self._anchor_ms + (elapsed // self._every_ms + 1) * self._every_ms
        return fire if fire <= LAST_MS else None

    def prev_at_or_before_ms(self, instant_ms: int) -> int | None:
        """The last fire at or before the instant; ``None`` before the anchor."""
        elapsed = min(instant_ms, LAST_MS) - self._anchor_ms
        return None if elapsed < 0 else self._anchor_ms + elapsed // self._every_ms * self._every_ms

    def count_between_ms(self, after_ms: int, until_ms: int) -> int:
        """How many fires lie in (``after_ms``, ``until_ms``]."""
        first = max((after_ms - self._anchor_ms) // self._every_ms, -1)
        last = (min(until_ms, LAST_MS) - self._anchor_ms) // self._every_ms
        return max(last - first, 0)

    def facts(self) -> ScheduleFacts:
        """The length and the anchor."""
        anchor = to_datetime(self._anchor_ms, self._zone).isoformat()
        return ScheduleFacts(
            kind="interval",
            sentences=(
                f"Every {_spell(self._every_ms // 1000)} of elapsed time, counted from {anchor}.",
                "A clock change does not touch an interval.",
            ),
            every_ms=self._every_ms,
            anchor_ms=self._anchor_ms,
        )
