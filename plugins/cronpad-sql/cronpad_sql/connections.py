"""Connections to one SQLite file, with the pragmas that cronpad's promises rest on."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

__all__ = ["LOG_BYTES", "WriteMode", "connect_read", "connect_write"]

LOG_BYTES = 4 << 20
"""A log that is started anew is cut to this size, so that a longer one is one that has grown since the last checkpoint."""

_STATEMENTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMode:
    """How a file is written: ``durable`` survives a power cut; ``busy_ms`` is how long another process's lock is waited for."""

    durable: bool
    busy_ms: int


def connect_write(path: Path, mode: WriteMode) -> sqlite3.Connection:
    """Opens an existing file for writing, in WAL mode; transactions begin and end by statement only."""
    db = _connect(path, "rw", mode.busy_ms)
    try:
        if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            word = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if word != "wal":
                raise sqlite3.OperationalError(f"{path}: this file system allows no WAL (journal_mode is {word})")
        # The lane checkpoints by itself: with automatic checkpoints an fsync of the whole file would hit a random caller.
        for pragma in (
            f"synchronous = {'FULL' if mode.durable else 'NORMAL'}",
            "wal_autocheckpoint = 0",
            "foreign_keys = ON",
            "trusted_schema = OFF",
            "cell_size_check = ON",
            f"journal_size_limit = {LOG_BYTES}",
        ):
            db.execute(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        db.close()
        raise
    return db


def connect_read(path: Path, busy_ms: int) -> sqlite3.Connection:
    """Opens an existing file for reading only; it is never created and never changed."""
    db = _connect(path, "ro", busy_ms)
    try:
        _make_reader(db)
    except sqlite3.OperationalError:
        db.close()
        # In a place that cannot be written, SQLite can make no shared memory for the WAL. Where there is no WAL, none is needed.
        if path.with_name(path.name + "-wal").exists() or not path.exists():
            raise
        db = _connect(path, "ro&immutable=1", busy_ms)
        _make_reader(db)
    return db


def _make_reader(db: sqlite3.Connection) -> None:
    for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON", "schema_version"):
        db.execute(f"PRAGMA {pragma}").fetchall()


def _connect(path: Path, mode: str, busy_ms: int) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=busy_ms / 1000,
        cached_statements=_STATEMENTS,
    )
