"""SQLite keeps every promise of the three stores."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from cronpad_core.api import Storage, StorageOptions
from cronpad_sql.storage import SqliteStorage
from cronpad_testkit.suites import BuildStorage, CatalogSuite, HistorySuite, NewState, QueueStoreSuite


def storage_on(directory: Path) -> SqliteStorage:
    """A storage on this directory, not opened yet."""
    return SqliteStorage(StorageOptions(url=f"sqlite://{directory}", wall_ms=lambda: 1_767_225_600_000, durable=False))


async def _prepare(storage: Storage) -> None:
    await storage.open()
    await storage.prepare()
    await storage.close()


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty state at the present schema: copying it is quicker than migrating for each example."""
    directory = tmp_path_factory.mktemp("template") / "state"
    asyncio.run(_prepare(storage_on(directory)))
    return directory


@pytest.fixture
def new_state(prepared: Path, tmp_path: Path) -> NewState:
    """Empty states, each in a directory of its own."""
    numbers = count()

    def make() -> BuildStorage:
        directory = tmp_path / f"state-{next(numbers)}"
        shutil.copytree(prepared, directory)
        return lambda: storage_on(directory)

    return make


def _lose(storage: Storage) -> None:
    assert storage.directory is not None
    for path in storage.directory.glob("cronpad-queue.db*"):
        path.unlink()


class _OnFiles:
    capabilities = frozenset({"shared", "queue_loss"})

    lose_queue: Callable[..., None] = staticmethod(_lose)

    @pytest.fixture
    def new_state(self, new_state: NewState) -> NewState:
        """Empty states in files."""
        return new_state


class TestSqliteQueue(_OnFiles, QueueStoreSuite):
    """The queue."""

    examples = 25


class TestSqliteCatalog(_OnFiles, CatalogSuite):
    """Control."""


class TestSqliteHistory(_OnFiles, HistorySuite):
    """History."""

    examples = 25
