"""The lane of a file: the only thread that writes it, and what is waiting shares one commit."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from cronpad_sql.connections import LOG_BYTES
from cronpad_sql.errands import Errand, Errands, carry_out
from cronpad_sql.faults import is_damage, is_ioerr, store_error

__all__ = ["Lane"]

_BATCH_S = 0.005
_IDLE_S = 30.0
_CHECKPOINT_EVERY_S = 0.25


class _BatchLostError(Exception):
    """SQLite rolled the whole transaction back by itself; ``error`` is what every caller in it gets."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True, eq=False)
class Lane(Errands):
    """Runs what waits as one immediate transaction, at most ``batch_limit`` requests or 5 ms of work.

    Each operation is all or nothing on its own: one that raises leaves no trace and fails alone. Answers are given after the
    commit. ``on_rollback`` is called whenever something that an operation wrote was undone. ``on_damage`` is told of damage.
    """

    path: Path = Path()
    batch_limit: int = 500
    on_rollback: Callable[[], None] | None = None
    on_damage: Callable[[], None] | None = None
    checkpoints: bool = True
    _unchecked: bool = False
    _wrote: bool = False
    _checked_at: float = float("-inf")

    def serve(self, first: Errand) -> None:
        """One transaction."""
        if first.alone:
            self._serve_alone(first)
            return
        try:
            db = self.connection()
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            # Whoever waited behind this one would wait as long again for the same lock.
            self._fail([first, *self._take_waiting()], self._translated(error))
            return
        taken: list[Errand] = []
        try:
            self._fill(db, first, taken)
            db.execute("COMMIT")
        except _BatchLostError as lost:
            self._undo(db)
            self._fail(taken, lost.error)
        except sqlite3.Error as error:
            said = self._translated(error, committing=True)
            self._undo(db)
            self._fail(taken, said)
        except BaseException as error:
            self._undo(db)
            self._fail(taken, error)
        else:
            self._unchecked = self._wrote = True
            self.settle(taken)
            self._checkpoint_if_large()

    def _take_waiting(self) -> list[Errand]:
        waiting: list[Errand] = []
        backlog = self.drain(self.batch_limit)
        while backlog and (behind := backlog[0]) is not None and not behind.alone:
            waiting.append(behind)
            backlog.popleft()
        return waiting

    def _fail(self, taken: list[Errand], error: BaseException) -> None:
        """Nothing of the transaction was stored; an operation that had failed before keeps its own error."""
        for errand in taken:
            if errand.error is None:
                errand.error = error
        self.settle(taken)

    def _fill(self, db: sqlite3.Connection, first: Errand, taken: list[Errand]) -> None:
        until = perf_counter() + _BATCH_S
        errand: Errand | None = first
        count, guarded = 0, False
        while errand is not None:
            group = self.group(errand, self.batch_limit - count)
            taken.extend(group)
            count += sum(max(1, len(one.requests)) for one in group)
            guarded = self._apply(db, group, guarded) or guarded
            if count >= self.batch_limit or perf_counter() >= until:
                return
            waiting = self.drain(self.batch_limit)
            if not waiting or waiting[0] is None or waiting[0].alone:
                return
            errand = waiting.popleft()

    def _apply(self, db: sqlite3.Connection, group: list[Errand], guarded: bool) -> bool:
        """Carries out a group, or undoes it and carries out each on its own; answers whether anything was done.

        ``guarded``: the transaction holds the work of others, so this needs a savepoint. Alone, the transaction is the guard.
        """
        if guarded:
            db.execute("SAVEPOINT item")
        try:
            carry_out(db, group)
        except sqlite3.Error as error:
            failure = self._translated(error)
            # After these, SQLite has undone the transaction, or nobody knows what the connection still sees.
            if is_ioerr(error) or is_damage(error) or not db.in_transaction:
                raise _BatchLostError(failure) from error
        except BaseException as error:
            failure = error
        else:
            if guarded:
                db.execute("RELEASE item")
            return True
        self._undo_item(db, guarded)
        if len(group) == 1:
            group[0].error = failure
            return False
        done = False
        for one in group:
            done = self._apply(db, [one], guarded or done) or done
        return done

    def _undo_item(self, db: sqlite3.Connection, guarded: bool) -> None:
        if self.on_rollback is not None:
            self.on_rollback()
        try:
            if guarded:
                db.execute("ROLLBACK TO item")
                db.execute("RELEASE item")
            else:
                db.execute("ROLLBACK")
                db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise _BatchLostError(self._translated(error)) from error

    def _undo(self, db: sqlite3.Connection) -> None:
        if self.on_rollback is not None:
            self.on_rollback()
        if self.db is None:
            return
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except sqlite3.Error:
            self.drop_connection()

    def _serve_alone(self, errand: Errand) -> None:
        try:
            assert errand.run is not None
            errand.answer = errand.run(self.connection())
        except sqlite3.Error as error:
            errand.error = self._translated(error)
        except BaseException as error:
            errand.error = error
        if self.db is not None and self.db.in_transaction:
            self._undo(self.db)
        self.settle([errand])

    def _translated(self, error: sqlite3.Error, *, committing: bool = False) -> BaseException:
        if is_damage(error) and self.on_damage is not None:
            self.on_damage()
        if is_ioerr(error):
            # After a failed write or sync nobody knows what the page cache holds: the next use reads the file anew.
            self.drop_connection()
        return store_error(error, self.file, committing=committing) or error

    # Checkpoints: by this thread alone, after the callers have their answers.

    def _wal_bytes(self) -> int:
        try:
            return os.stat(f"{self.path}-wal").st_size
        except OSError:
            return 0

    def _checkpoint_if_large(self) -> None:
        if self._wal_bytes() > LOG_BYTES and perf_counter() - self._checked_at > _CHECKPOINT_EVERY_S:
            self._checkpoint("PASSIVE")
            self._checked_at = perf_counter()  # while a reader keeps the log from being started anew, not after each commit

    def _checkpoint(self, kind: str) -> None:
        if self.db is None or not self.checkpoints:
            return
        try:
            self.db.execute(f"PRAGMA wal_checkpoint({kind})").fetchall()
            self._unchecked = False
        except sqlite3.Error as error:
            self._translated(error)

    def idle_for(self) -> float | None:
        """Half a minute after the last commit the log is copied into the file."""
        return _IDLE_S if self._unchecked else None

    def idle(self) -> None:
        """Copies the log into the file."""
        self._checkpoint("PASSIVE")

    def ended(self) -> None:
        """Leaves everything in the file itself."""
        if self._wrote:
            self._checkpoint("TRUNCATE")
