"""Control or history as a file: created with the record of the holder only, judged at every opening, then served by a lane."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from cronpad_core.api import StateRefusedError, StateVanishedError, StoreBusyError
from cronpad_sql import terms
from cronpad_sql.connections import WriteMode, connect_read, connect_write
from cronpad_sql.faults import is_busy, is_damage
from cronpad_sql.files import FileKind, Watch, refused_mark, unwritable, versions_of
from cronpad_sql.lane import Lane
from cronpad_sql.migrate import HEAD, copy_before, migrate
from cronpad_sql.reader import Reader

__all__ = ["StateFile"]

_CHECK_BYTES = 512 << 20


class StateFile:
    """One of the two files that must not be lost."""

    def __init__(self, path: Path, kind: FileKind, mode: WriteMode, *, batch_limit: int, read_only: bool) -> None:
        self.path = path
        self.kind = kind
        self.lane = Lane(file=str(path), connect=partial(self._connect, mode), path=path, batch_limit=batch_limit)
        self.reader = Reader(file=str(path), connect=partial(connect_read, path, mode.busy_ms))
        self._mode = mode
        self._read_only = read_only
        self._watch: Watch | None = None
        self._unclean = False
        self.version = 0

    def _connect(self, mode: WriteMode) -> sqlite3.Connection:
        if self._read_only:
            raise sqlite3.OperationalError(f"{self.path} is open for reading only")
        return connect_write(self.path, mode)

    def begin(self, may_be_empty: Callable[[], bool]) -> bool:
        """Judges the file and makes its ``term`` table where it is empty and ``may_be_empty`` says so; answers whether it did.

        Runs on any thread, before the lane. Raises ``StateRefusedError`` and ``StateUnwritableError``.
        """
        try:
            self._unclean = self._log_bytes() > 0
            if not self._read_only:
                self._require_writable()
            # For reading only: whatever turns out not to be ours keeps even its journal mode.
            with closing(connect_read(self.path, self._mode.busy_ms)) as db:
                if self._judge(db):
                    return False
            if not may_be_empty():
                with closing(connect_read(self.path, self._mode.busy_ms)) as db:
                    if self._judge(db):
                        return False
                raise self._damaged("the file is empty")
            with closing(connect_write(self.path, self._mode)) as db:
                return self._create(db, may_be_empty)
        except sqlite3.Error as error:
            if is_damage(error):
                raise self._damaged(str(error)) from error
            if is_busy(error):
                raise StoreBusyError(f"{self.path}: {error}") from error
            raise unwritable(self.path, error) from error

    def _require_writable(self) -> None:
        for place in (self.path, self.path.parent):
            if not os.access(place, os.W_OK):
                read_only = bool(os.statvfs(place).f_flag & os.ST_RDONLY)
                raise unwritable(place, "read-only file system" if read_only else "permission denied")

    def _log_bytes(self) -> int:
        try:
            return os.stat(f"{self.path}-wal").st_size
        except OSError:
            return 0

    def _judge(self, db: sqlite3.Connection) -> bool:
        """Whether something was begun here. Raises what speaks against it."""
        mark, self.version, empty = versions_of(db)
        version = self.version
        if mark == 0 and empty:
            if self._read_only:
                raise self._damaged("the file is empty")
            return False
        if mark != self.kind.value:
            raise refused_mark(self.path, self.kind)
        if version > HEAD[self.kind]:
            raise StateRefusedError(
                f"{self.path} has schema {version}; this cronpad knows schemas up to {HEAD[self.kind]}. Nothing was changed",
                hint="install the cronpad that wrote it, or restore the copy that was taken before its upgrade",
            )
        if self._read_only and version < HEAD[self.kind]:
            raise StateRefusedError(
                f"{self.path} has schema {version}, which is older than {HEAD[self.kind]}",
                hint="start 'cronpad run' once: it brings the state up to date",
            )
        db.execute("SELECT term FROM term").fetchall()
        return True

    def _create(self, db: sqlite3.Connection, may_be_empty: Callable[[], bool]) -> bool:
        db.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have begun it between the look and the lock.
            if not versions_of(db)[2]:
                return False
            if not may_be_empty():
                raise self._damaged("the file is empty")
            db.execute(terms.CREATE)
            db.execute(f"PRAGMA application_id = {self.kind.value}")
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")
        return True

    def _damaged(self, said: str) -> StateRefusedError:
        return StateRefusedError(
            f"{self.path} is damaged: {said}", hint="restore it from a backup; it is never repaired or replaced silently"
        )

    async def start(self) -> None:
        """Opens the lane, and remembers which files these are."""
        if self._read_only:
            await self.reader.run(terms.read_term)
        else:
            await self.lane.run(lambda db: db.execute("SELECT term FROM term").fetchall(), alone=True)
        self._watch = Watch.of(self.path)

    async def prepare(self, wall_ms: int) -> None:
        """Checks a file that was not closed properly, and migrates an older one, after a copy."""
        await self.lane.run(partial(self._prepare, wall_ms=wall_ms), alone=True)

    def _prepare(self, db: sqlite3.Connection, *, wall_ms: int) -> None:
        try:
            if self._unclean and os.stat(self.path).st_size <= _CHECK_BYTES:
                said = db.execute("PRAGMA quick_check(1)").fetchone()[0]
                if said != "ok":
                    raise self._damaged(said)
            self._unclean = False
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version >= HEAD[self.kind]:
                return
            if version > 0:
                copy_before(db, self.path, version, wall_ms)
            migrate(db, self.kind)
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        except OSError as error:
            raise unwritable(self.path, error) from error

    def _refusal(self, error: sqlite3.Error) -> Exception:
        if is_damage(error):
            return self._damaged(str(error))
        if is_busy(error):
            return error
        return unwritable(self.path, error)

    def check(self) -> None:
        """Raises ``StateVanishedError`` where the file, its log or its shared memory is gone or another one."""
        gone = None if self._watch is None else self._watch.missing()
        if gone is not None:
            self.lane.checkpoints = False
            raise StateVanishedError(
                f"{gone} was deleted or replaced while cronpad ran",
                hint="see that no other process uses this state, then start again; restore a backup if the file is gone",
            )

    async def close(self) -> None:
        """Flushes and closes."""
        await self.reader.close()
        if self._watch is not None and self._watch.missing() is not None:
            self.lane.checkpoints = False
        await self.lane.close()
