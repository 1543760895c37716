"""One value of a cron field: a number or a three-letter name, and what is said about anything else."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final, NoReturn

from cronpad_core.schedules.fields import DAY, HOUR, MINUTE, MONTH, MONTHS, SECOND, WEEKDAY, WEEKDAYS, YEAR, CronField, Place

__all__ = ["parse_value", "range_fault"]

_FULL_NAMES: Final = {
    "SUNDAY": "SUN",
    "MONDAY": "MON",
    "TUESDAY": "TUE",
    "TUES": "TUE",
    "WEDNESDAY": "WED",
    "WEDS": "WED",
    "THURSDAY": "THU",
    "THUR": "THU",
    "THURS": "THU",
    "FRIDAY": "FRI",
    "SATURDAY": "SAT",
    "JANUARY": "JAN",
    "FEBRUARY": "FEB",
    "MARCH": "MAR",
    "APRIL": "APR",
    "JUNE": "JUN",
    "JULY": "JUL",
    "AUGUST": "AUG",
    "SEPTEMBER": "SEP",
    "SEPT": "SEP",
    "OCTOBER": "OCT",
    "NOVEMBER": "NOV",
    "DECEMBER": "DEC",
}


def parse_value(text: str, item: str, place: Place) -> int:
    """The number that ``text`` stands for, inside the field's bounds; ``item`` is the whole item, for the message."""
    field = place.field
    if text.isascii() and text.isdigit():
        fault = range_fault(text, field)
        if fault is not None:
            where = f" (in '{item}')" if text != item else ""
            hint = _range_hint(text, field)
            message = f"{text} is out of range{where}; allowed: {field.allowed}.{hint}"
            place.refuse("out-of-range", text, message)
        return int(text)
    number = field.number_of(text)
    if number is not None:
        return number
    _refuse_word(text, item, place)


def range_fault(digits: str, field: CronField) -> str | None:
    """The digits again where they lie outside the field, else ``None``."""
    # int() on a very long digit string is slow, and nothing that long is ever allowed.
    if len(digits.lstrip("0")) > 4 or not field.low <= int(digits) <= field.high:
        return digits
    return None


def _range_hint(digits: str, field: CronField) -> str:
    number = int(digits) if len(digits) < 6 else 10**6
    if field is WEEKDAY and YEAR.low <= number <= YEAR.high:
        return " A year is the last of seven fields, with the second first."
    if field is WEEKDAY:
        return " Days run from 0 (Sunday) to 6 (Saturday); 7 is Sunday too."
    if field is HOUR and number == 24:
        return " Midnight is hour 0."
    if field is HOUR and number < 60:
        return " Minute comes first, hour second: are the two swapped?"
    if field in (SECOND, MINUTE) and number == 60:
        return f" The last {field.name} is 59; the top of the next is 0."
    if field is MONTH and 12 < number < 32:
        return " Month comes fourth, day-of-month third: are the two swapped?"
    if field in (DAY, MONTH) and number == 0:
        return " This field starts at 1."
    return ""


def _refuse_word(text: str, item: str, place: Place) -> NoReturn:
    field = place.field
    upper = text.upper()
    where = f" (in '{item}')" if text != item else ""
    short = _FULL_NAMES.get(upper, upper)
    if short not in field.words and short in (*MONTHS, *WEEKDAYS):
        kind = "month" if short in MONTHS else "weekday"
        hint = "Month names go in field four, weekday names in field five."
        if field in (MONTH, WEEKDAY):
            hint = "Names go in month (JAN-DEC) and day-of-week (SUN-SAT) only; are the two fields swapped?"
        message = f"'{text}' is a {kind} name{where}; allowed: {field.allowed}. {hint}"
        place.refuse("name-in-wrong-field", text, message)
    if not field.words:
        place.refuse("not-a-number", text, f"'{text}' is not a number{where}; allowed: {field.allowed}.")
    if upper in _FULL_NAMES:
        message = f"'{text}' is not a known name{where}; allowed: {field.allowed}. Did you mean {short}?"
        place.refuse("full-name", text, message, suggestion=short)
    kind = "weekday" if field is WEEKDAY else "month"
    message = f"'{text}' is not a known {kind} name or number{where}; allowed: {field.allowed}."
    if text[:1] == "+":
        message += " There is no '+': a day has to match both day fields only where one of them starts with *."
    place.refuse("unknown-name", text, message, suggestion=_nearest_word(upper, field))


def _nearest_word(upper: str, field: CronField) -> str | None:
    if not upper.isalpha():
        return None
    full = [name for name, short in _FULL_NAMES.items() if short in field.words]
    close = get_close_matches(upper, [*field.words, *full], n=1, cutoff=0.6)
    return _FULL_NAMES.get(close[0], close[0]) if close else None
