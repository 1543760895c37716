"""Between datetimes and the Unix milliseconds in which schedules compute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

__all__ = ["LAST_MS", "to_datetime", "to_ms"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
LAST_MS: Final = 253402300799999
"""9999-12-31T23:59:59.999Z, the last millisecond that a datetime can hold."""


def to_ms(instant: datetime) -> int:
    """Unix milliseconds of an aware datetime, rounded down; raises ``ValueError`` for a naive one."""
    if instant.utcoffset() is None:
        raise ValueError("a naive datetime names no instant: give it a time zone")
    return (instant - _EPOCH) // _MILLISECOND


def to_datetime(instant_ms: int, zone: tzinfo) -> datetime:
    """The instant in the zone, or in UTC in the few hours at the ends of the calendar where the zone's date has no name."""
    instant = _EPOCH + timedelta(milliseconds=instant_ms)
    try:
        return instant.astimezone(zone)
    except OverflowError:
        return instant
