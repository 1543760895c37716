"""The grammar of one cron field: text in, a checked tuple of items out, or a refusal that says what is allowed.

The rules are those of crontab(5) (numbers, names, ranges, lists, steps), with Quartz's L, W and #. Everything is decided
here, so that the library which expands the plain items afterwards never sees a text on which engines disagree.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final, NoReturn

from cronpad_core.schedules.fields import DAY, WEEKDAY, YEAR, CronField, Place
from cronpad_core.schedules.hashed import Draw, is_hash, parse_hash, parse_random
from cronpad_core.schedules.values import parse_value

__all__ = ["FieldText", "Item", "LastDay", "LastWeekday", "NearestWeekday", "NthWeekday", "Span", "parse_field"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The values ``low``, ``low + step``, … up to ``high``; one value where the two are equal."""

    low: int
    high: int
    step: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LastDay:
    """``L`` and ``L-n``: the last day of the month, or ``back`` days before it."""

    back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWeekday:
    """``LW``: the last Monday-to-Friday of the month."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestWeekday:
    """``nW``: the Monday-to-Friday nearest to day ``day``, inside the month; a month without that day has none."""

    day: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NthWeekday:
    """``d#n`` and ``dL``: the ``nth`` such weekday of the month, 0 for the last."""

    weekday: int
    nth: int


Item = Span | Draw | LastDay | LastWeekday | NearestWeekday | NthWeekday


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldText:
    """One checked field. ``starred`` is cron's flag: the text starts with ``*`` (or is ``?``), whatever follows."""

    field: CronField
    text: str
    items: tuple[Item, ...]
    starred: bool
    warnings: tuple[str, ...] = ()


_DIGITS: Final = re.compile(r"[0-9]+\Z")
_NEGATIVE: Final = re.compile(r"-[0-9]+\Z")
_LAST_BACK: Final = re.compile(r"L-([0-9]*)\Z")
_NEAREST: Final = re.compile(r"(?:([0-9]+)W|W([0-9]+))\Z")
_ONE_WEEKDAY: Final = re.compile(r"(?:([0-9]|[A-Z]{3})L|L([0-9]|[A-Z]{3}))\Z")
_DAY_LETTERS: Final = re.compile(r"(?:L|W|LW|WL|L-[0-9]+|[0-9]+W|[0-9]+L)\Z")


def parse_field(text: str, place: Place) -> FieldText:
    """Check one field and read its items; raises ``ScheduleError`` with the place and the offending part."""
    field = place.field
    _refuse_non_ascii(text, place)
    if "?" in text:
        if text != "?" or field not in (DAY, WEEKDAY):
            hint = "'?' is only allowed alone, and only in day-of-month or day-of-week. Use '*' here."
            place.refuse("question-mark", text, hint, suggestion="*")
        return FieldText(field=field, text=text, items=(_star(field),), starred=True)
    parts = text.split(",")
    if "" in parts:
        mended = ",".join(part for part in parts if part)
        message = f"an item of the list '{text}' is empty; allowed: {field.allowed}. Remove the extra comma."
        place.refuse("empty-item", text, message, suggestion=mended or None)
    items = tuple(_parse_item(part, place, index) for index, part in enumerate(parts))
    warnings = tuple(
        _large_step(part, item, field)
        for part, item in zip(parts, items, strict=True)
        if isinstance(item, Span) and item.step > 1 and item.step > item.high - item.low
    )
    return FieldText(field=field, text=text, items=items, starred=text[0] == "*", warnings=warnings)


def _star(field: CronField) -> Span:
    return Span(low=field.low, high=field.star_high)


def _large_step(part: str, item: Span, field: CronField) -> str:
    step = item.step
    unit = {"second": "s", "minute": "m", "hour": "h"}.get(field.name)
    instead = f"; for every {step} {field.name}s write 'every {step}{unit}'" if unit and step < 10_000 else ""
    return f"{field.name} field: the step of '{part}' is larger than its range, so it matches {item.low} only{instead}."


def _refuse_non_ascii(text: str, place: Place) -> None:
    if text.isascii():
        return
    odd = next(char for char in text if not char.isascii())
    plain = unicodedata.normalize("NFKC", text)
    message = f"'{text}' contains '{odd}' (U+{ord(odd):04X}); only ASCII characters are allowed."
    if plain.isascii() and plain.isprintable():
        place.refuse("non-ascii", text, f"{message} Did you mean '{plain}'?", suggestion=plain)
    place.refuse("non-ascii", text, message)


