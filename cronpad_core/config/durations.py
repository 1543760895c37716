"""Durations as people write them: a number and a unit, or several."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

import durationpy

from cronpad_core.domain.timing import DAY, HOUR, MINUTE, SECOND, Millis

__all__ = ["LONGEST_MS", "DurationFault", "parse_duration", "spell_duration"]

LONGEST_MS: Final[Millis] = 36_525 * 86_400_000
"""A hundred years: beyond it a number is a slip, not a duration."""

_SHAPE: Final = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{1,6})?(?:ms|s|m|h|d|w))+\Z")
_UNITS: Final = {"second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "hr": "h", "day": "d", "week": "w"}
_WORDS: Final = re.compile(r"\s*([0-9]+)\s*([a-zA-Z]+)\s*\Z")


class DurationFault(ValueError):
    """A text that is no duration; ``suggestion`` is one that would be."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.suggestion = suggestion


def parse_duration(text: str) -> Millis:
    """Milliseconds of ``90s``, ``1h30m``, ``1.5h``, ``250ms``, ``2d``, ``1w``; raises ``DurationFault`` for anything else."""
    body = text.strip()
    if not _SHAPE.match(body):
        raise DurationFault("a duration is a number with a unit: ms, s, m, h, d or w", _near(body))
    try:
        length: timedelta = durationpy.from_str(body)
    except (ValueError, OverflowError):
        raise DurationFault("the duration is longer than a hundred years") from None
    length_ms = round(length / timedelta(milliseconds=1))
    if length_ms > LONGEST_MS:
        raise DurationFault("the duration is longer than a hundred years")
    return length_ms


def spell_duration(length_ms: Millis) -> str:
    """The shortest text that ``parse_duration`` reads as this length: ``1h30m``; ``0s`` for none."""
    parts, left = [], length_ms
    for unit_ms, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s"), (1, "ms")):
        if left >= unit_ms:
            parts.append(f"{left // unit_ms}{unit}")
            left %= unit_ms
    return "".join(parts) or "0s"


def _near(body: str) -> str | None:
    compact = "".join(body.split())
    if compact != body and _SHAPE.match(compact):
        return compact
    if compact.isascii() and compact.isdigit() and len(compact) < 10:
        return f"{compact}s"
    words = _WORDS.match(body)
    if words and len(words[1]) < 10:
        unit = _UNITS.get(words[2].lower().removesuffix("s"))
        return f"{words[1]}{unit}" if unit else None
    return None
