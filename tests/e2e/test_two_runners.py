"""Two runners on one state: one dispatches, the other stands by, and takes over when the first is gone or frozen."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from books import audit, findings_of_runs, outcomes
from stage import Running, Stage, quick, wait_until

CALM = quick(lock_ttl="10m", lease_duration="30m", reconcile_interval="10m")
"""Settings with which a runner that has nothing to do writes nothing for minutes."""


def _contents(stage: Stage) -> dict[str, tuple[int, int, str]]:
    """Every file of the state but SQLite's shared memory, the socket and the active one's pulse: size, time of change, digest."""
    found = {}
    for path in sorted(stage.state.iterdir()):
        if path.is_file() and not path.name.endswith("-shm") and "health.json" not in path.name:
            status = path.stat()
            found[path.name] = status.st_size, status.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _looked(runner: Running) -> int:
    """How often a process has read something."""
    text = Path(f"/proc/{runner.pid}/io").read_text(encoding="utf-8")
    return int(next(line for line in text.splitlines() if line.startswith("syscr")).split()[1])


def test_the_second_stands_by_and_writes_nothing(stage: Stage) -> None:
    """A standby looks and looks again, and no file of the state changes, from its start to its end."""
    stage.declare(stage.job("idle", "0 0 1 1 *"))
    first = stage.start(env=CALM).active()
    before = _contents(stage)
    second = stage.start(env=CALM).standing_by()
    for _ in range(3):
        reads = _looked(second)
        wait_until(lambda reads=reads: _looked(second) > reads + 5, "the standby looks")
    assert _contents(stage) == before
    second.stop()
    assert _contents(stage) == before
    assert json.loads((stage.state / "health.json").read_text(encoding="utf-8"))["pid"] == first.pid
    assert [one["state"] for one in second.messages("dispatcher")] == ["standby", "stopped"]
    first.stop()


def test_without_standby_the_second_is_refused(stage: Stage) -> None:
    """``--no-standby`` ends with 75 and a word about it, and the first does not notice; ``--once`` is refused as well."""
    stage.declare(stage.job("each"))
    first = stage.start(env=quick()).active()
    refused = stage.call("run", stage.file, "--state", stage.state, "--no-standby")
    assert (refused.code, refused.out) == (75, "")
    assert "another cronpad dispatches on this state" in refused.err
    once = stage.call("run", stage.file, "--state", stage.state, "--once", "each")
    assert (once.code, once.out) == (75, "")
    first.finished("each", count=len(first.attempts("each")) + 1)
    first.stop()
    assert stage.rows(stage.control, "SELECT term FROM term") == [(1,)]


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_the_second_takes_over(stage: Stage, end: str) -> None:
    """After a kill -9 or a clean stop of the first the second goes on long before the lock's end; no slot is lost."""
    stage.declare(stage.job("each"))
    first = stage.start(env=quick(lock_ttl="60s")).active()
    second = stage.start(env=quick(lock_ttl="60s")).standing_by()
    first.finished("each", count=2)
    ended = time.monotonic()
    first.kill() if end == "kill" else first.stop()
    second.active()
    assert time.monotonic() - ended < 20
    second.finished("each", count=2)
    second.stop()
    assert audit(stage) == []
    assert findings_of_runs(stage) == []
    assert outcomes(stage, "each").keys() == {"succeeded"}


def test_starting_together(stage: Stage) -> None:
    """Of two runners that start at once on no state at all one dispatches; each job is there once (B112)."""
    stage.declare(*(stage.job(name) for name in ("a", "b", "c")))
    runners = [stage.start(env=quick()), stage.start(env=quick())]
    wait_until(lambda: all(one.messages("dispatcher") for one in runners), "both have found their place")
    states = sorted(one.messages("dispatcher")[-1]["state"] for one in runners)
    assert states == ["active", "standby"], [one.stderr for one in runners]
    stage.sees("a", count=2)
    for runner in runners:
        runner.stop()
    assert len(stage.rows(stage.control, "SELECT id FROM jobs")) == 3
    assert audit(stage) == []
    assert findings_of_runs(stage) == []


