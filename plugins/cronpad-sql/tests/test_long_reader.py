"""A reader that stays keeps SQLite from starting a file's log anew: it is told of, and costs nothing once it is gone (B104)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cronpad_sql import tools
from cronpad_sql.connections import LOG_BYTES, WriteMode, connect_write
from cronpad_sql.lane import Lane
from cronpad_sql.storage import SqliteStorage

_BLOB = 1 << 20


def _log_bytes(file: Path) -> int:
    return Path(f"{file}-wal").stat().st_size


@pytest.mark.filterwarnings("error")
def test_the_log_that_a_reader_let_grow_is_cut_again(
    state: Path, build: Callable[..., SqliteStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While somebody reads, the log grows and readiness says so; after that a commit brings it back to its bound."""
    monkeypatch.setattr(tools, "LARGE_LOG", 2 * LOG_BYTES)
    monkeypatch.setattr("cronpad_sql.lane._CHECKPOINT_EVERY_S", 0.0)
    file = state / "history.db"

    async def run() -> None:
        storage = build(state)
        lane = Lane(file="history", connect=lambda: connect_write(file, WriteMode(durable=False, busy_ms=200)), path=file)

        async def fill(blobs: int) -> None:
            for _ in range(blobs):
                await lane.run(lambda db: db.execute("INSERT INTO bulk VALUES (zeroblob(?))", (_BLOB,)))

        await lane.run(lambda db: db.execute("CREATE TABLE bulk (a)"))
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM bulk").fetchone() == (0,)
            await fill(3 * LOG_BYTES // _BLOB)
            assert _log_bytes(file) > 2 * LOG_BYTES
            assert "wal_large" in await storage.tools.degraded()
            reader.execute("COMMIT")
        await fill(2)
        assert _log_bytes(file) <= LOG_BYTES
        assert "wal_large" not in await storage.tools.degraded()
        await lane.close()

    asyncio.run(run())
