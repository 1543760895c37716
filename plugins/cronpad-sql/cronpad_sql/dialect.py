"""SQLAlchemy over a connection of ours: schema work only, and each transaction takes the write lock when it begins."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, MetaData, StaticPool, create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError

__all__ = ["CronpadSQLite", "begin", "create_tables"]


class CronpadSQLite(SQLiteDialect_pysqlite):
    """SQLite whose transactions are immediate: a deferred one can fail at its first write, without waiting."""

    supports_statement_cache = True

    def do_begin(self, dbapi_connection: DBAPIConnection) -> None:
        """Begins with the write lock, or raises again each time that it cannot."""
        dbapi_connection.cursor().execute("BEGIN IMMEDIATE")


@contextmanager
def begin(db: sqlite3.Connection) -> Iterator[Connection]:
    """One immediate transaction on ``db``, DDL included; the connection itself stays open and ours.

    Raises SQLite's own errors: callers know what a full disk is by those.
    """
    registry.register("sqlite.cronpad", __name__, "CronpadSQLite")
    engine = create_engine(
        "sqlite+cronpad://", creator=lambda: db, poolclass=StaticPool, pool_reset_on_return=None, skip_autocommit_rollback=True
    )
    try:
        with engine.connect() as connection, connection.begin():
            yield connection
    except DBAPIError as error:
        raise (error.orig if isinstance(error.orig, sqlite3.Error) else error) from error


def create_tables(db: sqlite3.Connection, metadata: MetaData, *, mark: int, version: int) -> None:
    """Creates all tables and the marks of the file in one transaction."""
    with begin(db) as connection:
        metadata.create_all(connection, checkfirst=False)
        connection.exec_driver_sql(f"PRAGMA application_id = {mark}")
        connection.exec_driver_sql(f"PRAGMA user_version = {version}")
