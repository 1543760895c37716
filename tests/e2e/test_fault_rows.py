"""Faults of the table in docs/reference/faults.md that no other file of tests causes on real processes."""

from __future__ import annotations

import resource
import time

from books import audit, findings_of_runs
from stage import Stage, quick, wait_until

BLOCKS = '''
"""A sink that blocks the event loop once, for longer than the lock lives."""

import os
import time

from pydantic import BaseModel, ConfigDict

from cronpad_core.api import Delivered, hookimpl


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    flag: str


class Blocks:
    name = "blocks"
    api = 1
    Settings = Settings
    capabilities = frozenset()

    def __init__(self, context):
        pass

    async def deliver(self, delivery):
        try:
            os.unlink(delivery.settings.flag)
        except FileNotFoundError:
            return Delivered(reason="at once")
        time.sleep(7)
        return Delivered(reason="late")

    async def close(self):
        pass


@hookimpl
def cronpad_register_sinks():
    return [Blocks]
'''


def _installed(stage: Stage) -> dict[str, str]:
    """The sink on the path, as pip would leave it; answers the environment in which it is found."""
    site = stage.root / "site"
    info = site / "blocks-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "blocks_plugin.py").write_text(BLOCKS, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: blocks\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[cronpad]\nblocks = blocks_plugin\n", encoding="utf-8")
    return {"PYTHONPATH": str(site)}


def test_a_sink_that_blocks_the_loop_costs_the_lock(stage: Stage) -> None:
    """While a sink blocks the loop nobody renews for it: the standby takes over, and the first finds itself replaced."""
    flag = stage.root / "flag"
    env = quick(lock_ttl="2s") | _installed(stage)
    blocking = {"name": "blocking", "schedule": "* * * * * *", "sink": {"type": "blocks", "flag": str(flag)}}
    stage.declare(stage.job("each"), blocking)
    first = stage.start(env=env).active()
    second = stage.start(env=env).standing_by()
    first.finished("each", count=2)
    flag.touch()
    second.active(within=7)
    second.finished("each", count=2)
    first.standing_by()
    second.finished("each", count=len(second.attempts("each")) + 2)
    second.stop()
    first.stop()
    assert audit(stage) == []
    assert [one for one in findings_of_runs(stage) if "was not seen" not in one] == []


def test_a_directory_that_is_renamed_ends_the_runner(stage: Stage) -> None:
    """Renamed under a runner the state is called vanished, with 74; put back, the next start goes on where it was."""
    stage.declare(stage.job("each"))
    runner = stage.start(env=quick()).active()
    runner.finished("each", count=2)
    elsewhere = stage.root / "elsewhere"
    stage.state.rename(elsewhere)
    assert runner.ended() == 74, runner.stderr
    assert f"{stage.control} was deleted or replaced" in runner.stderr
    assert not stage.state.exists(), "nothing is written in the old place"
    elsewhere.rename(stage.state)
    again = stage.start(env=quick()).active()
    again.finished("each", count=2)
    again.stop()
    assert audit(stage) == []
    assert findings_of_runs(stage) == []


def test_a_runner_without_descriptors_goes_on(stage: Stage) -> None:
    """While no file can be opened nothing is lost and the lock is kept; with descriptors again all goes on."""
    retry = {"max": 50, "base": "200ms", "cap": "500ms"}
    stage.declare(stage.job("each", retry=retry))
    runner = stage.start(env=quick()).active()
    runner.finished("each", count=2)
    wide = resource.prlimit(runner.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(runner.pid, resource.RLIMIT_NOFILE, (3, wide[1]))
    time.sleep(3)  # how long there are none
    runner.require_alive()
    resource.prlimit(runner.pid, resource.RLIMIT_NOFILE, wide)
    runner.finished("each", count=len(runner.attempts("each")) + 3)
    overdue = "SELECT count(*) FROM runs WHERE ended = 0 AND scheduled_at < ?"
    wait_until(lambda: stage.rows(stage.history, overdue, time.time() * 1000 - 2_000) == [(0,)], "all runs end")
    assert [one["state"] for one in runner.messages("dispatcher")] == ["active"]
    assert runner.messages("queue_rebuilt") == []
    runner.stop()
    assert audit(stage) == []
    assert [one for one in findings_of_runs(stage) if "is retrying" not in one] == []


def test_commands_from_several_processes_are_never_told_that_a_database_is_locked(stage: Stage) -> None:
    """With four workers at work and many writes from other processes, no lock error reaches a job or a command (B102)."""
    stage.declare(*(stage.job(f"job-{number}") for number in range(8)))
    runner = stage.start("--max-parallel", "4", env=quick()).active()
    runner.finished("job-1", count=1)
    told = [stage.call("--state", stage.state, "trigger", f"job-{number % 8}") for number in range(12)]
    assert [(one.code, one.err) for one in told if one.code != 0 or "locked" in one.err] == []
    assert stage.call("--state", stage.state, "audit", env=quick()).code == 0
    runner.finished("job-1", count=len(runner.attempts("job-1")) + 2)
    assert runner.messages("store_failed") == []
    runner.stop()
    assert {one["status"] for one in runner.attempts()} == {"delivered"}
    assert audit(stage) == []
