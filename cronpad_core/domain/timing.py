"""Time as the engine counts it: whole milliseconds, on one of two lines that are never mixed.

*Wall* milliseconds are Unix time and say when something is due. *Boot* milliseconds count since the machine started, suspend
included, and measure durations: leases, time-outs, trust.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

__all__ = ["DAY", "HOUR", "MINUTE", "SECOND", "Millis", "JsonValue", "from_ms", "rfc3339", "to_ms"]

Millis: TypeAlias = int
"""Whole milliseconds, an instant or a duration."""

JsonValue: TypeAlias = "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]"
"""What JSON can hold."""

SECOND = 1_000
"""A second in milliseconds."""

MINUTE = 60 * SECOND
"""A minute in milliseconds."""

HOUR = 60 * MINUTE
"""An hour in milliseconds."""

DAY = 24 * HOUR
"""24 hours in milliseconds; a day of a calendar may have more or fewer."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_ms(instant: datetime) -> Millis:
    """Unix milliseconds of an aware datetime, rounded down. Raises ``ValueError`` for a naive one."""
    if instant.tzinfo is None:
        raise ValueError(f"{instant!r} has no time zone; give an aware datetime")
    return (instant - _EPOCH) // timedelta(milliseconds=1)


def from_ms(instant_ms: Millis) -> datetime:
    """The aware UTC datetime of Unix milliseconds."""
    return _EPOCH + timedelta(milliseconds=instant_ms)


def rfc3339(instant_ms: Millis | None) -> str | None:
    """``2026-11-30T16:46:10.250Z``, or ``None`` for no instant."""
    if instant_ms is None:
        return None
    text = from_ms(instant_ms).isoformat(timespec="milliseconds" if instant_ms % SECOND else "seconds")
    return text.replace("+00:00", "Z")
