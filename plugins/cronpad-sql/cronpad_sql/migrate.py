"""Brings control and history to the present schema: Alembic decides the steps, one transaction takes them all."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from cronpad_sql.files import FileKind, create_empty

__all__ = ["HEAD", "copy_before", "migrate"]

HEAD = {FileKind.CONTROL: 2, FileKind.HISTORY: 3}
"""The schema version (``PRAGMA user_version``) that this package reads and writes: the number of its newest migration."""


def migrate(db: sqlite3.Connection, kind: FileKind) -> None:
    """Takes all missing steps and sets the new version number in one immediate transaction; a failure leaves nothing.

    Raises ``sqlite3.Error``.
    """
    # Alembic and SQLAlchemy cost a third of a second, which a start that finds the present schema does not pay.
    from alembic import command
    from alembic.config import Config

    from cronpad_sql.dialect import begin

    with begin(db) as connection:
        if connection.exec_driver_sql("PRAGMA user_version").scalar_one() >= HEAD[kind]:
            return
        config = Config()
        config.set_main_option("script_location", f"cronpad_sql:migrations/{kind.name.lower()}")
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        command.upgrade(config, f"{HEAD[kind]:04}")
        connection.exec_driver_sql(f"PRAGMA user_version = {HEAD[kind]}")


def copy_before(db: sqlite3.Connection, path: Path, version: int, wall_ms: int) -> Path:
    """Copies the database as it is to ``<name>.v<version>-<unix time>`` beside it, complete or not at all."""
    target = path.with_name(f"{path.name}.v{version}-{wall_ms // 1000}")
    half = target.with_name(target.name + ".part")
    with suppress(FileNotFoundError):
        half.unlink()
    create_empty(half)
    db.execute("VACUUM INTO ?", (str(half),))
    _sync(half)
    os.replace(half, target)
    _sync(target.parent)
    return target


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
