"""What looks after a state in SQLite files: facts, a check of everything, backup and restore, and what should not stay as it is."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from cronpad_core.api import FileFacts, NotFoundError, Restored, StateProblem
from cronpad_sql import checks, copies
from cronpad_sql.files import FileKind, exists
from cronpad_sql.places import Places

__all__ = ["LARGE_LOG", "LOW_DISK", "SqliteTools", "can_lose_a_reset"]

LARGE_LOG: Final = 64 << 20
"""A log beyond this many bytes is one that a reader keeps from being started anew."""

LOW_DISK: Final = 64 << 20
"""With fewer bytes left on its disk, a state is about to stop."""

_RESET_SINCE: Final = (3, 7, 0)
_RESET_MENDED: Final = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
"""Where SQLite's mistake in starting a WAL anew is mended: two lines of back-ports, and every version from the last one on."""


def can_lose_a_reset(version: tuple[int, ...]) -> bool:
    """Whether this SQLite may damage a file when two connections write and checkpoint at the same moment."""
    if version < _RESET_SINCE or version >= _RESET_MENDED[-1]:
        return False
    return not any(version[:2] == mended[:2] and version >= mended for mended in _RESET_MENDED[:-1])


class SqliteTools:
    """See ``StorageTools``. Works on the files by connections of its own, in threads, whether the storage is open or not."""

    def __init__(self, places: Places, *, wall_ms: Callable[[], int]) -> None:
        self._places = places
        self._wall_ms = wall_ms

    def _files(self) -> tuple[tuple[FileKind, Path], ...]:
        places = self._places
        return (FileKind.CONTROL, places.control), (FileKind.HISTORY, places.history), (FileKind.QUEUE, places.queue)

    async def facts(self) -> list[FileFacts]:
        """Names, sizes and schema versions."""
        return await asyncio.to_thread(self._facts)

    def _facts(self) -> list[FileFacts]:
        return [
            FileFacts(
                name=kind.name.lower(),
                path=path,
                size=_size(path),
                log_size=_size(_log_of(path)),
                found=checks.found_version(path, kind),
                known=checks.known_version(kind),
            )
            for kind, path in self._files()
        ]

    async def check(self) -> list[StateProblem]:
        """Reads everything."""
        places = self._places
        if not exists(places.control) and not exists(places.history):
            raise NotFoundError(f"there is no state in {places.directory}", hint="name its directory with --state DIR")
        return await asyncio.to_thread(checks.check, places)

    async def backup(self, target: Path) -> list[Path]:
        """Copies control and history."""
        return await asyncio.to_thread(copies.backup, self._places, target)

    async def restore(self, source: Path, *, aside: bool, begin: Callable[[str], Awaitable[None]]) -> Restored:
        """Puts a backup in place; for a command of its own, which nobody waits behind."""
        return await copies.put_in_place(self._places, source, aside=aside, wall_ms=self._wall_ms(), begin=begin)

    async def set_queue_aside(self) -> Path | None:
        """Renames the queue file with its log."""
        mark = f".aside-{self._wall_ms() // 1000}"
        return await asyncio.to_thread(copies.move_aside, self._places.queue, mark)

    async def degraded(self) -> list[str]:
        """Logs that grow, the library's own mistake, and a disk that is nearly full."""
        return await asyncio.to_thread(self._degraded)

    def _degraded(self) -> list[str]:
        found = []
        if any(_size(_log_of(path)) > LARGE_LOG for _, path in self._files()):
            found.append("wal_large")
        if can_lose_a_reset(sqlite3.sqlite_version_info):
            found.append("sqlite_wal_reset")
        if any(_free(directory) < LOW_DISK for directory in {path.parent for _, path in self._files()}):
            found.append("disk_low")
        return found


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _free(directory: Path) -> int:
    """Bytes that we may still write there; many where that cannot be found out."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return LOW_DISK
    return found.f_bavail * found.f_frsize
