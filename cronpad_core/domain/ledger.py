"""The ledger of slots: what became of each one that was not run or skipped on its own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cronpad_core.domain.timing import Millis

__all__ = ["RangeKind", "SlotRange"]


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
