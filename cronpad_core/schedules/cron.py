"""A cron text becomes sets of values: plain items are expanded by croniter, the only place that knows it.

The grammar is checked before (``grammar``), so croniter sees nothing but numbers, ranges and steps in one normal form. What it
reads unlike other engines never reaches it: an equal range (``5-5``, a whole cycle in croniter 7) goes in as a single number,
a full range as ``*``, and L, W, #, H, ``~``, ``?``, the year and every question of time are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.schedules.fields import FIELDS, LAYOUTS, YEAR, CronField, Place
from cronpad_core.schedules.grammar import FieldText, Item, Span, parse_field
from cronpad_core.schedules.hashed import Draw, drawn_span

__all__ = ["ALIASES", "CronText", "parse_cron"]

ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_EVERY_WORDS: Final = {
    "second": "every 1s",
    "minute": "* * * * *",
    "hour": "@hourly",
    "day": "@daily",
    "night": "@daily",
    "week": "@weekly",
    "month": "@monthly",
    "year": "@yearly",
    "weekday": "0 9 * * 1-5",
    **{f"{name}day": f"0 9 * * {at}" for at, name in enumerate(("sun", "mon", "tues", "wednes", "thurs", "fri", "satur"))},
}
_SHAPE: Final = "a schedule has 5 (minute hour day-of-month month day-of-week), 6 (second first) or 7 (second first, year last)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CronText:
    """A checked cron text as bits: bit ``v`` of a mask is set where value ``v`` is allowed (years from 1970 on).

    ``days_both`` is the day rule, ``wildcard`` the clock rule; both come from the first characters, as in cron.
    """

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    years: int | None
    day_extras: tuple[Item, ...]
    weekday_extras: tuple[Item, ...]
    days_both: bool
    wildcard: bool
    resolved: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]


def parse_cron(text: str, *, seed: str | None) -> CronText:
    """Read a text of five, six or seven fields; ``seed`` is what H and ``~`` are drawn from."""
    parts = text.split(" ")
    fields = LAYOUTS.get(len(parts))
    if fields is None:
        _refuse_field_count(text, parts)
    places = [Place(field=field, position=at) for at, field in enumerate(fields, 1)]
    read = [parse_field(part, place) for part, place in zip(parts, places, strict=True)]
    warnings = [warning for one in read for warning in one.warnings]
    drawn = any(isinstance(item, Draw) for one in read for item in one.items)
    if drawn and seed is None:
        warnings.append("H and ~ are drawn from the job's id, and none was given: the job itself will get other values.")
    by_name = {one.field.name: _draw(one, seed or "") for one in read}
    return _assemble(by_name, warnings)


def _refuse_field_count(text: str, parts: list[str]) -> NoReturn:
    count = len(parts)
    names = [field.name for field in LAYOUTS[5]]
    found = f"Found {count} field{'' if count == 1 else 's'}; {_SHAPE}."
    if count == 1:
        hint = "A cron schedule has five fields separated by spaces, for example '0 9 * * 1-5'."
        alias = f"@{text.lower()}"
        if alias in ALIASES:
            hint += f" Or write {alias}."
        suggestion = alias if alias in ALIASES else None
    elif count < 5:
        suggestion = " ".join([*parts, *["*"] * (5 - count)])
        hint = f"Missing: {', '.join(names[count:])}. For example '{suggestion}'."
        if parts[0].lower() == "every":
            suggestion = _EVERY_WORDS.get(parts[1].lower(), "every 30s")
            hint = f"Missing: {', '.join(names[count:])}. 'every' takes a length of time, for example 'every 30s'."
            hint += f" Did you mean '{suggestion}'?"
    else:
        hint, suggestion = "Is a command or a comment part of the text?", None
    odd = next((char for char in text if not char.isascii()), None)
    if odd is not None:
        hint += (
            f" The text contains '{odd}' (U+{ord(odd):04X}); only ASCII characters are allowed, and only ASCII blanks separate."
        )
    raise ScheduleError(f"{found} {hint}", code="field-count", token=text, suggestion=suggestion)


def _draw(one: FieldText, seed: str) -> FieldText:
    """The field with its draws made; texts without one are returned as they are."""
    if not any(isinstance(item, Draw) for item in one.items):
        return one
    items: list[Item] = []
    words: list[str] = []
    for item, word in zip(one.items, one.text.split(","), strict=True):
        if isinstance(item, Draw):
            low, high, step = drawn_span(item, one.field, seed)
            items.append(Span(low=low, high=high, step=step))
            words.append(str(low) if low == high else f"{low}-{high}" if step == 1 else f"{low}-{high}/{step}")
        else:
            items.append(item)
            words.append(word)
    return FieldText(field=one.field, text=",".join(words), items=tuple(items), starred=one.starred)


def _assemble(read: dict[str, FieldText], warnings: list[str]) -> CronText:
    days, weekdays = read["day-of-month"], read["day-of-week"]
    days_both = days.starred or weekdays.starred
    if not days_both:
        warnings.append(
            "Both day fields are restricted: the job runs on days that match either of them, not only on days that match both."
        )
    masks = _expand(read)
    return CronText(
        seconds=masks.get("second", 1),
        minutes=masks["minute"],
        hours=masks["hour"],
        days=masks["day-of-month"],
        months=masks["month"],
        weekdays=masks["day-of-week"],
        years=_year_mask(read.get("year")),
        day_extras=tuple(item for item in days.items if not isinstance(item, Span)),
        weekday_extras=tuple(item for item in weekdays.items if not isinstance(item, Span)),
        days_both=days_both,
        wildcard=any(name in read and read[name].starred for name in ("second", "minute", "hour")),
        resolved=tuple((field.name, read[field.name].text) for field in FIELDS if field.name in read),
        warnings=tuple(warnings),
    )


def _year_mask(one: FieldText | None) -> int | None:
    """The years as bits from 1970 on (ours: croniter stops at 2099), ``None`` where every year is allowed."""
    if one is None or one.text == "*":
        return None
    mask = 0
    for item in one.items:
        if isinstance(item, Span):
            for year in range(item.low, item.high + 1, item.step):
                mask |= 1 << (year - YEAR.low)
    return mask


# croniter's own order: the second comes last.
_ORDER: Final = ("minute", "hour", "day-of-month", "month", "day-of-week", "second")


def _expand(read: dict[str, FieldText]) -> dict[str, int]:
    """The plain items of each field as a mask, 0 where a field consists of extensions only."""
    # Imported here because it costs more than the rest of the package together, and many commands parse no cron text.
    from croniter import croniter

    names = [name for name in _ORDER if name in read]
    plain = {name: _plain(read[name]) for name in names}
    expanded, _ = croniter.expand(" ".join(plain[name] or "*" for name in names))
    masks: dict[str, int] = {}
    for name, values in zip(names, expanded, strict=True):
        mask = 0
        for value in values if plain[name] else ():
            mask |= _full(read[name].field) if value == "*" else 1 << int(value)
        masks[name] = mask
    return masks


def _full(field: CronField) -> int:
    return (1 << (field.star_high + 1)) - (1 << field.low)


def _plain(one: FieldText) -> str:
    """The spans of a field in the one form that every engine reads alike."""
    field = one.field
    words: list[str] = []
    for item in one.items:
        if not isinstance(item, Span):
            continue
        if item.step > item.high - item.low:
            # One value, and never "5-5": croniter reads an equal range as the whole cycle.
            words.append(str(item.low))
        elif item.step == 1 and (item.low, item.high) == (field.low, field.star_high):
            words.append("*")
        else:
            words.append(f"{item.low}-{item.high}/{item.step}" if item.step > 1 else f"{item.low}-{item.high}")
    return "*" if "*" in words else ",".join(words)
