"""Workspaces as rows of control."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from cronpad_core.api import Quota, Workspace

__all__ = ["every", "one", "put"]

_COLUMNS = "name, suspended, reason, quota, quota_blocking, concurrency"
_ONE = f"SELECT {_COLUMNS} FROM workspaces WHERE name = ?"
_EVERY = f"SELECT {_COLUMNS} FROM workspaces ORDER BY name"
_PUT = f"INSERT OR REPLACE INTO workspaces ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"


def one(db: sqlite3.Connection, name: str) -> Workspace | None:
    """The workspace as stored."""
    row = db.execute(_ONE, (name,)).fetchone()
    return None if row is None else _workspace_of(row)


def every(db: sqlite3.Connection) -> list[Workspace]:
    """All workspaces, by name."""
    return [_workspace_of(row) for row in db.execute(_EVERY).fetchall()]


def put(db: sqlite3.Connection, new: Workspace) -> None:
    """Stores a workspace."""
    quota = new.quota
    limit, blocking = (None, True) if quota is None else (quota.max, quota.blocking)
    db.execute(_PUT, (new.name, new.suspended, new.reason, limit, blocking, new.concurrency))


def _workspace_of(row: Sequence[Any]) -> Workspace:
    return Workspace(
        name=row[0],
        suspended=bool(row[1]),
        reason=row[2],
        quota=None if row[3] is None else Quota(max=row[3], blocking=bool(row[4])),
        concurrency=row[5],
    )
