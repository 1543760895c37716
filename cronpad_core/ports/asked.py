"""The part of history that holds what people asked for: runs of their own, cancellations, backfills, and what a month has used.

Promises H8 to H10 and H12 of ``ports.history``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cronpad_core.domain.backfill import Backfill
from cronpad_core.domain.ids import run_id_for
from cronpad_core.domain.job import JobSpec
from cronpad_core.domain.occurrence import RunKey, Trigger
from cronpad_core.domain.run import Run, RunStatus
from cronpad_core.domain.timing import JsonValue, Millis

__all__ = ["AskedRuns", "PendingAnswer", "PendingRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest:
    """A run that somebody asked for: its durable row, before anybody is told that there is one.

    A manual run or retry takes the first free millisecond from ``at_ms`` on; a backfill is at ``at_ms`` exactly. ``slot_at_ms`` is
    what its sink sees. Where ``token`` is given and a run of the job has it, that run is the answer.
    """

    job_id: str
    job_version: int
    spec: JobSpec
    trigger: Trigger
    at_ms: Millis
    slot_at_ms: Millis
    now_ms: Millis
    retry_of: str | None = None
    payload: JsonValue = None
    token: str | None = None

    def run(self, at_ms: Millis) -> Run:
        """The row to insert, where this is the instant that it takes."""
        key = RunKey(job_id=self.job_id, scheduled_at_ms=at_ms, trigger=self.trigger)
        return Run(
            id=run_id_for(key),
            key=key,
            job_version=self.job_version,
            spec=self.spec,
            status=RunStatus.PENDING,
            attempt=0,
            fence=0,
            slot_at_ms=self.slot_at_ms,
            created_at_ms=self.now_ms,
            retry_of=self.retry_of,
            payload=self.payload,
            token=self.token,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAnswer:
    """``created`` is False where the run was there before: by its token, or a backfill of that slot."""

    run: Run
    created: bool


class AskedRuns(Protocol):
    """Writes raise ``TermRefusedError`` where the stored term is another."""

    async def add_pending(self, requests: Sequence[PendingRequest], *, term: int) -> list[PendingAnswer]:
        """Inserts runs as ``pending``, attempt 0, fence 0, in order; one answer for each. (H8)"""

    async def request_cancel(self, key: RunKey, *, term: int) -> Run | None:
        """Marks an unfinished run as asked to be cancelled; answers the run as stored, ``None`` where there is none. (H9)

        Whoever runs it is told by other means; a run that nobody runs ends as cancelled when its entry comes up.
        """

    async def add_backfill(self, backfill: Backfill, *, term: int) -> bool:
        """Stores a new backfill; False where there is one of that id."""

    async def move_backfill(self, backfill: Backfill, *, expected: Backfill, term: int) -> bool:
        """Stores progress or the end of a backfill, only from exactly ``expected``; answers whether it did. (H10)"""

    async def backfills(self, *, job_id: str | None = None, unfinished: bool = False, limit: int = 100) -> list[Backfill]:
        """Backfills, newest first (by creation, then id)."""

    async def used(self, workspace: str, month: str) -> int:
        """How many runs the workspace has opened in that month (``2026-11``). (H12)"""
