"""A backfill: past slots of a job that are run again, or for the first time, one after another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cronpad_core.domain.overlap import OverlapRule
from cronpad_core.domain.timing import Millis

__all__ = ["Backfill", "BackfillStatus"]


class BackfillStatus(StrEnum):
    """``CANCELLED``: somebody ended it; what it had begun goes on."""

    OPEN = "open"
    FINISHED = "finished"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """The slots of the job's schedule in [``from_ms``, ``to_ms``], run oldest first under version ``job_version``.

    ``cursor_ms`` is the slot that is being run; everything before it is done: ``started`` runs of its own, ``passed`` slots that
    had a backfill run already. ``overlap`` takes the place of the job's own rule for these runs.
    """

    id: str
    job_id: str
    job_version: int
    from_ms: Millis
    to_ms: Millis
    cursor_ms: Millis
    created_at_ms: Millis
    status: BackfillStatus = BackfillStatus.OPEN
    overlap: OverlapRule | None = None
    started: int = 0
    passed: int = 0
    finished_at_ms: Millis | None = None
