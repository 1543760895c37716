"""Files that find no room when they are made or brought up to date: told as such, and nothing is left half done."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cronpad_core.api import StateUnwritableError, StoreBusyError
from cronpad_sql import migrate
from cronpad_sql.files import FileKind
from cronpad_sql.storage import SqliteStorage

Build = Callable[..., SqliteStorage]


@contextmanager
def _room_for(size: int) -> Iterator[None]:
    """No file of this process may grow past that size: a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 4_096, 9_000, 20_000])
def test_a_queue_that_cannot_be_made_is_busy(state: Path, build: Build, size: int) -> None:
    """However far it comes: the caller tries again later, nothing stands at the queue's place, and with room it is made."""

    async def main() -> None:
        storage = build(state)
        await storage.open()
        with _room_for(size), pytest.raises(StoreBusyError):
            await storage.queue.open()
        assert [path.name for path in state.glob("*queue*") if path.stat().st_size] == []
        await storage.queue.open()
        assert (await storage.queue.counts()).due == 0
        await storage.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", [FileKind.CONTROL, FileKind.HISTORY])
@pytest.mark.parametrize("size", [0, 8_192, 30_000, 100_000])
def test_an_upgrade_leaves_all_or_nothing(first_schema: Path, build: Build, kind: FileKind, size: int) -> None:
    """Row 107: wherever the room ends, the file has the old schema whole or the new one whole, and the next start ends with it."""
    path = first_schema / {FileKind.CONTROL: "cronpad.db", FileKind.HISTORY: "history.db"}[kind]

    def version() -> int:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            found = int(db.execute("PRAGMA user_version").fetchone()[0])
            assert kind is FileKind.CONTROL or ("ledger" in tables) is (found > 1)
            return found

    async def upgrade() -> None:
        storage = build(first_schema)
        await storage.open()
        try:
            await storage.prepare()
        finally:
            await storage.close()

    try:
        with _room_for(size):
            asyncio.run(upgrade())
    except (StateUnwritableError, StoreBusyError) as error:
        assert str(first_schema) in str(error)
        assert version() in (1, migrate.HEAD[kind])
    asyncio.run(upgrade())
    assert version() == migrate.HEAD[kind]
