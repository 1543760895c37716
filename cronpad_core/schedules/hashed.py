"""H and ``~``: values that are drawn for a job instead of written, the same at every parse.

``H`` follows Jenkins (a value from the whole field, ``H(a-b)`` from a range, ``H/s`` an offset and then every ``s``);
``~`` follows OpenBSD's crontab(5) (a value from a range, with a step an offset below the step). Both are pure functions of
the seed, which is the ``job_id`` given to ``parse_schedule``. Whoever wants ``~`` drawn anew for each version of a job puts
the version into that id; ``H`` is meant to keep its value over versions, so its seed stops at the first NUL character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NoReturn

from cronpad_core.schedules.fields import DAY, WEEKDAY, YEAR, CronField, Place
from cronpad_core.schedules.values import parse_value, range_fault

__all__ = ["Draw", "drawn_span", "is_hash", "parse_hash", "parse_random"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A value to be drawn from ``low`` to ``high``; with a ``step``, an offset below it and then every ``step``.

    ``index`` is the item's place in its list, so that two draws of one list are independent.
    """

    low: int
    high: int
    step: int | None
    index: int
    hashed: bool


_HASH_LIKE: Final = re.compile(r"[Hh](?:[Hh]*|[^A-Za-z].*)\Z", re.DOTALL)
_HASH: Final = re.compile(r"[Hh](?:\(([^()-]+)-([^()-]+)\))?(?:/([0-9]+))?\Z")
_RANDOM: Final = re.compile(r"([^~/]*)~([^~/]*)(?:/([0-9]+))?\Z")


def is_hash(item: str) -> bool:
    """Whether the item is meant as an H item, well formed or not."""
    return bool(_HASH_LIKE.match(item))


def parse_hash(item: str, place: Place, index: int) -> Draw:
    """Read ``H``, ``H(a-b)``, ``H/s`` or ``H(a-b)/s``; every fault has the code ``hash-syntax``."""
    field = place.field
    match = _HASH.match(item)
    if match is None or field is YEAR:
        _refuse_hash(item, place)
    # 28, so that a hashed monthly job runs every month (Jenkins does the same).
    low, high = field.low, 28 if field is DAY else field.star_high
    if match[1] is not None:
        low, high = _bound("hash-syntax", match[1], item, place), _bound("hash-syntax", match[2], item, place)
        if field is WEEKDAY and high == 0 and low > 0:
            high = 7
        if high < low:
            mended = f"H({match[2]}-{match[1]})"
            message = f"'{item}': the range runs backwards; write {mended}."
            place.refuse("hash-syntax", item, message, suggestion=mended)
    step = _step("hash-syntax", match[3], item, place)
    return Draw(low=low, high=high, step=step, index=index, hashed=True)


def parse_random(item: str, place: Place, index: int) -> Draw:
    """Read ``~``, ``a~``, ``~b``, ``a~b`` with an optional step; every fault has the code ``random-syntax``."""
    field = place.field
    if item.count("~") > 1:
        place.refuse("random-syntax", item, f"'{item}': a random range has one '~'.")
    match = _RANDOM.match(item)
    if match is None or field is YEAR:
        example = "write for example 0~30 or ~/10" if field is not YEAR else "a year cannot be drawn at random"
        place.refuse("random-syntax", item, f"'{item}': {example}; allowed: {field.allowed}.")
    if "*" in match[1] + match[2]:
        mended = item.replace("*", "")
        first = f"~{match[2]} for {field.low}~{match[2]}" if match[1] == "*" and match[2] not in ("", "*") else mended
        place.refuse("random-syntax", item, f"'{item}': leave out the star; write {first}.", suggestion=mended)
    low = _bound("random-syntax", match[1], item, place) if match[1] else field.low
    high = _bound("random-syntax", match[2], item, place) if match[2] else max(low, field.star_high)
    if field is WEEKDAY and high == 0 and low > 0:
        high = 7
    if high < low:
        mended = f"{match[2]}~{match[1]}"
        place.refuse("random-syntax", item, f"'{item}' runs backwards; write {mended}.", suggestion=mended)
    step = _step("random-syntax", match[3], item, place)
    return Draw(low=low, high=high, step=step, index=index, hashed=False)


def drawn_span(draw: Draw, field: CronField, seed: str) -> tuple[int, int, int]:
    """``(low, high, step)`` that the draw comes to for this seed: one digest per field, so the fields are independent."""
    if draw.hashed:
        seed = seed.partition("\0")[0]
    # The layout of these bytes is frozen: a change would move every hashed job to another minute.
    kind = "H" if draw.hashed else "~"
    label = f"{kind}\0{field.name}\0{draw.index}\0{seed}"
    number = int.from_bytes(blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    width = draw.high - draw.low + 1
    if draw.step is None:
        value = draw.low + number % width
        return value, value, 1
    return draw.low + number % min(draw.step, width), draw.high, draw.step


def _bound(code: str, text: str, item: str, place: Place) -> int:
    field = place.field
    if text.isdigit() and range_fault(text, field) is not None:
        if code == "hash-syntax":
            place.refuse(code, item, f"'{item}': {text} is out of range; allowed: {field.low}-{field.high}.")
        place.refuse(code, item, f"{text} is out of range (in '{item}'); allowed: {field.allowed}.")
    if not text.isdigit() and field.number_of(text) is None:
        place.refuse(code, item, f"'{item}': '{text}' is not a value of this field; allowed: {field.allowed}.")
    return parse_value(text, item, place)


def _step(code: str, digits: str | None, item: str, place: Place) -> int | None:
    if digits is None:
        return None
    if not digits.strip("0"):
        place.refuse(code, item, f"'{item}': the step must be 1 or more.")
    return int(digits) if len(digits) < 10 else 10**9


def _refuse_hash(item: str, place: Place) -> NoReturn:
    if place.field is YEAR:
        place.refuse("hash-syntax", item, f"'{item}': H is not allowed in the year; allowed: {place.field.allowed}.")
    if "(" in item and ")" not in item:
        example = f"H({place.field.low}-{place.field.star_high // 2})"
        place.refuse("hash-syntax", item, f"'{item}': the bracket is not closed; write {example}.", suggestion=example)
    loose = re.match(r"[Hh]-([0-9]+)\Z", item)
    if loose:
        mended = f"H({place.field.low}-{loose[1]})"
        message = f"'{item}': H takes no range like this; write {mended}."
        place.refuse("hash-syntax", item, message, suggestion=mended)
    if item.endswith("/"):
        place.refuse("hash-syntax", item, f"'{item}': a number must follow '/'; for example H/15.", suggestion="H/15")
    example = f"H({place.field.low}-{place.field.star_high // 2})"
    message = f"'{item}' is not valid. Did you mean H? Allowed: H, {example}, H/15."
    place.refuse("hash-syntax", item, message, suggestion="H")
