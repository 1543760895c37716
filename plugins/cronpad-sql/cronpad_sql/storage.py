"""SQLite as a place for state: three files, each written by one thread of one process."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from pathlib import Path
from typing import ClassVar

from cronpad_core.api import (
    CatalogStore,
    HistoryStore,
    NotFoundError,
    QueueStore,
    StateRefusedError,
    StorageOptions,
    StorageTools,
)
from cronpad_sql.catalog import SqliteCatalog
from cronpad_sql.connections import WriteMode
from cronpad_sql.files import FileKind, create_empty, exists, unwritable
from cronpad_sql.history import SqliteHistory
from cronpad_sql.places import places_of, refuse_network
from cronpad_sql.queue import SqliteQueue
from cronpad_sql.state_file import StateFile
from cronpad_sql.tools import SqliteTools

__all__ = ["SqliteStorage"]

_log = logging.getLogger(__name__)
_BUSY_MS = 5_000
_OLDEST_SQLITE = (3, 35, 0)


class SqliteStorage:
    """Control, history and queue in SQLite files. Building one touches nothing."""

    name: ClassVar[str] = "sqlite"
    schemes: ClassVar[tuple[str, ...]] = ("sqlite",)
    api: ClassVar[int] = 1
    capabilities: ClassVar[frozenset[str]] = frozenset({"durable", "files", "processes"})

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        self._places = places = places_of(options.url, options.queue_path)
        self.directory: Path | None = places.directory
        self.tools: StorageTools | None = SqliteTools(places, wall_ms=options.wall_ms)
        limit, read_only = options.batch_limit, options.read_only
        control_mode = WriteMode(durable=True, busy_ms=_BUSY_MS)
        history_mode = WriteMode(durable=options.durable, busy_ms=_BUSY_MS)
        self._control = StateFile(places.control, FileKind.CONTROL, control_mode, batch_limit=limit, read_only=read_only)
        self._history = StateFile(places.history, FileKind.HISTORY, history_mode, batch_limit=limit, read_only=read_only)
        self.catalog: CatalogStore = SqliteCatalog(self._control.lane, self._control.reader)
        self.history: HistoryStore = SqliteHistory(self._history.lane, self._history.reader)
        self.queue: QueueStore = SqliteQueue(places.queue, wall_ms=options.wall_ms, batch_limit=limit, read_only=read_only)

    async def open(self) -> None:
        """Opens control and history; where none of the files exists, creates both with the record of the holder only."""
        await asyncio.to_thread(self._open_files)
        try:
            await self._control.start()
            await self._history.start()
        except BaseException:
            await self.close()
            raise

    def _open_files(self) -> None:
        places = self._places
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise StateRefusedError(f"SQLite {sqlite3.sqlite_version} is too old; 3.35 is needed")
        for directory in {places.directory, places.queue.parent}:
            refuse_network(directory)
        found = {path: exists(path) for path in (places.control, places.history, places.queue)}
        if not any(found.values()):
            if self._options.read_only:
                raise NotFoundError(f"there is no state in {places.directory}", hint="start one with 'cronpad run'")
            self._make_directory()
            create_empty(places.control)
        elif not found[places.control]:
            others = ", ".join(path.name for path, there in found.items() if there)
            raise StateRefusedError(
                f"{places.control} is missing, but {others} is there; it is not created anew beside them",
                hint="restore it from a backup, or move the other files away to begin without jobs",
            )
        if not self._options.read_only and not os.access(places.queue.parent, os.W_OK):
            raise unwritable(places.queue.parent, "no such directory, or permission denied")
        self._control.begin(self._may_begin)
        self._open_history()

    def _open_history(self) -> None:
        path = self._places.history
        if not exists(path):
            if self._options.read_only:
                raise StateRefusedError(f"{path} is missing")
            create_empty(path)
        # Empty or missing is the same loss; before control was ever prepared it is only a start that did not get this far.
        if self._history.begin(lambda: True) and self._control.version > 0:
            _log.error("%s was missing or empty: a new one was begun, and the runs of the past are gone", path)

    def _may_begin(self) -> bool:
        """An empty control file is a beginning only while nothing else was begun."""
        return not _used(self._places.history) and not exists(self._places.queue)

    def _make_directory(self) -> None:
        directory = self._places.directory
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            directory.mkdir(mode=0o700, exist_ok=True)
            if not os.access(directory, os.W_OK):
                read_only = bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
                raise unwritable(directory, "read-only file system" if read_only else "permission denied")
        except OSError as error:
            raise unwritable(directory, error) from error

    async def prepare(self) -> None:
        """Brings control and history to the present schema, each in one transaction, older ones after a copy."""
        await self._control.prepare(self._options.wall_ms())
        await self._history.prepare(self._options.wall_ms())

    async def check(self) -> None:
        """Raises ``StateVanishedError`` where control or history, or what belongs to them, was deleted or replaced."""
        self._control.check()
        self._history.check()

    async def close(self) -> None:
        """Flushes and closes everything. Closed twice is closed once."""
        await self.queue.close()
        await self._history.close()
        await self._control.close()


def _used(path: Path) -> bool:
    try:
        return os.stat(path).st_size > 0
    except OSError:
        return False
