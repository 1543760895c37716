"""Stores that cannot be written for a while: the runner waits, says so once, and goes on by itself; nothing is lost."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from books import audit, findings_of_runs, outcomes
from stage import Stage, quick, wait_until


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Another process's write lock on a file."""
    with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


@pytest.mark.parametrize("name", ["control", "history", "queue"])
def test_a_store_that_another_process_locks(stage: Stage, name: str) -> None:
    """While one file is locked nothing is delivered twice; afterwards every slot has run."""
    stage.declare(stage.job("each"))
    runner = stage.start(env=quick(lock_ttl="3s")).active()
    runner.finished("each", count=1)
    path = {"control": stage.control, "history": stage.history, "queue": stage.queue}[name]
    with _locked(path):
        # Longer than anybody waits for a lock before it counts as trouble.
        runner.says("store_failed", store=name)
    runner.says("store_recovered", store=name)
    runner.finished("each", count=len(runner.attempts("each")) + 3)
    wait_until(lambda: (stage.next_run("each") or 0) > time.time() * 1000, "it has caught up")
    runner.stop()
    assert audit(stage) == []
    assert findings_of_runs(stage) == []
    assert outcomes(stage, "each").keys() == {"succeeded"}


def test_a_full_disk(stage: Stage) -> None:
    """While no file can grow nothing is begun, and it is said once; with room again all goes on, with nothing lost (B086)."""
    stage.declare(stage.job("each"), stage.job("other"))
    runner = stage.start(env=quick()).active()
    runner.finished("each", count=2)
    wait_until(lambda: all(_log_of(path) > LITTLE for path in (stage.control, stage.history, stage.queue)), "logs have grown")
    wide = resource.prlimit(runner.pid, resource.RLIMIT_FSIZE)
    # Nothing may be written past this size: a full disk, but of this one process, and not of the little that it says.
    resource.prlimit(runner.pid, resource.RLIMIT_FSIZE, (LITTLE, wide[1]))
    runner.says("store_failed")
    seen = len(stage.witness())
    time.sleep(3)  # how long the disk is full
    assert len(stage.witness()) <= seen + 2
    assert len(runner.messages("store_failed")) <= 3, "once for each store"
    assert runner.messages("store_recovered") == []
    resource.prlimit(runner.pid, resource.RLIMIT_FSIZE, wide)
    runner.says("store_recovered")
    for name in ("each", "other"):
        runner.finished(name, count=len(runner.attempts(name)) + 4)
    wait_until(lambda: (stage.next_run("each") or 0) > time.time() * 1000, "it has caught up")
    runner.stop()
    assert audit(stage) == []
    assert findings_of_runs(stage) == []
    assert outcomes(stage, "each").keys() == outcomes(stage, "other").keys() == {"succeeded"}
    for path in (stage.control, stage.history, stage.queue):
        assert stage.rows(path, "PRAGMA integrity_check") == [("ok",)]


LITTLE = 48 * 1024


def _log_of(path: Path) -> int:
    """The size of a database's log."""
    return path.with_name(f"{path.name}-wal").stat().st_size


@pytest.mark.parametrize("name", ["cronpad.db", "history.db", "history.db-wal"])
def test_a_file_that_must_not_be_lost_is_gone(stage: Stage, name: str) -> None:
    """Deleted under a running runner, control or history end it with 74 and a word about it: nothing is written blindly."""
    stage.declare(stage.job("each"))
    runner = stage.start(env=quick()).active()
    runner.finished("each", count=1)
    saved = stage.root / "saved"
    shutil.copytree(stage.state, saved, ignore=shutil.ignore_patterns("*.sock"))
    (stage.state / name).unlink()
    assert runner.ended() == 74, runner.stderr
    assert f"{stage.state / name} was deleted or replaced" in runner.stderr


@pytest.mark.parametrize("damage", ["deleted", "emptied"])
def test_history_is_gone(stage: Stage, damage: str) -> None:
    """The past is gone, and said so; jobs go on from where control has them, and no old slot runs again."""
    stage.declare(stage.job("each"))
    first = stage.start().active()
    first.finished("each", count=2)
    first.stop()
    stage.history.unlink() if damage == "deleted" else stage.history.write_bytes(b"")
    stands = stage.next_run("each")
    assert stands is not None
    second = stage.start().active()
    second.finished("each", count=2)
    second.stop()
    assert f"{stage.history} was missing" in second.stderr
    again = [line.slot_ms for line in stage.witness("each") if line.runner == second.number]
    assert min(again) == stands
    assert len(set(again)) == len(again)
