"""States of another schema: an upgrade that finds no room, and a standby that was overtaken by a newer version."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from books import audit, findings_of_runs
from stage import Stage, quick, wait_until

FIRST = """
import asyncio, sys
from cronpad_core.api import StorageOptions
from cronpad_sql import migrate
from cronpad_sql.files import FileKind
from cronpad_sql.storage import SqliteStorage
migrate.HEAD.update({FileKind.CONTROL: 1, FileKind.HISTORY: 1})
async def main():
    storage = SqliteStorage(StorageOptions(url="sqlite://" + sys.argv[1], wall_ms=lambda: 1_767_225_600_000))
    await storage.open()
    await storage.prepare()
    await storage.close()
asyncio.run(main())
"""
"""Makes a state as the first version made it."""


def _first_state(stage: Stage, runs: int) -> dict[Path, list[tuple[object, ...]]]:
    """A state of the first schema with many runs of which every row grows by an upgrade; answers what is in it."""
    subprocess.run([sys.executable, "-c", FIRST, stage.state], check=True, timeout=60)
    with closing(sqlite3.connect(stage.history)) as db, db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(runs)")]
        assert "workspace" not in columns, "this is the first schema"
        db.execute(
            "INSERT INTO specs VALUES (1, 'job_old', 1, 'h', ?)",
            (json.dumps({"workspace": "w" * 64, "concurrency": {"key": "k" * 64}}),),
        )
        places = ", ".join(f":{name}" if name in ("seq",) else _value(name) for name in columns)
        db.executemany(f"INSERT INTO runs VALUES ({places})", [{"seq": number} for number in range(1, runs + 1)])
    return {path: _content(path) for path in (stage.control, stage.history)}


def _value(column: str) -> str:
    """A value for a column of the runs, as SQL."""
    text = {"id": "'run_' || :seq", "job_id": "'job_old'", "trigger": "'m'", "status": "'succeeded'", "reason": "''"}
    numbers = {"scheduled_at": ":seq", "slot_at": ":seq", "created_at": f"{int(time.time() * 1000)} - :seq"}
    ones = {"job_version", "spec", "spec_id", "fence", "ended"}
    nulls = {"opened_at", "finished_at", "retry_attempt", "retry_at", "skip_reason", "retry_of"}
    return text.get(column) or numbers.get(column) or ("1" if column in ones else "NULL" if column in nulls else "0")


def _content(path: Path) -> list[tuple[object, ...]]:
    """The schema version, the tables, and how many rows each has."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'term'")]
        counts = [(name, *db.execute(f"SELECT count(*) FROM {name}").fetchone()) for name in sorted(tables)]
        return [db.execute("PRAGMA user_version").fetchone(), *counts]


def _limited(limit: int) -> list[str]:
    """Before a command line: no file may grow past this many bytes."""
    return ["sh", "-c", f'ulimit -f {limit // 512}; exec "$0" "$@"']


@pytest.mark.parametrize("share", [0.5, 1.01])
def test_an_upgrade_without_room(stage: Stage, share: float) -> None:
    """Row 107: no room for the copy, or for the steps after it: all is rolled back, 73 with place and reason, and the state is as
    it was; with room again the next start does it all."""
    before = _first_state(stage, runs=5_000)
    stage.declare(stage.job("each"))
    runner = stage.start(prefix=_limited(int(stage.history.stat().st_size * share)))
    assert runner.ended() == 73, runner.stderr
    assert str(stage.history) in runner.stderr and "cannot be written" in runner.stderr
    assert _content(stage.history) == before[stage.history]
    again = stage.start().active()
    again.finished("each", count=2)
    again.stop()
    content = dict(_content(stage.history)[1:])
    assert content["runs"] > 5_000
    [(kept,)] = stage.rows(stage.history, "SELECT count(*) FROM runs WHERE job_id = 'job_old'")
    assert kept == 5_000
    assert [one for one in audit(stage) if not one.endswith("of no version")] == [], "the old job is of no file"


@pytest.mark.parametrize("name", ["control", "history"])
def test_a_standby_of_an_older_version_stays_one(stage: Stage, name: str) -> None:
    """Row 109: what a newer version has brought up to date is never taken by an older one, be it one that stood by or the holder
    that was overtaken; back at a schema that they know, they go on."""
    stage.declare(stage.job("each"))
    first = stage.start(env=quick(lock_ttl="2s")).active()
    first.finished("each", count=1)
    second = stage.start(env=quick(lock_ttl="2s")).standing_by()
    path = stage.control if name == "control" else stage.history
    [(version,)] = stage.rows(path, "PRAGMA user_version")
    stage.edit(path, f"PRAGMA user_version = {version + 1}")
    told = second.says("store_failed", store=name)
    assert f"schema {version + 1}" in told["message"] and "outdated" in told["message"]
    if name == "control":
        first.standing_by()  # its renewals look there
    first.kill()
    term = stage.rows(stage.control, "SELECT term FROM term")
    # It looks many times a second, and could prove at once that the one before it is dead.
    killed = time.monotonic()
    wait_until(lambda: time.monotonic() - killed > 2, "two seconds have passed")
    assert second.messages("dispatcher", state="active") == []
    assert stage.rows(stage.control, "SELECT term FROM term") == term
    stage.edit(path, f"PRAGMA user_version = {version}")
    second.active().finished("each", count=2)
    second.stop()
    assert audit(stage) == []
    assert findings_of_runs(stage) == []
