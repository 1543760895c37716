"""The part of history that is about how long it reaches back: retention, the begin of the ledger, and a clock that was ahead.

Promises H11 and H13 of ``ports.history``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cronpad_core.domain.ledger import SlotRange
from cronpad_core.domain.timing import Millis

__all__ = ["CutRequest", "Keeping", "PruneRequest", "Pruned", "SlotCounter"]

SlotCounter = Callable[[Millis, Millis], int]
"""How many slots of a job version lie in [first, last]; pure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRequest:
    """What goes: ended runs that were created before ``before_ms``, of each job all but its newest ``keep`` ended runs, and, while
    the store holds more than ``max_bytes``, the oldest ended runs. ``None`` does not limit.

    Range rows that end before ``before_ms`` go, and of each version of a job all but its newest ``keep``. At most ``limit`` runs
    and ``limit`` ranges go in one call. A run that has not ended never goes.
    """

    before_ms: Millis | None = None
    keep: int | None = None
    max_bytes: int | None = None
    limit: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What went; ``more`` says that another call would find more."""

    runs: int
    ranges: int
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRequest:
    """Cuts the ranges of one job version to end at ``last_ms``; those that begin later go. ``slots`` counts what is left."""

    job_id: str
    version: int
    last_ms: Millis
    slots: SlotCounter


class Keeping(Protocol):
    """Writes raise ``TermRefusedError`` where the stored term is another."""

    async def prune(self, request: PruneRequest, *, term: int) -> Pruned:
        """Removes one batch of old rows with their attempts and outputs; ``ledger_from`` of their jobs moves with them. (H11)"""

    async def ledger_from(self, job_id: str) -> Millis | None:
        """The first instant that the job's ledger answers for: everything before may have been pruned, or lost by a restore."""

    async def begin_ledger(self, from_ms: Millis, *, term: int) -> None:
        """Lets the ledger of every job begin no earlier than there: called after a restore."""

    async def cut_ranges(self, requests: Sequence[CutRequest], *, term: int) -> list[SlotRange]:
        """Cuts ranges; answers those that were changed or removed, as they were. (H13)"""