def _parse_item(item: str, place: Place, index: int) -> Item:
    field = place.field
    if is_hash(item):
        return parse_hash(item, place, index)
    if "~" in item:
        return parse_random(item, place, index)
    if "#" in item:
        if field is not WEEKDAY:
            message = f"'{item}': '#' is only allowed in day-of-week; allowed: {field.allowed}."
            place.refuse("hash-in-wrong-field", item, message)
        return _parse_nth(item, place)
    base, step = _split_step(item, place)
    upper = base.upper()
    if field is DAY and (upper[:1] == "L" or "W" in upper):
        special = _parse_day_letters(item, upper, step, place)
        if special is not None:
            return special
    elif field is WEEKDAY and upper and (upper[0] == "L" or upper[-1] == "L" or upper == "W"):
        return _parse_last_weekday(item, upper, step, place)
    if _DAY_LETTERS.match(upper):
        letter = upper[0] if upper[0] in "LW" else upper[-1]
        home = WEEKDAY if letter == "L" and upper[0].isdigit() else DAY
        message = f"'{item}' is only allowed in {home.name}; allowed: {field.allowed}."
        place.refuse("letter-in-wrong-field", item, message)
    return _parse_span(item, base, step, place)


def _split_step(item: str, place: Place) -> tuple[str, int | None]:
    """The part before ``/`` and the step, ``None`` where there is none."""
    base, slash, step = item.partition("/")
    if not slash:
        return base, None
    if "/" in step:
        place.refuse("two-steps", item, f"'{item}' has two '/'; only one step is allowed, for example */15.")
    if not step:
        place.refuse("step-missing", item, f"'{item}': a number must follow '/'; for example */15.")
    if not _DIGITS.match(step):
        place.refuse("step-not-a-number", item, f"'{item}': the step '{step}' is not a whole number.")
    if not step.strip("0"):
        place.refuse("step-zero", item, f"'{item}': the step must be 1 or more.")
    if not base:
        message = f"'{item}': something must stand before '/'."
        place.refuse("step-no-base", item, message, suggestion=f"*/{step}")
    # Longer digit strings all mean "beyond any field"; int() on them would cost quadratic time.
    return base, int(step) if len(step) < 10 else 10**9


def _parse_span(item: str, base: str, step: int | None, place: Place) -> Span:
    field = place.field
    if "*" in base:
        if base != "*":
            mended = None if base.strip("*") else "*" if step is None else f"*/{step}"
            message = f"'{item}': '*' stands alone or before a step; allowed: {field.allowed}."
            place.refuse("star-mixed", item, message, suggestion=mended)
        return Span(low=field.low, high=field.star_high, step=step or 1)
    if _NEGATIVE.match(base):
        message = f"'{item}': negative numbers are not allowed; allowed: {field.allowed}."
        place.refuse("negative", item, message, suggestion=base[1:])
    first, dash, last = base.partition("-")
    if not dash:
        low = parse_value(base, item, place)
        if step is None:
            return Span(low=low, high=low)
        return Span(low=low, high=max(low, field.star_high), step=step)
    if "-" in last:
        example = "1-6" if field.low == 1 else "2026-2030" if field is YEAR else "0-5"
        place.refuse("range-shape", item, f"'{item}': a range has one '-', for example {example}.")
    if not first or not last:
        mended = f"{first}-{field.high}" if first.isdigit() else None
        message = f"'{item}': a range needs both ends; allowed: {field.allowed}."
        place.refuse("range-open", item, message, suggestion=mended)
    low = parse_value(first, item, place)
    high = parse_value(last, item, place)
    if field is WEEKDAY and high == 0 and low > 0:
        high = 7
    if high < low:
        _refuse_backwards(item, first, last, low, high, step, place)
    return Span(low=low, high=high, step=step or 1)


def _refuse_backwards(item: str, first: str, last: str, low: int, high: int, step: int | None, place: Place) -> NoReturn:
    """cronie's crontab(5): the first number must be less than or equal to the second. The message shows how to wrap."""
    if step is not None:
        place.refuse("range-backwards", item, f"'{item}' runs backwards. List the values instead.")
    field = place.field
    until = first if low == field.star_high else f"{first}-{field.star_high}"
    since = last if high == field.low else f"{field.low}-{last}"
    wrapped = since if low > field.star_high else f"{until},{since}"
    place.refuse("range-backwards", item, f"'{item}' runs backwards. To wrap around write {wrapped}.", suggestion=wrapped)


