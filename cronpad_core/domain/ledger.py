"""The ledger of slots: what became of each one that was not run or skipped on its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from cronpad_core.domain.timing import Millis

__all__ = ["RangeKind", "SlotRange", "without_holes"]


class RangeKind(StrEnum):
    """``MISSED``: a misfire policy chose not to run them. ``DROPPED``: their version ended before they came up."""

    MISSED = "missed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRange:
    """All slots of one job version in [``first_ms``, ``last_ms``], ``count`` of them, with one outcome."""

    job_id: str
    version: int
    kind: RangeKind
    first_ms: Millis
    last_ms: Millis
    count: int
    reason: str = ""


def without_holes(first_ms: Millis, last_ms: Millis, holes: Iterable[tuple[Millis, Millis]]) -> Iterator[tuple[Millis, Millis]]:
    """What [``first_ms``, ``last_ms``] is without the holes, which are ranges too, in order."""
    start_ms = first_ms
    for hole_first, hole_last in holes:
        if hole_first > last_ms:
            break
        if hole_first > start_ms:
            yield start_ms, hole_first - 1
        start_ms = max(start_ms, hole_last + 1)
    if start_ms <= last_ms:
        yield start_ms, last_ms
