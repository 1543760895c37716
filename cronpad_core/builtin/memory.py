"""State in memory: the reference storage, the simulator's store, and what ``:memory:`` opens.

History keeps the newest ``keep`` ended runs and ranges of each job, so that a long run does not grow for ever; what is older is
forgotten as if it had been pruned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from cronpad_core.api import (
    CatalogStore,
    HistoryStore,
    NotFoundError,
    QueueStore,
    StateVanishedError,
    StorageOptions,
    StorageTools,
)
from cronpad_core.builtin.memory_catalog import CatalogData, MemoryCatalog
from cronpad_core.builtin.memory_history import MemoryHistory
from cronpad_core.builtin.memory_queue import MemoryQueue
from cronpad_core.builtin.memory_queue_file import QueueFile, QueuePlace
from cronpad_core.builtin.memory_rows import HistoryData

__all__ = ["KEEP", "CatalogData", "HistoryData", "MemoryState", "MemoryStorage", "QueueFile", "QueuePlace"]

KEEP = 1_000
"""How many ended runs, and how many ranges, are kept of each job."""


@dataclass(slots=True)
class MemoryState:
    """What outlives a process in a simulation: storages built on the same state see what the others wrote.

    ``queue.delete()`` and ``queue.set(QueueFile())`` lose and replace the queue; ``vanished`` makes ``check`` fail.
    """

    catalog: CatalogData = field(default_factory=CatalogData)
    history: HistoryData = field(default_factory=HistoryData)
    queue: QueuePlace = field(default_factory=QueuePlace)
    created: bool = False
    vanished: bool = False


class MemoryStorage:
    """A storage without files. Without ``state`` it has one of its own and forgets everything with the process."""

    name: ClassVar[str] = "memory"
    schemes: ClassVar[tuple[str, ...]] = ("memory",)
    api: ClassVar[int] = 1

    def __init__(self, options: StorageOptions, *, state: MemoryState | None = None, keep: int = KEEP) -> None:
        self.state = MemoryState() if state is None else state
        self.directory: Path | None = None
        self.tools: StorageTools | None = None
        self.catalog: CatalogStore = MemoryCatalog(self.state.catalog)
        self.history: HistoryStore = MemoryHistory(self.state.history, keep=keep)
        self.queue: QueueStore = MemoryQueue(self.state.queue)
        self._read_only = options.read_only

    async def open(self) -> None:
        """Creates the state where there is none; ``read_only`` refuses that with ``NotFoundError``."""
        if self._read_only and not self.state.created:
            raise NotFoundError("there is no state in memory yet")
        self.state.created = True

    async def prepare(self) -> None:
        """Does nothing: what is in memory was made by this version."""

    async def check(self) -> None:
        """Raises ``StateVanishedError`` where a simulation let the state vanish."""
        if self.state.vanished:
            raise StateVanishedError("the state in memory is gone")

    async def close(self) -> None:
        """Lets go of the queue; the state stays for whoever shares it."""
        await self.queue.close()
