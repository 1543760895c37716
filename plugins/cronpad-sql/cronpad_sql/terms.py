"""The record of the holder, in control and in history alike; readable under every schema version."""

from __future__ import annotations

import sqlite3

from cronpad_core.api import StoreBusyError, TermRecord, TermRefusedError
from cronpad_sql.files import FileKind
from cronpad_sql.lane import Lane
from cronpad_sql.migrate import HEAD
from cronpad_sql.reader import Reader

__all__ = ["CREATE", "SqliteTerms", "require_term"]

CREATE = (
    "CREATE TABLE IF NOT EXISTS term (id INTEGER NOT NULL, term INTEGER NOT NULL, holder TEXT, released INTEGER NOT NULL, "
    "PRIMARY KEY (id))"
)
_READ = "SELECT term, holder, released FROM term WHERE id = 1"
_WRITE = "INSERT OR REPLACE INTO term (id, term, holder, released) VALUES (1, ?, ?, ?)"


def read_term(db: sqlite3.Connection) -> TermRecord:
    """The record as stored."""
    row = db.execute(_READ).fetchone()
    return TermRecord() if row is None else TermRecord(term=row[0], holder=row[1], released=bool(row[2]))


def _known_term(db: sqlite3.Connection) -> TermRecord:
    """The record, under a schema that we know: whoever stood by while a newer version brought the state up to date goes on so."""
    kind = FileKind(db.execute("PRAGMA application_id").fetchone()[0])
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > HEAD[kind]:
        raise StoreBusyError(
            f"{kind.name.lower()} has schema {version} by now and this cronpad knows schemas up to {HEAD[kind]}: it is outdated "
            "and only stands by; start it again with the version that wrote the state"
        )
    return read_term(db)


def require_term(db: sqlite3.Connection, term: int) -> None:
    """Raises ``TermRefusedError`` unless this is the stored term."""
    row = db.execute(_READ).fetchone()
    stored = row[0] if row is not None else 0
    if stored != term:
        raise TermRefusedError(f"term {term} is not the stored one ({stored})")


class SqliteTerms:
    """What both files share: the lane, the reader, and the record of the holder."""

    def __init__(self, lane: Lane, reader: Reader) -> None:
        self._lane = lane
        self._reader = reader

    async def read_term(self) -> TermRecord:
        """The record of the holder. Raises ``StoreBusyError`` where the file has a newer schema than ours."""
        return await self._reader.run(_known_term)

    async def swap_term(self, expected: TermRecord, new: TermRecord) -> bool:
        """Writes ``new`` where the whole record is ``expected``. (C1)"""

        def swap(db: sqlite3.Connection) -> bool:
            if read_term(db) != expected:
                return False
            db.execute(_WRITE, (new.term, new.holder, int(new.released)))
            return True

        return await self._lane.run(swap)