def _parse_day_letters(item: str, upper: str, step: int | None, place: Place) -> Item | None:
    """L, L-n, LW and nW of day-of-month; ``None`` where the text is none of them after all."""
    allowed = place.field.allowed
    last_back = _LAST_BACK.match(upper)
    if step is not None and (upper in ("L", "LW", "WL") or last_back):
        message = f"'{item}': L takes no step; allowed: {allowed}. Write L, or */{step} for every second day."
        message = message if step == 2 else message.replace("for every second day", f"for every {step} days")
        place.refuse("L-step", item, message, suggestion="L")
    if upper == "L":
        return LastDay()
    if last_back:
        digits = last_back[1]
        if not digits or len(digits) > 4 or not 1 <= int(digits) <= 30:
            place.refuse("L-offset", item, f"'{item}': the offset after L- must be 1-30; allowed: {allowed}.")
        return LastDay(back=int(digits))
    if upper in ("LW", "WL"):
        return LastWeekday()
    if upper == "W":
        example = "For example 15W, the weekday nearest to the 15th, or LW, the last weekday."
        place.refuse("bare-W", item, f"'W' needs a day before it; allowed: {allowed}. {example}")
    nearest = _NEAREST.match(upper)
    if nearest and step is None:
        return NearestWeekday(day=parse_value(nearest[1] or nearest[2], item, place))
    if re.match(r"L-[0-9]+W\Z", upper):
        message = f"'{item}': the weekday nearest to a day counted from the end is not supported; allowed: {allowed}."
        place.refuse("W-range", item, f"{message} LW is the last weekday.")
    if upper[-1] == "W" and any(char.isdigit() for char in upper):
        message = f"'{item}': W follows one single day, not a range or a step; allowed: {allowed}. For example 15W."
        place.refuse("W-range", item, message)
    return None


def _parse_nth(item: str, place: Place) -> NthWeekday:
    """``d#n`` of day-of-week: 2#3 is the third Tuesday, 5#L the last Friday."""
    day, _, nth = item.partition("#")
    if "#" in nth:
        message = f"'{item}' has two '#'; write weekday#n, for example 2#3 for the third Tuesday."
        place.refuse("hash-twice", item, message)
    if not day:
        place.refuse("hash-no-day", item, f"'{item}': a weekday must come before '#'; for example MON#1.")
    if not day.isalnum():
        message = f"'{item}': before '#' stands one weekday, 0-7 or SUN-SAT."
        if day[0].isdigit():
            place.refuse("hash-day", item, f"{message} Write 1#1,2#1 rather than a range.")
        word = day[:3].upper()
        place.refuse("hash-day", item, message, suggestion=word if word in place.field.words else None)
    weekday = parse_value(day, item, place) % 7
    if nth.upper() == "L":
        return NthWeekday(weekday=weekday, nth=0)
    if nth not in ("1", "2", "3", "4", "5"):
        place.refuse("hash-n", item, f"'{item}': after '#' stands 1-5 or L.")
    return NthWeekday(weekday=weekday, nth=int(nth))


def _parse_last_weekday(item: str, upper: str, step: int | None, place: Place) -> NthWeekday:
    """``5L``, ``FRIL`` and ``L5`` of day-of-week: the last such weekday of the month."""
    allowed = place.field.allowed
    if upper == "L" and step is None:
        instead = "Write SAT for every Saturday, or 6L for the last Saturday of the month."
        place.refuse("bare-L-dow", item, f"'L' alone is ambiguous; allowed: {allowed}. {instead}", suggestion="SAT")
    if upper == "W":
        place.refuse("letter-in-wrong-field", item, f"'{item}' is only allowed in day-of-month; allowed: {allowed}.")
    match = _ONE_WEEKDAY.match(upper)
    if match is None or step is not None:
        message = f"'{item}': with L stands one weekday, for example 5L or FRIL; allowed: {allowed}."
        place.refuse("L-day", item, message)
    return NthWeekday(weekday=parse_value(match[1] or match[2], item, place) % 7, nth=0)
