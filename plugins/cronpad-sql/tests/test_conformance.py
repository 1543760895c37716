"""SQLite keeps every promise of the three stores."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from cronpad_core.api import Storage
from cronpad_sql.storage import SqliteStorage
from cronpad_testkit.suites import BuildStorage, CatalogSuite, HistorySuite, NewState, QueueStoreSuite


class _OnFiles:
    capabilities = frozenset({"shared", "queue_loss"})

    @pytest.fixture
    def new_state(self, prepared: Path, tmp_path: Path, build: Callable[[Path], SqliteStorage]) -> NewState:
        """Empty states, each in a directory of its own."""
        numbers = count()

        def make() -> BuildStorage:
            directory = tmp_path / f"state-{next(numbers)}"
            shutil.copytree(prepared, directory)
            return lambda: build(directory)

        return make

    def lose_queue(self, storage: Storage) -> None:
        """Deletes the queue's file and what belongs to it."""
        assert storage.directory is not None
        for path in storage.directory.glob("cronpad-queue.db*"):
            path.unlink()


class TestSqliteQueue(_OnFiles, QueueStoreSuite):
    """The queue."""

    examples = 25


class TestSqliteCatalog(_OnFiles, CatalogSuite):
    """Control."""


class TestSqliteHistory(_OnFiles, HistorySuite):
    """History."""
