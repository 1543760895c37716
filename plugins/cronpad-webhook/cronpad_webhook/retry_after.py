"""How long a receiver asks to be left alone."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from cronpad_core.api import HOUR, SECOND, Millis

__all__ = ["retry_after_ms"]

_SECONDS: Final = re.compile(r"[0-9]{1,18}")
_DATE: Final = re.compile(
    r"[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT"
    r"|[A-Z][a-z]+day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT"
)
_ASCTIME: Final = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}")


def retry_after_ms(header: str | None, *, now: float) -> Millis | None:
    """A count of seconds or an HTTP date in any of its three forms, one hour at most; ``None`` for all else and for the past."""
    text = (header or "").strip()
    if _SECONDS.fullmatch(text):
        wait_ms = int(text) * SECOND
    else:
        moment = _date(text)
        if moment is None:
            return None
        wait_ms = round((moment.timestamp() - now) * SECOND)
    return min(wait_ms, HOUR) if wait_ms > 0 else None


def _date(text: str) -> datetime | None:
    try:
        if _ASCTIME.fullmatch(text):
            return datetime.strptime(" ".join(text.split()), "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
        return parsedate_to_datetime(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None
