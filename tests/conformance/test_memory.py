"""The memory storage keeps every promise of the ports."""

from __future__ import annotations

from typing import ClassVar

import pytest

from cronpad_core.api import Storage, StorageOptions
from cronpad_core.builtin.memory import MemoryState, MemoryStorage
from cronpad_testkit.suites import BuildStorage, CatalogSuite, HistorySuite, NewState, QueueStoreSuite


class OnMemory:
    """Storages that share a :class:`MemoryState`, as processes share files."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"shared", "queue_loss"})

    @pytest.fixture
    def new_state(self) -> NewState:
        """A state of its own for each call."""

        def state() -> BuildStorage:
            shared = MemoryState()
            options = StorageOptions(url="memory://", wall_ms=lambda: 0)
            return lambda: MemoryStorage(options, state=shared)

        return state

    def lose_queue(self, storage: Storage) -> None:
        """Takes the queue away."""
        assert isinstance(storage, MemoryStorage)
        storage.state.queue.delete()


class TestMemoryQueue(OnMemory, QueueStoreSuite):
    """Q1 to Q14."""


class TestMemoryCatalog(OnMemory, CatalogSuite):
    """C1 to C6."""


class TestMemoryHistory(OnMemory, HistorySuite):
    """H1 to H13."""
