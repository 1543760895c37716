"""Control: workspaces, jobs and their versions, and the record of who dispatches. What a user made; never lost, never guessed.

Each method is one immediate transaction. ``CommitUnknownError`` means read back. A write that carries a term raises
``TermRefusedError`` where the stored term is another.

Promises, proved by ``CatalogSuite``:

====  =============================================================================================================
C1    ``swap_term`` changes the record only where the whole of it is what the caller read
C2    ``write`` applies all changes or none; one whose ``expected`` is not the stored state refuses all
C3    ``move`` changes ``next_run_at`` only from the instant, version and clock epoch that the caller saw, while active
C4    a moved job whose next is ``None`` becomes ``completed``
C5    version numbers of a job never go down, and ended versions stay readable
C6    ``set_workspace`` changes a workspace only where it is what the caller read
====  =============================================================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from cronpad_core.domain.dispatch import TermRecord
from cronpad_core.domain.job import Job, JobStatus, JobVersion, Replay
from cronpad_core.domain.limits import Workspace
from cronpad_core.domain.timing import Millis
from cronpad_core.domain.values import value

__all__ = ["CatalogStore", "JobWrite", "Move", "MoveAnswer", "MoveKind", "StaleWriteError", "TermStore"]


class StaleWriteError(Exception):
    """A job was changed by somebody else since the caller read it; nothing of the whole write was applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWrite:
    """One job to store as ``job``.

    ``expected`` is the job as the caller read it (``None``: there must be none with this id). Where the version changes, or the
    job stops being active, ``ends`` is the ended version with its end; ``begins`` the version that begins.
    """

    job: Job
    expected: Job | None
    ends: JobVersion | None = None
    begins: JobVersion | None = None
    amends: tuple[JobVersion, ...] = ()


@value
class Move:
    """Moves a job's next run from ``from_ms`` to ``to_ms`` (``None``: never again), setting ``replay``."""

    job_id: str
    version: int
    clock_epoch: int
    from_ms: Millis
    to_ms: Millis | None
    replay: Replay | None
    term: int


class MoveKind(StrEnum):
    """``MOVED``: done. ``ALREADY``: the job stands elsewhere. ``CHANGED``: not active, gone, or another version or epoch."""

    MOVED = "moved"
    ALREADY = "already"
    CHANGED = "changed"


@value
class MoveAnswer:
    """``job`` is the job as stored after the call (``None`` where there is none)."""

    kind: MoveKind
    job: Job | None


class TermStore(Protocol):
    """The record of the holder, kept in control and in history alike. Readable under every schema version."""

    async def read_term(self) -> TermRecord:
        """The record; term 0 and no holder where nobody ever dispatched."""

    async def swap_term(self, expected: TermRecord, new: TermRecord) -> bool:
        """Writes ``new`` where the stored record equals ``expected``; answers whether it did. (C1)"""


class CatalogStore(TermStore, Protocol):
    """Jobs and versions."""

    async def job(self, job_id: str) -> Job | None:
        """One job by id, deleted ones included."""

    async def jobs(self, *, statuses: Collection[JobStatus] | None = None, after: str = "", limit: int = 1_000) -> list[Job]:
        """Jobs with an id above ``after``, in the order of ids, a page at a time; without ``statuses`` all."""

    async def jobs_named(self, name: str) -> list[Job]:
        """All jobs that are not deleted and have this name, whatever their origin."""

    async def overdue(self, *, before_ms: Millis, limit: int) -> list[Job]:
        """Active jobs whose next run lies before ``before_ms``, oldest first. Cost follows what is found."""

    async def write(self, writes: Sequence[JobWrite], *, term: int | None) -> None:
        """Stores job changes, all or nothing. Raises :class:`StaleWriteError`, and ``TermRefusedError`` if a term is given. (C2)"""

    async def move(self, moves: Sequence[Move]) -> list[MoveAnswer]:
        """Advances jobs, or stores a misfire decision; one answer for each, each on its own. (C3, C4)"""

    async def versions(self, job_id: str) -> list[JobVersion]:
        """All versions of a job, oldest first. (C5)"""

    async def ended_versions(self, *, limit: int) -> list[JobVersion]:
        """Versions that ended with open slots which the ledger does not have yet."""

    async def mark_ledgered(self, versions: Sequence[JobVersion]) -> None:
        """The ledger has the dropped slots of these ended versions now."""

    async def workspace(self, name: str) -> Workspace | None:
        """One workspace by name; ``None`` for one that nobody has set anything of."""

    async def workspaces(self) -> list[Workspace]:
        """All workspaces that something was set of, by name."""

    async def set_workspace(self, new: Workspace, *, expected: Workspace | None, term: int) -> None:
        """Stores a workspace. Raises :class:`StaleWriteError` and ``TermRefusedError``. (C6)"""
