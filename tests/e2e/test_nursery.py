"""The nursery of a real runner: nothing outlives its run or a killed runner, and its own death is a fault that passes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from books import audit, findings_of_runs
from stage import Running, Stage, quick, wait_until

_WITHIN = 15.0
"""So soon after the death of a runner nothing of its commands is left."""
_BUSY = 90.0
"""How long a test waits for hundreds of processes on a machine that is busy."""


def _nurseries(runner: Running) -> list[int]:
    return [pid for pid in runner.children() if b"cronpad-nursery" in _command_line(pid).split(b"\0")]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_killed_runner_leaves_nothing_and_no_copy_meets_the_next(stage: Stage) -> None:
    """kill -9 amid 200 commands that ignore TERM, each with a detached one: gone in 15 s, and only then run again (F007)."""
    notes, met, flag = stage.root / "notes", stage.root / "met", stage.root / "flag"
    notes.mkdir()
    mine = f"{notes}/$CRONPAD_RUN_ID"
    deaf = f"trap '' TERM; echo $$ >> {mine}; while :; do sleep 5; done"
    again = f"for pid in $(cat {mine}); do test -e /proc/$pid && echo $pid >> {met}; done; {stage.line('again')}"
    script = stage.root / "deaf.sh"
    script.write_text(deaf, encoding="utf-8")
    later = f"if [ -e {flag} ]; then {stage.line('later')}; exit 0; fi"
    command = f"if [ -e {mine} ]; then {again}; exit 0; fi; {later}; setsid sh {script} & exec sh {script}"
    stage.declare(*(stage.job(f"job-{number}", "*/10 * * * * *", command=command, overlap="skip") for number in range(200)))
    runner = stage.start("--max-parallel", "200", env=quick(lease_duration="30s")).active()

    def pids() -> list[int]:
        return [int(text) for note in notes.iterdir() for text in note.read_text("utf-8").split()]

    wait_until(lambda: len(pids()) >= 400, "200 commands and what they detached", within=_BUSY)
    old = pids()
    [nursery] = _nurseries(runner)
    flag.touch()
    runner.kill()
    following = stage.start("--max-parallel", "200", env=quick(lease_duration="30s"))
    wait_until(lambda: not any(map(_command_line, old)), "all old copies are gone", within=_WITHIN)
    wait_until(lambda: not _command_line(nursery), "their nursery is gone")
    runs = {note.name for note in notes.iterdir()}
    wait_until(lambda: runs <= {line.run_id for line in stage.witness("again")}, "all runs are repeated", within=_BUSY)
    assert not met.exists(), f"{len(met.read_text().split())} processes were still there when their run began again"
    following.stop()
    assert stage.leftovers() == {}
    assert findings_of_runs(stage) == []


def test_the_death_of_the_nursery_is_a_failure_that_is_retried(stage: Stage) -> None:
    """Its commands end with it as failed, a retry runs in a new one, and nothing of the old is left."""
    flag = stage.root / "flag"
    command = f"{stage.line('held')}; test -e {flag} || {{ setsid sleep 900 & exec sleep 901; }}"
    stage.declare(stage.job("held", command=command, retry={"max": 3, "base": "200ms"}))
    runner = stage.start(env=quick()).active()
    [line, *_] = stage.sees("held")
    [first] = _nurseries(runner)
    wait_until(lambda: {"sleep 900", "sleep 901"} <= set(stage.leftovers().values()), "both processes run")
    flag.touch()
    os.kill(first, signal.SIGKILL)
    [lost] = runner.finished("held", run_id=line.run_id, attempt=0)
    assert (lost["status"], lost["run_status"]) == ("failed", "retrying")
    assert lost["reason"].startswith("infrastructure: ")
    [done] = runner.finished("held", run_id=line.run_id, attempt=1)
    assert (done["status"], done["run_status"]) == ("delivered", "succeeded")
    [second] = _nurseries(runner)
    assert second != first
    runner.stop()
    assert not _command_line(second)
    assert stage.leftovers() == {}
    assert audit(stage) == []
    assert findings_of_runs(stage) == []


def test_a_runner_does_without_a_nursery_when_it_is_told_to(stage: Stage) -> None:
    """``[plugins.command] nursery = false`` has the runner start its commands itself."""
    config = stage.root / "config.toml"
    config.write_text("[plugins.command]\nnursery = false\n", encoding="utf-8")
    stage.declare(stage.job("each"))
    runner = stage.start("--config", config).active()
    runner.finished("each", status="delivered")
    assert _nurseries(runner) == []
    runner.stop()
    with_one = stage.start().active()
    with_one.finished("each", status="delivered")
    assert len(_nurseries(with_one)) == 1
    with_one.stop()
    assert audit(stage) == []
