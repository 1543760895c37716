"""From the first schema to the present one, with rows in it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from cronpad_core.api import ConcurrencyRule, RunStatus, Trigger, Workspace
from cronpad_sql.storage import SqliteStorage
from cronpad_testkit.samples import T0, job, spec, version

Build = Callable[..., SqliteStorage]

_RUN = "INSERT INTO runs VALUES (?, ?, ?, ?, ?, 1, ?, ?, 0, 7, ?, ?, ?, ?, NULL, NULL, NULL, NULL, 'why', 0, 0, 0, ?)"


def _fill(directory: Path) -> None:
    """Rows as the first schema had them: settings without what came later."""
    plain = {name: value for name, value in spec().to_json().items() if name not in ("concurrency", "sla")}
    named = {**plain, "workspace": "billing"}
    keyed = replace(spec(), concurrency=ConcurrencyRule(max=1, key="db")).to_json()
    one = job()
    with closing(sqlite3.connect(directory / "cronpad.db", isolation_level=None)) as db:
        db.execute("INSERT INTO workspaces VALUES ('ws_1', 'billing')")
        db.execute(
            "INSERT INTO jobs VALUES (?, 'api', 'backup', 1, 'active', ?, ?, ?, NULL, NULL, 0, NULL, NULL)",
            (one.id, json.dumps(plain), T0, T0 - 1),
        )
        db.execute(
            "INSERT INTO job_versions VALUES ('job_a', 1, ?, ?, ?, ?, 1)",
            (json.dumps(plain), T0 - 1, T0 + 9, T0 + 3),
        )
    with closing(sqlite3.connect(directory / "history.db", isolation_level=None)) as db:
        for number, document in enumerate((json.dumps(plain), json.dumps(named), json.dumps(keyed), "{broken"), 1):
            db.execute("INSERT INTO specs VALUES (?, 'job_a', ?, ?, ?)", (number, number, f"h{number}", document))
            status = "running" if number == 2 else "succeeded"
            values = (number, f"r{number}", "job_a", T0 + number, "s", number, status, T0, T0, T0, T0, int(number != 2))
            db.execute(_RUN, values)
        db.execute("INSERT INTO attempts VALUES (1, 0, 7, 'delivered', 1, 2, 3, 4, 5, NULL, '', 0, NULL)")
        db.execute("INSERT INTO outputs VALUES (1, 0, 7, 0, 'stdout', 2, x'6869', x'')")
        db.execute("INSERT INTO ranges VALUES ('job_a', 1, 10, 20, 'missed', 2, 'away')")


def test_the_rows_of_the_first_schema_are_kept_and_filled(first_schema: Path, build: Build) -> None:
    """Jobs, runs, outputs and ranges read as before; what limits count by comes from the settings of each run."""
    _fill(first_schema)

    async def look(storage: SqliteStorage) -> None:
        await storage.open()
        await storage.prepare()
        assert await storage.catalog.job("job_a") == replace(job(), spec=spec())
        ended = replace(version(until_ms=T0 + 9, open_from_ms=T0 + 3), spec=spec())
        assert await storage.catalog.ended_versions(limit=9) == [ended]
        assert await storage.catalog.workspaces() == [Workspace(name="billing")]
        (run,) = await storage.history.unfinished(after="", limit=9)
        assert (run.id, run.status, run.spec.workspace) == ("r2", RunStatus.RUNNING, "billing")
        assert (run.payload, run.token, run.key.trigger) == (None, None, Trigger.SCHEDULED)
        (attempt,) = await storage.history.attempts("r1")
        assert attempt.output[0].head == b"hi"
        assert len(await storage.history.ranges("job_a")) == 1
        assert await storage.history.ledger_from("job_a") is None
        assert await storage.history.backfills() == []
        await storage.close()

    asyncio.run(look(build(first_schema)))
    with closing(sqlite3.connect(first_schema / "history.db")) as db:
        assert db.execute("SELECT id, workspace, scope_key FROM runs ORDER BY seq").fetchall() == [
            ("r1", "default", None),
            ("r2", "billing", None),
            ("r3", "default", "db"),
            ("r4", "default", None),
        ]
    assert sorted(path.name for path in first_schema.glob("*.v1-*")) == ["cronpad.db.v1-1767225600", "history.db.v1-1767225600"]
