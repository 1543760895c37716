"""Where state lives: one object that opens the three stores, and the tools that look after what lies there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cronpad_core.ports.catalog import CatalogStore
from cronpad_core.ports.history import HistoryStore
from cronpad_core.ports.queue import QueueStore

__all__ = ["FileFacts", "Restored", "StateProblem", "Storage", "StorageOptions", "StorageTools"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOptions:
    """How to open a state.

    ``url`` is as the user gave it, with its scheme; ``durable`` asks that what was acknowledged in history survives a power cut;
    ``queue_path`` overrides where the queue's file is; ``batch_limit`` is how many calls may share a commit.
    ``read_only`` opens for looking only: nothing is created, moved or migrated. ``wall_ms`` names files that are moved aside, and
    nothing else.
    """

    url: str
    wall_ms: Callable[[], int]
    durable: bool = True
    queue_path: Path | None = None
    batch_limit: int = 500
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One file of a state: ``name`` is ``control``, ``history`` or ``queue``; sizes are in bytes, 0 for what is not there.

    ``found`` is the schema version in the file, ``None`` where there is no file or none that can be read; ``known`` the newest
    one that this cronpad reads and writes.
    """

    name: str
    path: Path
    size: int
    log_size: int
    found: int | None
    known: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateProblem:
    """Something in a state that cannot be right. ``what`` is a stable word: ``missing``, ``damaged``, ``foreign``, ``newer``,
    ``orphan``, ``unreadable`` or ``impossible``; ``file`` is as in :class:`FileFacts`."""

    file: str
    what: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore put in place, and where what was there before is now."""

    files: tuple[Path, ...]
    aside: tuple[Path, ...]


class StorageTools(Protocol):
    """What looks after a state at rest or at work. Each call opens what it needs by itself, so the storage need not be open.

    Raises, all calls: ``StateRefusedError`` (damaged, not ours), ``StateUnwritableError`` (no room, no permission),
    ``NotFoundError`` (there is no state), ``StoreBusyError`` (locked by another process for long).
    """

    async def facts(self) -> list[FileFacts]:
        """Every file of the state, control first. Changes nothing; never raises for a file that is missing or damaged."""

    async def check(self) -> list[StateProblem]:
        """Reads everything and answers what cannot be right; empty for a sound state. Changes nothing, waits for no writer.

        A schema older than the known one is no problem; its rows are not looked at.
        """

    async def backup(self, target: Path) -> list[Path]:
        """Copies control, then history, into the directory ``target``, each as it is at one moment; answers the copies.

        Works while a runner is active. The copies are complete and on disk when they get their names, control last; a failure
        leaves none. Refuses a ``target`` that holds a backup or a state already (``ConfigurationError``). The queue is left out.
        """

    async def restore(self, source: Path, *, aside: bool, begin: Callable[[str], Awaitable[None]]) -> Restored:
        """Puts the backup in ``source`` in the place of the state, without a queue: the next start makes one.

        Copies are made first, with the record of the holder marked as released; ``begin`` is called with their URL and does to
        them what has to be done before they are in place. Refuses while any process has the state open (``LockHeldError``), and
        where files are there unless ``aside``, which keeps them under other names. Broken off half-way, it leaves the state as it
        was, or one that no runner starts on until the restore is called again.
        """

    async def set_queue_aside(self) -> Path | None:
        """Renames the queue of a state that nobody dispatches on; answers the new name, ``None`` where there was no queue."""

    async def degraded(self) -> list[str]:
        """Codes of what works and should not stay so: ``wal_large``, ``sqlite_wal_reset``, ``disk_low``. Cheap; never raises."""


class Storage(Protocol):
    """Three stores that belong together.

    A storage's class also has ``name``, ``schemes`` (the URL schemes it opens) and ``api = 1``, and is built with
    :class:`StorageOptions`, without touching anything yet. ``directory`` is where its files are and ``tools`` what looks after
    them; a storage without files has neither.
    """

    queue: QueueStore
    catalog: CatalogStore
    history: HistoryStore
    directory: Path | None
    tools: StorageTools | None

    async def open(self) -> None:
        """Opens control and history; creates them, with the record of the holder only, where none of the files exists.

        Never migrates. Raises ``StateUnwritableError`` (cannot be created), ``StateRefusedError`` (newer schema, damaged, not ours,
        control missing beside a history, an unsuitable file system), ``StoreBusyError`` (locked by another process for long),
        ``NotFoundError`` (``read_only`` and nothing is there). Before :meth:`prepare` only the record of the holder can be used.
        """

    async def prepare(self) -> None:
        """Brings control and history to the present schema. Only the holder of the lock calls this, after taking it."""

    async def check(self) -> None:
        """Raises ``StateVanishedError`` where control or history was deleted or replaced while open."""

    async def close(self) -> None:
        """Flushes and closes everything. Closed twice is closed once."""
