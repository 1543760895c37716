"""What an error of SQLite means to a caller of a store, by its code and never by its text."""

from __future__ import annotations

import sqlite3

from cronpad_core.api import CommitUnknownError, StoreBusyError, StoreDamagedError, StoreError

__all__ = ["code_of", "is_busy", "is_damage", "is_ioerr", "is_unopened", "store_error"]

_IOERR = 10
_CANTOPEN = 14
_BUSY = frozenset({5, 6})  # BUSY, LOCKED
_LATER = frozenset({7, 8, 9, 13, 14, 15})  # NOMEM, READONLY, INTERRUPT, FULL, CANTOPEN, PROTOCOL
_DAMAGE = frozenset({11, 26})  # CORRUPT, NOTADB
_MOVED = 1032  # READONLY_DBMOVED: the file's name is another file's now


def code_of(error: sqlite3.Error) -> int:
    """The extended result code, 0 where the driver itself raised."""
    return getattr(error, "sqlite_errorcode", 0) or 0


def is_ioerr(error: BaseException) -> bool:
    """Whether reading or writing failed below SQLite: the connection is not to be used again."""
    return isinstance(error, sqlite3.Error) and code_of(error) & 0xFF == _IOERR


def is_busy(error: BaseException) -> bool:
    """Whether another process holds a lock."""
    return isinstance(error, sqlite3.Error) and code_of(error) & 0xFF in _BUSY


def is_unopened(error: BaseException) -> bool:
    """Whether a file could not be opened: it is not there, not allowed, or this process has no descriptor left."""
    return isinstance(error, sqlite3.Error) and code_of(error) & 0xFF == _CANTOPEN


def is_damage(error: BaseException) -> bool:
    """Whether the file is no database, is damaged, or has lost its tables."""
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    code = code_of(error)
    # A file that was emptied under an open connection has no code of its own: the tables are simply gone.
    if code & 0xFF in _DAMAGE or code == _MOVED or (code == 1 and str(error).startswith("no such table")):
        return True
    # Bytes where text should be: the driver's own refusal, which has no code.
    return str(error).startswith("Could not decode to UTF-8")


def store_error(error: sqlite3.Error, file: str, *, committing: bool = False) -> StoreError | None:
    """The port's error for one of SQLite's; ``None`` where it is a mistake in this package and has to be seen as it is."""
    code = code_of(error)
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    said = f"{file}: {error} ({name})"
    if is_damage(error):
        return StoreDamagedError(said)
    if code & 0xFF == _IOERR:
        return CommitUnknownError(said) if committing else StoreBusyError(said)
    if code & 0xFF in _BUSY or code & 0xFF in _LATER:
        return StoreBusyError(said)
    return None
