"""Plugins from strangers: one that breaks costs its own jobs and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from books import audit, outcomes
from stage import Stage, quick, wait_until

SECRET = "hunter2-and-more"

SINK = '''
"""A sink that does what its jobs say."""

import asyncio
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from cronpad_core.api import Delivered, Failed, hookimpl


class OddSettings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    does: str = "deliver"


class OddSink:
    name = "odd"
    api = 1
    Settings = OddSettings
    capabilities = frozenset()

    def __init__(self, context):
        self.token = context.secret("secret:env:CRONPAD_SECRET_ODD")

    async def deliver(self, delivery):
        match delivery.settings.does:
            case "raise":
                raise RuntimeError("no luck")
            case "exit":
                raise SystemExit(3)
            case "interrupt":
                raise KeyboardInterrupt
            case "cancel":
                raise asyncio.CancelledError
            case "answer nothing":
                return None
            case "leak":
                raise RuntimeError(f"no entry for {self.token}")
            case "answer a secret":
                return Failed(reason=f"refused: {self.token}")
            case "hang":
                await asyncio.sleep(600)
            case "hang on":
                while True:
                    try:
                        await asyncio.sleep(600)
                    except asyncio.CancelledError:
                        pass
        return Delivered(reason="did as told")

    async def close(self):
        pass


@hookimpl
def cronpad_register_sinks():
    return [OddSink]
'''


def _installed(stage: Stage, name: str, code: str) -> dict[str, str]:
    """A distribution on the path, as pip would leave it; answers the environment in which it is found."""
    site = stage.root / "site"
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}_plugin.py").write_text(code, encoding="utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[cronpad]\n{name} = {name}_plugin\n", encoding="utf-8")
    return {"PYTHONPATH": str(site), "CRONPAD_SECRET_ODD": SECRET}


@pytest.mark.parametrize("breaks", ["raise RuntimeError('broken')", "import no_such_module_at_all", "raise SystemExit(9)", "x ="])
def test_a_plugin_that_cannot_be_imported_stops_no_other(stage: Stage, breaks: str) -> None:
    """It is named with its reason on stderr, and jobs of other plugins run."""
    env = _installed(stage, "broken", breaks)
    stage.declare(stage.job("each"))
    runner = stage.start(env=env).active()
    runner.finished("each")
    runner.stop()
    assert "broken" in runner.stderr


HOOK = "from cronpad_core.api import hookimpl\nimport threading\n\n@hookimpl\n"
STRAYS = {
    "misspells a hook": (
        HOOK + "def cronpad_evnt(event): ...",
        "there is no hook cronpad_evnt, so it is never called; did you mean",
    ),
    "async hook": (HOOK + "async def cronpad_event(event): ...", "cronpad_event is 'async def', which cronpad does not call"),
    "raises in a hook": (
        HOOK + "def cronpad_register_sinks():\n    raise ValueError('bad port')",
        "is failed: ValueError: bad port",
    ),
    "exits in a hook": (HOOK + "def cronpad_register_sinks():\n    raise SystemExit(3)", "is failed: SystemExit: 3"),
    "answers nonsense": (
        HOOK + "def cronpad_register_sinks():\n    return 'odd'",
        "cronpad_register_sinks answered 'odd', not a list",
    ),
    "wrong API version": (
        HOOK + "def cronpad_register_sinks():\n    return [type('S', (), {'name': 'odd', 'api': 9})]",
        "is incompatible: class S was written for API 9; this cronpad offers API 1",
    ),
    "observer keeps failing": (
        HOOK + "def cronpad_event(event):\n    raise OSError('no net')",
        "cronpad_event is no longer called: 5 failures in a row, the last: OSError: no net",
    ),
    "observer exits": (HOOK + "def cronpad_event(event):\n    raise SystemExit(4)", "cronpad_event raised SystemExit: 4"),
    "observer hangs": (
        HOOK + "def cronpad_event(event):\n    threading.Event().wait(600)",
        "cronpad_event is no longer called: no answer within 5 s",
    ),
    "exits when it starts": (
        HOOK + "def cronpad_started(owner):\n    raise SystemExit(5)",
        "cronpad_started raised SystemExit: 5",
    ),
}


@pytest.mark.parametrize("does", STRAYS)
def test_a_plugin_that_goes_astray_is_named_and_stops_no_other(stage: Stage, does: str) -> None:
    """What it did is said with plugin and distribution, and the jobs of other plugins run on."""
    code, says = STRAYS[does]
    env = _installed(stage, "stray", code)
    stage.declare(stage.job("each"))
    runner = stage.start(env=env).active()
    runner.finished("each", count=3)
    wait_until(lambda: says in runner.stderr, lambda: runner.stderr)
    assert any("plugin stray (stray)" in line and says in line for line in runner.stderr.splitlines())
    seen = len(runner.attempts("each"))
    runner.finished("each", count=seen + 1)
    runner.stop()
    assert outcomes(stage, "each").keys() == {"succeeded"}


def test_a_sink_may_do_anything(stage: Stage) -> None:
    """Whatever a sink raises or never answers ends its own attempt; the runner and the other jobs go on."""
    env = _installed(stage, "odd", SINK)
    ends = {
        "deliver": "delivered",
        "raise": "failed",
        "exit": "failed",
        "interrupt": "failed",
        "cancel": "failed",
        "answer nothing": "failed",
        "leak": "failed",
        "answer a secret": "failed",
        "hang": "timed_out",
        "hang on": "timed_out",
    }
    stage.declare(
        stage.job("each"),
        *({"name": does, "schedule": "* * * * * *", "timeout": "500ms", "sink": {"type": "odd", "does": does}} for does in ends),
    )
    runner = stage.start("--shutdown-grace", "2s", env=env).active()
    for does, status in ends.items():
        [line] = runner.finished(does)[:1]
        assert line["status"] == status, line
    runner.finished("each", count=3)
    runner.stop()
    assert runner.attempts("raise")[0]["reason"] == "sink 'odd' of odd: RuntimeError: no luck"
    assert runner.attempts("leak")[0]["reason"] == "sink 'odd' of odd: RuntimeError: no entry for ***"
    assert runner.attempts("answer a secret")[0]["reason"] == "refused: ***"
    assert SECRET not in runner.stdout + runner.stderr
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in stage.state.rglob("*") if path.is_file())
    assert outcomes(stage, "each").keys() == {"succeeded"}
    assert audit(stage) == []


def test_jobs_of_a_plugin_that_is_gone_are_skipped(stage: Stage) -> None:
    """Stored jobs whose plugin was switched off are skipped as such, slot by slot; other jobs run, and it comes back."""
    env = _installed(stage, "odd", SINK)
    other = stage.root / "other.json"
    stage.declare(stage.job("each"))
    stage.start(env=env | quick()).active().stop()
    stage.declare({"name": "odd", "schedule": "* * * * * *", "sink": {"type": "odd"}}, file=other)
    runner = stage.start(file=other, env=env | quick() | {"CRONPAD_PLUGINS_DISABLED": "cronpad-command"}).active()
    runner.says("skipped", job="each", reason="plugin_unavailable", times=2)
    runner.finished("odd", count=2)
    runner.stop()
    assert {line.runner for line in stage.witness("each")} <= {0}
    assert outcomes(stage, "each")["skipped"] >= 2
    reasons = stage.rows(stage.history, "SELECT DISTINCT skip_reason FROM runs WHERE status = 'skipped'")
    assert reasons == [("plugin_unavailable",)]
    back = stage.start(env=env | quick()).active()
    back.finished("each")
    back.stop()
    assert audit(stage) == []


def test_two_plugins_of_one_name_are_refused(stage: Stage) -> None:
    """Nobody can tell which of two distributions a jobs file means: the start ends with 5 and names both."""
    env = _installed(stage, "odd", SINK)
    _copy(stage.root / "site", "odd", "strange")
    stage.declare(stage.job("each"))
    call = stage.call("run", stage.file, "--state", stage.state, env=env)
    assert call.code == 5, call.err
    assert "odd" in call.err
    assert "strange" in call.err
    assert not stage.state.exists()


def _copy(site: Path, name: str, other: str) -> None:
    info = site / f"{other}-1.0.dist-info"
    info.mkdir()
    (site / f"{other}_plugin.py").write_text((site / f"{name}_plugin.py").read_text("utf-8"), encoding="utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {other}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[cronpad]\n{other} = {other}_plugin\n", encoding="utf-8")


def test_hook_calls_of_a_runner_are_traced(stage: Stage) -> None:
    """With --trace-plugins each event that a plugin is told is a line on stderr with its milliseconds."""
    env = _installed(stage, "watcher", HOOK + "def cronpad_event(event): ...")
    stage.declare(stage.job("each"))
    runner = stage.start("--trace-plugins", env=env).active()
    runner.finished("each")
    wait_until(lambda: re.search(r"trace: cronpad_event of watcher: \d+\.\d\d ms", runner.stderr), lambda: runner.stderr)
    runner.stop()


def test_strictness_stops_the_start(stage: Stage) -> None:
    """With CRONPAD_STRICT_PLUGINS a plugin that cannot be loaded ends the start with 5, and no state is made."""
    env = _installed(stage, "broken", "raise RuntimeError('no luck')")
    stage.declare(stage.job("each"))
    call = stage.call("run", stage.file, "--state", stage.state, env=env | {"CRONPAD_STRICT_PLUGINS": "1"})
    assert call.code == 5
    assert "plugin broken (broken) is failed: RuntimeError: no luck" in call.err
    assert not stage.state.exists()


def test_a_plugin_beside_the_jobs_file_runs_its_jobs(stage: Stage) -> None:
    """``cronpad_plugins.py`` beside the jobs file brings a sink to a real runner."""
    (stage.file.parent / "cronpad_plugins.py").write_text(SINK, encoding="utf-8")
    stage.declare({"name": "odd", "schedule": "* * * * * *", "sink": {"type": "odd"}})
    runner = stage.start(env={"CRONPAD_SECRET_ODD": SECRET}).active()
    [line] = runner.finished("odd")[:1]
    assert (line["status"], line["reason"]) == ("delivered", "did as told")
    runner.stop()
