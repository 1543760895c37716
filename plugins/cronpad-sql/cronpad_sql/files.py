"""Files as SQLite files: whose they are, which version, which one of that name, and whether they are still there."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cronpad_core.api import StateRefusedError, StateUnwritableError

__all__ = ["FileKind", "Watch", "create_empty", "exists", "refused_mark", "stamp_of", "unwritable", "versions_of"]


class FileKind(Enum):
    """The three files, with the mark (``PRAGMA application_id``) that tells them from other people's databases."""

    CONTROL = 0x4350_4144  # "CPAD"
    HISTORY = 0x4350_4148  # "CPAH"
    QUEUE = 0x4350_4151  # "CPAQ"


_COMPANIONS = ("", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Watch:
    """Which files were opened, by device and inode: an open connection does not notice that they are gone."""

    path: Path
    seen: tuple[tuple[str, int, int], ...]

    @classmethod
    def of(cls, path: Path) -> Watch:
        """Remembers the file and its log and shared memory, as they are now."""
        found = []
        for suffix in _COMPANIONS:
            try:
                status = os.stat(f"{path}{suffix}")
            except OSError:
                continue
            found.append((suffix, status.st_dev, status.st_ino))
        return cls(path, tuple(found))

    def missing(self) -> str | None:
        """The name of the first file that is gone or another one, ``None`` where all are in place. Never raises."""
        for suffix, device, inode in self.seen:
            name = f"{self.path}{suffix}"
            try:
                status = os.stat(name)
            except OSError:
                return name
            if status.st_ino != inode or status.st_dev != device:
                return name
        return None if self.seen else str(self.path)

    def drop_orphans(self) -> None:
        """Removes the log and shared memory that were opened, where the file that they belong to is not there any more.

        SQLite takes any log at its place for the file's own, and would play it into another file.
        """
        if not self.seen or self.seen[0][0] or stamp_of(self.path) == self.seen[0][1:]:
            return
        for suffix, device, inode in self.seen[1:]:
            companion = self.path.with_name(self.path.name + suffix)
            if stamp_of(companion) == (device, inode):
                with suppress(OSError):
                    companion.unlink()


def exists(path: Path) -> bool:
    """Whether something is at this place. Raises ``StateUnwritableError`` where even that cannot be found out."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unwritable(path, error) from error
    return True


def unwritable(path: Path, error: object) -> StateUnwritableError:
    """The refusal to start on a state that cannot be written, naming place and reason."""
    reason = getattr(error, "strerror", None) or error
    return StateUnwritableError(
        f"the state at {path} cannot be written: {reason}",
        hint="give the user that runs cronpad write access to the directory, or name another one with --state",
    )


def create_empty(path: Path) -> bool:
    """Creates the file, readable by its owner alone; answers whether it did. Never touches one that is there."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    except OSError as error:
        raise unwritable(path, error) from error
    return True


def stamp_of(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file at this place."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def versions_of(db: sqlite3.Connection) -> tuple[int, int, bool]:
    """Mark, schema version, and whether the file holds no table at all."""
    with closing(db.cursor()) as cursor:
        # Asked first: a file that another process begins meanwhile has its mark by then.
        empty = cursor.execute("SELECT NOT EXISTS (SELECT 1 FROM sqlite_master)").fetchone()[0]
        mark = cursor.execute("PRAGMA application_id").fetchone()[0]
        version = cursor.execute("PRAGMA user_version").fetchone()[0]
    return mark, version, bool(empty)


def refused_mark(path: Path, kind: FileKind) -> StateRefusedError:
    """The refusal of a database that is not cronpad's."""
    return StateRefusedError(
        f"{path} is a database, but not a {kind.name.lower()} file of cronpad; nothing in it was touched",
        hint="name another state directory with --state",
    )
