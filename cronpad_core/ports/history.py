"""History: runs, attempts, outputs and the ledger. What happened; a slot has one outcome here.

Each method is one immediate transaction, and many calls may share one commit. ``CommitUnknownError`` means read back.

Promises, proved by ``HistorySuite``:

====  =============================================================================================================
H1    a run is unique by its key; a terminal status never changes; statuses move along ``MOVES``
H2    ``open_runs`` writes exactly what ``decide_open`` answers for the snapshot of the same transaction
H3    ``record`` changes a run only under the fence and attempt that run it; a stale result is kept as a stale attempt
H4    recording the same result twice answers the stored plan and changes nothing
H5    a range row leaves out every instant that has a run row or lies in a range of the same version
H6    a slot that a range row covers cannot be opened
H7    fences in run rows never decrease
H8    ``add_pending`` gives each request a row of its own, or the one that its token or slot has
H9    ``request_cancel`` changes nothing but the mark, and nothing of a run that has ended
H10   a backfill moves only from what the caller read
H11   ``prune`` removes ended runs alone, but not that at which an open backfill stands; ``ledger_from`` is then after
      every scheduled slot that it removed
H12   ``used`` is the number of openings that ``decide_open`` counted
H13   after ``cut_ranges`` no range of that version reaches past the bound, and counts are true
H14   what a written outcome means for alerts is told by ``tell_alerts`` in the same transaction, and for no other
====  =============================================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from cronpad_core.domain.admission import OpenDecision, OpenRequest
from cronpad_core.domain.alerts import AlertCase
from cronpad_core.domain.ledger import SlotRange
from cronpad_core.domain.occurrence import RunKey
from cronpad_core.domain.retry import RetryPlan
from cronpad_core.domain.run import Attempt, Run, RunStatus
from cronpad_core.domain.timing import Millis
from cronpad_core.domain.values import value
from cronpad_core.ports.alerts import AlertOutbox
from cronpad_core.ports.asked import AskedRuns
from cronpad_core.ports.catalog import TermStore
from cronpad_core.ports.keeping import Keeping, SlotCounter

__all__ = ["EndRequest", "HistoryStore", "RangeRequest", "RecordAnswer", "RecordKind", "RecordRequest", "SlotCounter"]


@value
class RecordRequest:
    """The result of one attempt.

    ``status`` is the run's new status: terminal, ``retrying`` (then ``retry`` is the plan), or ``running`` for an interrupted
    attempt that the next holder delivers again (then the run is marked clean). ``alerts`` is what a recorded result is told for.
    """

    key: RunKey
    attempt: Attempt
    status: RunStatus
    retry: RetryPlan | None = None
    alerts: AlertCase | None = None


class RecordKind(StrEnum):
    """``RECORDED``, ``ALREADY`` (the same result was recorded before), or ``STALE`` (another holder runs or ran it)."""

    RECORDED = "recorded"
    ALREADY = "already"
    STALE = "stale"


@value
class RecordAnswer:
    """``retry`` is the plan as stored, where the run is retrying after this attempt."""

    kind: RecordKind
    status: RunStatus | None
    retry: RetryPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRequest:
    """Ends a run without another attempt: only while it is in ``was`` with ``attempt`` and a fence not above ``fence``.

    ``alerts`` is what such an end is told for.
    """

    key: RunKey
    was: RunStatus
    attempt: int
    fence: int
    status: RunStatus
    reason: str
    now_ms: Millis
    alerts: AlertCase | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRequest:
    """A range row to write; its own ``count`` is ignored, ``slots`` counts what is left of it after cutting.

    ``alerts`` is what it is told for, where anything of it was written.
    """

    range: SlotRange
    slots: SlotCounter
    alerts: AlertCase | None = None


class HistoryStore(TermStore, AskedRuns, Keeping, AlertOutbox, Protocol):
    """Runs, attempts and ranges; what people asked for; how far back it all reaches; and the alerts that wait to be sent."""

    async def open_runs(self, requests: Sequence[OpenRequest]) -> list[OpenDecision]:
        """Opens runs, in order, each seeing those before it; one answer for each. (H1, H2, H6)

        With ``OPENED`` the attempt row ``(run, attempt, fence)`` is inserted as running, and older running attempt rows of the
        run become ``interrupted``. What an answer says of ``counted`` and ``replaces`` is done in the same transaction.
        """

    async def record(self, requests: Sequence[RecordRequest]) -> list[RecordAnswer]:
        """Stores results, one answer for each; the attempt row, the run and the retry plan in one transaction. (H3, H4)"""

    async def raise_fence(self, key: RunKey, *, attempt: int, old: int, new: int) -> bool:
        """Lets the worker that runs this attempt go on under a newer lease: only from exactly ``old``. Answers whether it did.

        The attempt row moves to the new fence with the run.
        """

    async def end(self, request: EndRequest) -> bool:
        """Ends a run that will have no further attempt; answers whether it did."""

    async def add_ranges(self, requests: Sequence[RangeRequest], *, term: int) -> list[SlotRange]:
        """Writes range rows, cut around what has an outcome; answers the rows written. Raises ``TermRefusedError``. (H5)"""

    async def run(self, key: RunKey) -> Run | None:
        """One run by key."""

    async def run_by_id(self, run_id: str) -> Run | None:
        """One run by id."""

    async def runs(
        self, *, job_id: str | None = None, statuses: Sequence[RunStatus] = (), before: str | None = None, limit: int = 50
    ) -> list[Run]:
        """Runs, newest first (by creation, then id); ``before`` is the id of the last run of the page before."""

    async def unfinished(self, *, after: str, limit: int) -> list[Run]:
        """Runs that have not ended, in the order of ids, a page at a time: for repair."""

    async def attempts(self, run_id: str) -> list[Attempt]:
        """The attempts of a run in the order they were opened, outputs included."""

    async def ranges(self, job_id: str) -> list[SlotRange]:
        """The range rows of a job, by version and first instant."""

    async def latest_version(self, job_id: str) -> int:
        """The highest version of the job that any row here names; 0 for none."""
