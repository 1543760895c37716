"""The queue's file from outside: found, judged, made anew, and looked at without changing anything."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from cronpad_core.api import LockRow, QueueLook, StateUnwritableError, StoreBusyError
from cronpad_sql import queue_sql as sql
from cronpad_sql.connections import WriteMode, connect_read, connect_write
from cronpad_sql.faults import is_busy, is_damage, is_unopened
from cronpad_sql.files import FileKind, create_empty, refused_mark, stamp_of, versions_of

__all__ = ["LOCK", "MODE", "QUEUE_SCHEMA", "identity_of", "look_at", "lock_of", "lock_text", "open_file", "readable_with"]

QUEUE_SCHEMA = 1
MODE = WriteMode(durable=False, busy_ms=1_500)
LOCK = "lock:dispatcher"
_MARK = FileKind.QUEUE.value
_QUICK_CHECK_BYTES = 64 << 20


def lock_of(text: str | None) -> LockRow | None:
    """The lock row as stored; one that cannot be read is none, and whoever thinks to hold it has lost it."""
    if text is None:
        return None
    try:
        raw = json.loads(text)
        return LockRow(token=str(raw["token"]), term=int(raw["term"]), expires_ms=int(raw["expires"]))
    except (ValueError, KeyError, TypeError):
        return None


def lock_text(row: LockRow) -> str:
    """The lock row to store."""
    return json.dumps({"token": row.token, "term": row.term, "expires": row.expires_ms})


def identity_of(path: Path, file_id: str | None) -> str | None:
    """Names the file that is at this place now: its inode tells a copy, its own id a file that was filled anew."""
    stamp = stamp_of(path)
    return None if stamp is None or file_id is None else f"{stamp[0]}:{stamp[1]}:{file_id}"


def look_at(path: Path) -> QueueLook:
    """What a fresh connection sees; the file is not created, moved or written."""
    nothing = QueueLook(identity=None)
    before = stamp_of(path)
    if before is None:
        return nothing
    try:
        with closing(connect_read(path, MODE.busy_ms)) as db:
            mark = db.execute("PRAGMA application_id").fetchone()[0]
            meta = dict(db.execute(sql.ALL_META).fetchall()) if mark == _MARK else {}
    except sqlite3.Error as error:
        _raise_passing(error, path)
        return nothing
    identity = identity_of(path, meta.get("file"))
    if identity is None or stamp_of(path) != before:
        return nothing
    try:
        return _look(identity, meta)
    except ValueError:
        return nothing


def _raise_passing(error: sqlite3.Error, path: Path) -> None:
    """Raises where it says nothing about the file that it could not be read just now: locked, or no descriptor left."""
    if is_busy(error) or (is_unopened(error) and os.access(path, os.R_OK)):
        raise StoreBusyError(f"{path}: {error}") from error


def _look(identity: str, meta: Mapping[str, str]) -> QueueLook:
    heartbeat = meta.get("heartbeat")
    return QueueLook(
        identity=identity,
        lock=lock_of(meta.get(LOCK)),
        term=int(meta.get("term", "0")),
        boot_id=meta.get("boot_id"),
        boot_base_ms=int(meta.get("boot_base", "0")),
        epoch=meta.get("epoch"),
        heartbeat_ms=None if heartbeat is None else int(heartbeat),
    )


def readable_with(path: Path, epoch: str | None) -> bool:
    """Whether a fresh connection can read the queue and finds this epoch. Raises ``StoreBusyError``."""
    try:
        with closing(connect_read(path, MODE.busy_ms)) as db:
            mark, version, _ = versions_of(db)
            found = db.execute(sql.GET_META, ("epoch",)).fetchone()
            db.execute(sql.READABLE).fetchall()
    except sqlite3.Error as error:
        _raise_passing(error, path)
        return False
    return mark == _MARK and version == QUEUE_SCHEMA and (found[0] if found else None) == epoch


def open_file(path: Path, wall_ms: int, *, damaged: bool) -> str | None:
    """Leaves a sound queue file at this place; the answer is why it is an empty one, ``None`` where it was sound.

    ``damaged``: what is there has proved damaged in use, whatever a check says of it now.
    """
    reason = "corrupt" if damaged and stamp_of(path) is not None else _judge(path)
    if reason is None:
        return None
    if reason == "corrupt":
        _move_aside(path, wall_ms)
    elif reason == "schema":
        _remove(path)
    _create(path)
    return reason


def _judge(path: Path) -> str | None:
    if stamp_of(path) is None:
        return "missing"
    try:
        # For reading only: whatever turns out not to be ours keeps even its journal mode.
        with closing(connect_read(path, MODE.busy_ms)) as db:
            mark, version, empty = versions_of(db)
            if mark != _MARK:
                if mark == 0 and empty:
                    return "corrupt"  # emptied
                raise refused_mark(path, FileKind.QUEUE)
            if version != QUEUE_SCHEMA:
                return "schema"
            db.execute(sql.READABLE).fetchall()
            meta = dict(db.execute(sql.ALL_META).fetchall())
            if "file" not in meta or _has_strange_log(path, meta):
                return "corrupt"
            if os.stat(path).st_size <= _QUICK_CHECK_BYTES and db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                return "corrupt"
    except sqlite3.Error as error:
        if is_damage(error):
            return "corrupt"
        raise
    return None


def _has_strange_log(path: Path, meta: Mapping[str, str]) -> bool:
    """Whether this is a copy beside a log that was written for another file: together they make no sense."""
    log = Path(f"{path}-wal")
    return meta.get("inode") != str(os.stat(path).st_ino) and log.exists() and log.stat().st_size > 0


def _move_aside(path: Path, wall_ms: int) -> None:
    """Keeps the damaged file, and its log, under another name for whoever wants to look at it."""
    target = f"{path}.corrupt-{wall_ms // 1000}"
    count = 0
    while os.path.lexists(target):
        count += 1
        target = f"{path}.corrupt-{wall_ms // 1000}-{count}"
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.rename(f"{path}{suffix}", f"{target}{suffix}")


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


def _create(path: Path) -> None:
    """Makes an empty queue under another name first: at its place there is never half a file."""
    from cronpad_sql.dialect import create_tables  # SQLAlchemy is not needed where the queue is sound
    from cronpad_sql.schema import queue

    fresh = path.with_name(f"{path.name}.new-{os.getpid()}")
    try:
        _remove(fresh)
        create_empty(fresh)
        with closing(connect_write(fresh, MODE)) as db:
            create_tables(db, queue, mark=_MARK, version=QUEUE_SCHEMA)
            db.execute(sql.NEW_FILE, (str(os.stat(fresh).st_ino),))
        # A log that outlived its file would be played into the new one.
        for suffix in ("-wal", "-shm"):
            if stamp_of(path) is None:
                with suppress(FileNotFoundError):
                    os.unlink(f"{path}{suffix}")
        with suppress(FileExistsError):  # another process made one meanwhile: theirs is as good
            os.link(fresh, path)
    except (OSError, StateUnwritableError) as error:
        raise StoreBusyError(f"{path} cannot be created: {error}") from error
    finally:
        with suppress(OSError):
            _remove(fresh)
