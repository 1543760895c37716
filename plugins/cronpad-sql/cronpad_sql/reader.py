"""The reader of a file: a connection that only reads, on a thread of its own."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from time import perf_counter

from cronpad_core.api import StoreError
from cronpad_sql.errands import Errand, Errands, carry_out
from cronpad_sql.faults import store_error

__all__ = ["Reader"]

_READ_S = 5.0
_OPCODES = 100_000
_TOGETHER = 500


@dataclass(slots=True, eq=False)
class Reader(Errands):
    """Reads on a connection of its own, each operation on one snapshot; it never waits for the lane.

    A read that takes longer than 5 s is cut off: while it lasts, the log cannot be started anew and grows.
    """

    _until: float = 0.0

    def connection(self) -> sqlite3.Connection:
        """The connection of this thread, whose statements end when their time is up."""
        known, db = self.db, Errands.connection(self)
        if db is not known:
            db.set_progress_handler(lambda: perf_counter() > self._until, _OPCODES)
        return db

    def serve(self, first: Errand) -> None:
        """One operation, or the same question of many callers."""
        group = self.group(first, _TOGETHER)
        failure: BaseException | None = None
        self._until = perf_counter() + _READ_S
        try:
            db = self.connection()
            db.execute("BEGIN")
            carry_out(db, group)
        except sqlite3.Error as error:
            failure = store_error(error, self.file) or error
            self.drop_connection()
        except StoreError as error:
            failure = error
            self.drop_connection()
        except BaseException as error:
            failure = error
        if self.db is not None and self.db.in_transaction:
            try:
                self.db.execute("ROLLBACK")
            except sqlite3.Error:
                self.drop_connection()
        self.settle(group, failure)