def _freeze(stage: Stage, runner: Running) -> None:
    """Stops a process where it holds no lock of a database: one that does holds up everybody else, by design."""

    def try_once() -> bool:
        runner.send(signal.SIGSTOP)
        for path in (stage.control, stage.history, stage.queue):
            try:
                with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=0.05, isolation_level=None)) as db:
                    db.execute("BEGIN IMMEDIATE")
                    db.execute("ROLLBACK")
            except sqlite3.OperationalError:
                runner.send(signal.SIGCONT)
                return False
        return True

    wait_until(try_once, "it is stopped between two transactions")


def test_a_frozen_runner_is_replaced_and_wakes_as_standby(stage: Stage) -> None:
    """Stopped for longer than its lock lives, the first is replaced; continued, it stands by and changes no finished run.

    What it was running is delivered again only once its copy has ended.
    """
    hold = stage.root / "hold"
    hold.touch()
    waits = f"{stage.line('long')}; while test -e {hold}; do sleep 0.05; done"
    stage.declare(stage.job("each"), stage.job("long", command=waits, overlap="skip"))
    frozen_after = quick(lock_ttl="2s")
    first = stage.start(env=frozen_after).active()
    second = stage.start(env=frozen_after).standing_by()
    [long] = stage.sees("long")
    first.finished("each", count=2)
    _freeze(stage, first)
    second.active(within=10)
    second.finished("each", count=2)
    # The frozen one's copy of the command lives on, and no other begins beside it.
    assert [line.runner for line in stage.witness("long")] == [first.number]
    hold.unlink()
    stage.sees("long", run_id=long.run_id, runner=second.number)
    second.finished("long", run_id=long.run_id, run_status="succeeded")
    ended = {run_id: status for run_id, status in stage.statuses().items() if status not in ("running", "retrying")}

    seen = [line for line in stage.witness() if line.runner == first.number]
    first.send(signal.SIGCONT)
    first.standing_by()
    second.finished("each", count=len(second.attempts("each")) + 2)
    assert [line for line in stage.witness() if line.runner == first.number] == seen
    assert ended.items() <= stage.statuses().items()
    second.kill()
    first.active(times=2)
    first.finished("each", count=len(first.attempts("each")) + 1)
    first.stop()
    assert ended.items() <= stage.statuses().items()
    again = [line for line in stage.witness() if line.runner == first.number and line not in seen]
    assert {line.run_id for line in again}.isdisjoint(ended)
    assert audit(stage) == []
    assert outcomes(stage, "each").keys() == {"succeeded"}
    statuses = stage.rows(
        stage.history, "SELECT attempts.status FROM attempts JOIN runs ON seq = run_seq WHERE id = ?", long.run_id
    )
    assert sorted(statuses) == [("delivered",), ("stale",)]
    assert long.run_id not in {one["run_id"] for one in first.attempts("long")}


def test_a_lock_that_was_edited_by_hand_is_given_up(stage: Stage) -> None:
    """A runner whose lock row is gone or somebody else's stands by and takes it again; nothing is lost."""
    stage.declare(stage.job("each"))
    runner = stage.start(env=quick(lock_ttl="2s")).active()
    for times, change in enumerate(["DELETE FROM meta WHERE key = ?", "UPDATE meta SET value = '{}' WHERE key = ?"], 2):
        runner.finished("each", count=len(runner.attempts("each")) + 1)
        assert stage.edit(stage.queue, change, "lock:dispatcher") == 1
        runner.active(times=times)
    runner.finished("each", count=len(runner.attempts("each")) + 2)
    runner.stop()
    assert audit(stage) == []
    assert findings_of_runs(stage) == []
    assert outcomes(stage, "each").keys() == {"succeeded"}


def test_its_end_is_noticed_by_process_not_by_number(stage: Stage) -> None:
    """A killed holder whose process number lives on in another process is still known to be dead."""
    stage.declare(stage.job("each"))
    first = stage.start(env=quick(lock_ttl="60s")).active()
    first.kill()
    # Its number now is ours, started at another time; and it held the file lock, which nobody holds now.
    change = "UPDATE term SET holder = json_set(holder, '$.pid', ?)"
    for path in (stage.control, stage.history):
        assert stage.edit(path, change, os.getpid()) == 1
    second = stage.start(env=quick(lock_ttl="60s")).active(within=15)
    second.stop()
