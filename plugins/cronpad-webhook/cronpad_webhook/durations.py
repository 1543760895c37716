"""Durations as jobs files write them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

__all__ = ["read_duration"]

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def read_duration(given: object) -> object:
    """Reads ``500ms``, ``1s``, ``1m`` or ``1h``; anything else goes on to pydantic."""
    if not isinstance(given, str) or (found := _DURATION.fullmatch(given.strip())) is None:
        return given
    return timedelta(seconds=float(found[1]) * _UNITS[found[2]])
