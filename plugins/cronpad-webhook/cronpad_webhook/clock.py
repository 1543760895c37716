"""The wall clock of signatures, of dates in answers, and of what a receiver remembers."""

from __future__ import annotations

import time

__all__ = ["unix_now"]


def unix_now() -> float:
    """Seconds since 1970."""
    return time.time()
