"""Looking after a state: backup at work, restore, pruning, checks, the queue made anew, and what a health check says meanwhile."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import Any

from books import findings_of_runs
from stage import Ended, Stage, quick, wait_until

OLD_SCHEMA = """
import asyncio, sys
from cronpad_core.api import StorageOptions
from cronpad_sql import migrate
from cronpad_sql.storage import SqliteStorage
for kind in migrate.HEAD:
    migrate.HEAD[kind] = 1
async def main():
    storage = SqliteStorage(StorageOptions(url="sqlite://" + sys.argv[1], wall_ms=lambda: 0))
    await storage.open()
    await storage.prepare()
    await storage.close()
asyncio.run(main())
"""


def _json(call: Ended, code: int = 0) -> dict[str, Any]:
    assert call.code == code, call
    document: dict[str, Any] = json.loads(call.out)
    return document


def _runs(stage: Stage) -> int:
    [(count,)] = stage.rows(stage.history, "SELECT count(*) FROM runs")
    return int(count)


def _clean(stage: Stage) -> dict[str, Any]:
    """Neither the audit nor the check finds anything."""
    assert _json(stage.call("db", "check", "--json", "--state", stage.state))["items"] == []
    return _json(stage.call("audit", "--json", "--state", stage.state, env=quick()))


def test_a_backup_at_work_and_its_restore(stage: Stage) -> None:
    """A backup of a state that runs each second holds all that had ended; restored, it starts at once and its books are sound."""
    stage.declare(stage.job("each"))
    runner = stage.start(env=quick()).active()
    runner.finished("each", count=3)
    ended = {one["run_id"] for one in runner.attempts("each")}
    copies = _json(stage.call("db", "backup", stage.root / "backup", "--json", "--state", stage.state))["items"]
    assert [one["path"].rpartition("/")[2] for one in copies] == ["cronpad.db", "history.db"]
    kept = dict(stage.rows(stage.root / "backup" / "history.db", "SELECT id, status FROM runs"))
    assert {kept[run_id] for run_id in ended} == {"succeeded"}
    assert stage.call("db", "check", "--state", stage.root / "backup").code == 0
    runner.finished("each", count=len(ended) + 3)
    runner.stop()
    beyond = _runs(stage)

    assert stage.call("db", "restore", stage.root / "backup", "--state", stage.state).code == 78
    done = _json(stage.call("db", "restore", stage.root / "backup", "--force", "--json", "--state", stage.state))
    assert len(done["aside"]) == 2
    assert not stage.queue.exists()
    assert _runs(stage) == len(kept) < beyond
    assert _clean(stage)["findings"] == 0

    runner = stage.start(env=quick()).active()
    assert runner.messages("dispatcher", state="standby") == [], "nobody held the copies"
    runner.finished("each", count=3)
    while_active = stage.call("audit", "--state", stage.state, env=quick())
    assert (while_active.code, "its ledger begins at" in while_active.err) == (0, True), while_active
    runner.stop()
    audited = _clean(stage)
    assert (audited["findings"], audited["ledgers"][0]["job"]) == (0, "each")
    assert set(stage.statuses().values()) <= {"succeeded", "skipped"}


def test_what_needs_a_state_at_rest_is_refused_at_work(stage: Stage) -> None:
    """While somebody dispatches, or is only stopped, it is exit 75, and nothing was touched; the runner goes on."""
    stage.declare(stage.job("each"))
    assert stage.call("db", "backup", stage.root / "backup", "--state", stage.state).code == 4
    runner = stage.start(env=quick(lock_ttl="6s")).active()
    runner.finished("each", count=1)
    assert stage.call("db", "backup", stage.root / "backup", "--state", stage.state).code == 0
    wait_until(lambda: stage.call("health", "--state", stage.state).code == 0, "it has a pulse")
    for words in (("db", "prune", "--keep-runs", 1), ("queue", "rebuild"), ("db", "restore", stage.root / "backup", "--force")):
        refused = stage.call(*words, "--state", stage.state)
        assert (refused.code, f"process {runner.pid}" in refused.err) == (75, True), refused
    runner.send(signal.SIGSTOP)
    wait_until(lambda: stage.call("health", "--state", stage.state).code == 1, "its pulse is stale")
    refused = stage.call("db", "restore", stage.root / "backup", "--force", "--state", stage.state)
    assert (refused.code, "in use by another process" in refused.err) == (75, True), refused
    runner.send(signal.SIGCONT)
    runner.finished("each", count=len(runner.attempts("each")) + 2)
    runner.stop()
    assert _clean(stage)["findings"] == 0
    assert findings_of_runs(stage) == []


def test_pruning_by_hand(stage: Stage) -> None:
    """What a dry run counts goes, of each job the newest stay, and the books begin where they are left."""
    stage.declare(stage.job("each"), stage.job("other"))
    runner = stage.start(env=quick()).active()
    for name in ("each", "other"):
        runner.finished(name, count=5)
    runner.stop()
    counted = _json(stage.call("db", "prune", "--dry-run", "--keep-runs", 2, "--json", "--state", stage.state))
    before = _runs(stage)
    done = _json(stage.call("db", "prune", "--keep-runs", 2, "--json", "--state", stage.state))
    assert (done["items"], done["items"][0]["runs"]) == (counted["items"], before - 4)
    assert _runs(stage) == 4
    assert stage.rows(stage.history, "SELECT count(*) FROM attempts WHERE run_seq NOT IN (SELECT seq FROM runs)") == [(0,)]
    audited = _clean(stage)
    assert (audited["findings"], {one["job"] for one in audited["ledgers"]}) == (0, {"each", "other"})
    runner = stage.start(env=quick()).active()
    runner.finished("each", count=2)
    runner.stop()
    assert _clean(stage)["findings"] == 0
    assert stage.call("db", "prune", "--keep-for", "soon", "--state", stage.state).code == 2


def test_a_check_finds_damage_that_a_restore_mends(stage: Stage) -> None:
    """Garbage in history: the check names it, a backup is refused, a restore takes its place and keeps it."""
    stage.declare(stage.job("each"))
    runner = stage.start(env=quick()).active()
    runner.finished("each", count=2)
    runner.stop()
    assert stage.call("db", "backup", stage.root / "backup", "--state", stage.state).code == 0
    with stage.history.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    found = _json(stage.call("db", "check", "--json", "--state", stage.state), code=1)
    assert {(one["file"], one["what"]) for one in found["items"]} == {("history", "damaged")}
    told = stage.call("db", "check", "--state", stage.state)
    assert (told.code, "damaged" in told.out, "Traceback" in told.err) == (1, True, False)
    refused = stage.call("db", "backup", stage.root / "second", "--state", stage.state)
    assert (refused.code, "damaged" in refused.err) == (78, True), refused
    assert stage.call("db", "restore", stage.root / "backup", "--force", "--state", stage.state).code == 0
    assert _clean(stage)["findings"] == 0
    assert stage.call("db", "check", "--state", stage.root / "nothing").code == 4
    assert stage.call("db", "check", "--state", ":memory:").code == 2


def test_a_queue_made_anew(stage: Stage) -> None:
    """A queue that was set aside is filled again by the next start; looking at it needs no runner, and it may be missing."""
    stage.declare(stage.job("each"), stage.job("yearly", "0 0 1 1 *"))
    runner = stage.start(env=quick()).active()
    runner.finished("each", count=2)
    at_work = _json(stage.call("queue", "stats", "--json", "--state", stage.state))["items"][0]
    assert (at_work["locked"], at_work["due"] + at_work["in_flight"] >= 1) == (True, True)
    runner.stop()
    [*_, last] = _json(stage.call("queue", "peek", "--json", "--state", stage.state))["items"]
    assert (last["job"], last["due"]) == ("yearly", last["due"][:4] + "-01-01T00:00:00Z")
    aside = _json(stage.call("queue", "rebuild", "--json", "--state", stage.state))["items"][0]["aside"]
    assert ".aside-" in aside
    assert not stage.queue.exists()
    assert stage.call("queue", "stats", "--state", stage.state).code == 4
    runner = stage.start(env=quick()).active()
    runner.says("queue_rebuilt", reason="missing")
    runner.finished("each", count=2)
    wait_until(
        lambda: _json(stage.call("queue", "peek", "--json", "--state", stage.state))["items"][-1]["job"] == "yearly", "is back"
    )
    runner.stop()
    assert _clean(stage)["findings"] == 0
    assert findings_of_runs(stage) == []


def test_an_older_state_is_upgraded(stage: Stage) -> None:
    """From schema 1, after copies, and only once; a look at it before says what to do."""
    made = subprocess.run(
        [sys.executable, "-c", OLD_SCHEMA, stage.state], capture_output=True, text=True, env=stage.environment()
    )
    assert made.returncode == 0, made.stderr
    assert stage.call("jobs", "list", "--state", stage.state).code == 78
    check = _json(stage.call("db", "check", "--json", "--state", stage.state))
    assert [(one["schema"], one["known_schema"] > 1) for one in check["files"][:2]] == [(1, True), (1, True)]
    done = _json(stage.call("db", "upgrade", "--json", "--state", stage.state))["items"]
    assert [(one["file"], one["from"], len(one["copies"])) for one in done] == [("control", 1, 1), ("history", 1, 1)]
    again = stage.call("db", "upgrade", "--state", stage.state)
    assert (again.code, again.out.count("nothing to do")) == (0, 2), again
    assert _clean(stage)["findings"] == 0
    assert stage.call("db", "upgrade", "--state", stage.root / "nothing").code == 4


def test_ready_in_trouble_and_out_of_it(stage: Stage) -> None:
    """Another process locks history: unready with the name of the store, exit 1; free again, it is ready; stopped, it is not."""

    def ready() -> dict[str, Any]:
        call = stage.call("health", "--ready", "--json", "--state", stage.state)
        document: dict[str, Any] = json.loads(call.out)["items"][0]
        assert call.code == (1 if document["status"] == "unready" else 0), call
        return document

    stage.declare(stage.job("each"))
    runner = stage.start(env=quick(lock_ttl="6s")).active()
    wait_until(lambda: ready()["status"] in ("ok", "degraded"), "it is ready")
    standby = stage.start(env=quick(lock_ttl="6s")).standing_by()
    assert ready()["dispatcher"] == "active"
    with closing(sqlite3.connect(stage.history, timeout=10, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        runner.says("store_failed", store="history")
        found = wait_until(lambda: (one := ready())["status"] == "unready" and one, "it is told")
        assert (found["history"] != "ok", found["control"], found["queue"]) == (True, "ok", "ok")
        wait_until(lambda: "history does not answer" in stage.call("health", "--state", stage.state).out, "it is told plainly")
        db.execute("ROLLBACK")
    runner.says("store_recovered", store="history")
    wait_until(lambda: ready()["history"] == "ok" and ready()["status"] != "unready", "it is ready again")
    standby.stop()
    runner.stop()
    assert (ready()["dispatcher"], stage.call("health", "--state", stage.state).code) == ("stopped", 3)


def test_a_crash_loop_is_told(stage: Stage) -> None:
    """A start after five crashes within a minute, as the pulses before it tell, is degraded and works; a clean stop ends that."""
    stage.declare(stage.job("each"))
    pulse = stage.state / "health.json"
    crashed = stage.start(env=quick()).active()
    wait_until(pulse.exists, "it has a pulse")
    crashed.kill()
    document = json.loads(pulse.read_text())
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    pulse.write_text(json.dumps(document | {"dispatcher": "active", "starts": [now - number for number in range(5)]}))
    runner = stage.start(env=quick(lock_ttl="6s")).active()

    def degraded() -> list[str]:
        return list(_json(stage.call("health", "--json", "--state", stage.state), code=0)["items"][0]["degraded"])

    wait_until(lambda: json.loads(pulse.read_text())["pid"] == runner.pid, "it has a pulse")
    assert "crash_loop" in degraded()
    runner.stop()
    runner = stage.start(env=quick(lock_ttl="6s")).active()
    wait_until(lambda: json.loads(pulse.read_text())["pid"] == runner.pid, "it has a pulse")
    assert "crash_loop" not in degraded()
    runner.stop()
