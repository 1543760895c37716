"""What cronpad sees of this distribution."""

from __future__ import annotations

import subprocess
import sys

from cronpad_core.api import API
from cronpad_sql.plugin import cronpad_register_storage
from cronpad_sql.storage import SqliteStorage


def test_sqlite_is_registered() -> None:
    """One storage, for ``sqlite`` URLs, written for this API."""
    assert list(cronpad_register_storage()) == [SqliteStorage]
    assert (SqliteStorage.name, SqliteStorage.schemes, SqliteStorage.api) == ("sqlite", ("sqlite",), API)


def test_importing_is_quick() -> None:
    """SQLAlchemy and Alembic, a third of a second, are loaded only when a schema is made or moved."""
    code = "import sys, cronpad_sql.plugin; print([name for name in ('sqlalchemy', 'alembic') if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.stdout == "[]\n"
