"""What this distribution brings to cronpad."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_core.api import Storage, hookimpl
from cronpad_sql.storage import SqliteStorage

__all__ = ["cronpad_register_storage"]


@hookimpl
def cronpad_register_storage() -> Sequence[type[Storage]]:
    """SQLite, for ``sqlite:`` URLs."""
    return [SqliteStorage]
