"""States in files for all tests of this package."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cronpad_core.api import LockRow, StorageOptions
from cronpad_sql import migrate
from cronpad_sql.files import FileKind
from cronpad_sql.storage import SqliteStorage

Build = Callable[..., SqliteStorage]


def build_on(directory: Path, **options: object) -> SqliteStorage:
    """A storage on this directory, not opened yet."""
    chosen = {"wall_ms": lambda: 1_767_225_600_000, "durable": False, **options}
    return SqliteStorage(StorageOptions(url=f"sqlite://{directory}", **chosen))  # type: ignore[arg-type]  # a test's shorthand


def _prepare(directory: Path) -> Path:
    async def prepare() -> None:
        storage = build_on(directory)
        await storage.open()
        await storage.prepare()
        await storage.close()

    asyncio.run(prepare())
    return directory


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty state at the present schema: copying it is quicker than migrating for each test."""
    return _prepare(tmp_path_factory.mktemp("template") / "state")


@pytest.fixture
def first_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty state as the first migrations made it."""
    with monkeypatch.context() as patch:
        for kind in (FileKind.CONTROL, FileKind.HISTORY):
            patch.setitem(migrate.HEAD, kind, 1)
        return _prepare(tmp_path / "first")


@pytest.fixture
def state(prepared: Path, tmp_path: Path) -> Path:
    """The directory of an empty state."""
    return Path(shutil.copytree(prepared, tmp_path / "state"))


@pytest.fixture
def build() -> Build:
    """Builds a storage on a directory."""
    return build_on


async def take(storage: SqliteStorage, *, term: int = 1, token: str = "me") -> None:
    """Opens the queue and takes the lock."""
    await storage.queue.open()
    row = LockRow(token=token, term=term, expires_ms=10_000)
    seen = await storage.queue.look()
    assert await storage.queue.acquire(row, seen=seen, boot_id="b", boot_base_ms=0, epoch=f"e{term}", guard=lambda: True)


@pytest.fixture(name="take")
def take_fixture() -> Callable[..., object]:
    """Opens the queue and takes the lock."""
    return take
