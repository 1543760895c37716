"""Where state lives: one object that opens the three stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cronpad_core.ports.catalog import CatalogStore
from cronpad_core.ports.history import HistoryStore
from cronpad_core.ports.queue import QueueStore

__all__ = ["Storage", "StorageOptions"]


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


class Storage(Protocol):
    """Three stores that belong together.

    A storage's class also has ``name``, ``schemes`` (the URL schemes it opens) and ``api = 1``, and is built with
    :class:`StorageOptions`, without touching anything yet.
    """

    queue: QueueStore
    catalog: CatalogStore
    history: HistoryStore
    directory: Path | None

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
