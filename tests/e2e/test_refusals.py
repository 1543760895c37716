"""Bad input of every kind ends in one clear message with its exit code, and changes nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from stage import Ended, Stage

GOOD = {"name": "good", "schedule": "* * * * *", "command": "true"}
REFUSED = {
    "broken JSON": ('{"jobs": [{"name": "a",', 2, ":1:"),
    "no JSON at all": ("", 2, "jobs.json"),
    "unknown key": (json.dumps({"jobs": [GOOD | {"comand": "x"}]}), 2, 'did you mean "command"'),
    "bad field": (json.dumps({"jobs": [GOOD | {"schedule": "61 * * * *"}]}), 2, "61 is not in 0-59"),
    "bad zone": (json.dumps({"version": 1, "jobs": [GOOD | {"timezone": "Europe/Madird"}]}), 2, "Europe/Madrid"),
    "never fires": (json.dumps({"jobs": [GOOD | {"schedule": "0 0 30 2 *"}]}), 2, "CP103"),
    "clashing names": (json.dumps({"jobs": [GOOD, GOOD]}), 2, "good"),
    "no command": (json.dumps({"jobs": [{"name": "a", "schedule": "* * * * *"}]}), 2, "no command"),
    "unknown sink": (
        json.dumps({"version": 1, "jobs": [{"name": "a", "schedule": "* * * * *", "sink": {"type": "fax"}}]}),
        5,
        "fax",
    ),
    "negative time-out": (json.dumps({"jobs": [GOOD | {"timeout_ms": -1}]}), 2, "timeout_ms"),
}


def _is_one_clear_message(call: Ended, code: int) -> None:
    assert call.code == code, call.err
    assert call.out == ""
    assert call.err.startswith("error"), call.err
    assert "Traceback" not in call.err


@pytest.mark.parametrize("way", ["run", "--list", "--dry-run", "--once"])
def test_a_bad_file_is_refused(stage: Stage, way: str) -> None:
    """Every way to run a bad file says what and where, ends with 2, and makes no state."""
    options = {"run": [], "--once": ["--once", "good"]}.get(way, [way])
    some = REFUSED if way == "run" else {name: REFUSED[name] for name in ("broken JSON", "bad field")}
    for name, (text, code, said) in some.items():
        stage.file.write_text(text, encoding="utf-8")
        call = stage.call("run", stage.file, "--state", stage.state, *options)
        _is_one_clear_message(call, code)
        assert said in call.err, name
        assert str(stage.file) in call.err, name
        assert sorted(path.name for path in stage.root.iterdir()) == ["jobs.json"], name


def test_all_problems_are_said_at_once(stage: Stage) -> None:
    """A file with three bad jobs is refused with the place of each."""
    bad = [{"name": f"bad-{number}", "schedule": f"6{number} * * * *", "command": "true"} for number in range(3)]
    stage.file.write_text(json.dumps({"jobs": bad}, indent=1), encoding="utf-8")
    call = stage.call("run", stage.file)
    _is_one_clear_message(call, 2)
    assert [name in call.err for name in ("bad-0", "bad-1", "bad-2")] == [True] * 3
    assert call.err.count(f"{stage.file}:") == 3


def test_a_file_that_is_not_there(stage: Stage) -> None:
    """A missing jobs file ends with 2 or 4 and its name."""
    call = stage.call("run", stage.root / "nowhere.json")
    assert call.code in (2, 4)
    assert "nowhere.json" in call.err
    assert list(stage.root.iterdir()) == []


def test_wrong_settings(stage: Stage) -> None:
    """An unknown setting in the environment, a bad value and options that exclude each other end with 2."""
    stage.file.write_text(json.dumps({"jobs": [GOOD]}), encoding="utf-8")
    _is_one_clear_message(stage.call("run", stage.file, env={"CRONPAD_WORKERS_COUNT": "3"}), 2)
    _is_one_clear_message(stage.call("run", stage.file, env={"CRONPAD_WORKERS__COUNT": "many"}), 2)
    _is_one_clear_message(stage.call("run", stage.file, "--shutdown-grace", "soon"), 2)
    assert stage.call("run", stage.file, "--list", "--dry-run").code == 2
    assert stage.call("run").code == 2
    assert [path.name for path in stage.root.iterdir()] == ["jobs.json"]


# Nothing is read-only to root.
@pytest.mark.parametrize("place", ["below a file", "in /proc", *(["read-only"] if os.geteuid() else [])])
def test_a_state_that_cannot_be_written(stage: Stage, place: str) -> None:
    """A state directory that cannot be made or written ends with 73, names the place, and leaves nothing."""
    stage.file.write_text(json.dumps({"jobs": [GOOD]}), encoding="utf-8")
    closed = stage.root / "closed"
    closed.mkdir()
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    state = {"below a file": stage.file / "state", "in /proc": Path("/proc/cronpad"), "read-only": closed / "state"}[place]
    call = stage.call("run", stage.file, "--state", state)
    _is_one_clear_message(call, 73)
    assert str(state) in call.err
    assert not state.exists()
    assert sorted(path.name for path in stage.root.iterdir()) == ["closed", "jobs.json"]


def test_missing_plugins(stage: Stage) -> None:
    """Without the plugin that a file or its state needs the start ends with 5 or 2, names it, and makes no state."""
    stage.file.write_text(json.dumps({"jobs": [GOOD]}), encoding="utf-8")
    no_sink = stage.call("run", stage.file, env={"CRONPAD_PLUGINS_DISABLED": "cronpad-command"})
    assert "cronpad-command" in no_sink.err
    _is_one_clear_message(no_sink, 5)
    no_store = stage.call("run", stage.file, env={"CRONPAD_PLUGINS_DISABLED": "cronpad-sql"})
    assert "cronpad-sql" in no_store.err
    _is_one_clear_message(no_store, 5)
    assert [path.name for path in stage.root.iterdir()] == ["jobs.json"]


def _state_of(stage: Stage) -> dict[str, bytes]:
    """What every file holds, without the empty ones that SQLite puts beside a database while it is read."""
    found = {path.name: path.read_bytes() for path in sorted(stage.state.iterdir()) if not path.name.endswith("-shm")}
    return {name: held for name, held in found.items() if held or not name.endswith("-wal")}


def test_a_damaged_state_is_refused(stage: Stage) -> None:
    """Control or history that is scrambled, foreign or newer, and an empty control, is refused with 78 and left as it is."""
    stage.declare(stage.job("each"))
    stage.start().active().stop()
    for path in (stage.control, stage.history):
        sound = path.read_bytes()
        for damage in ("scrambled", "foreign", "newer", *(["empty"] if path == stage.control else [])):
            path.write_bytes({"scrambled": b"no database " * 900, "empty": b""}.get(damage, sound))
            if damage in ("foreign", "newer"):
                pragma = "application_id = 1" if damage == "foreign" else "user_version = 999"
                with closing(sqlite3.connect(path)) as db:
                    db.execute(f"PRAGMA {pragma}")
            before = _state_of(stage)
            call = stage.call("run", stage.file, "--state", stage.state)
            _is_one_clear_message(call, 78)
            assert str(path) in call.err, damage
            assert _state_of(stage) == before, damage
        path.write_bytes(sound)
    runner = stage.start().active()
    runner.finished("each")
    runner.stop()


def test_a_missing_control_file_is_not_made_anew(stage: Stage) -> None:
    """Control deleted while history or queue are there ends with 78 and changes nothing."""
    stage.declare(stage.job("each"))
    stage.start().active().stop()
    stage.control.unlink()
    before = _state_of(stage)
    call = stage.call("run", stage.file, "--state", stage.state)
    _is_one_clear_message(call, 78)
    assert "cronpad.db" in call.err
    assert _state_of(stage) == before


def test_a_closed_stdout_ends_nothing_silently(stage: Stage) -> None:
    """Whoever reads the lines may go away: the runner goes on, or ends with an exit code, but never hangs or loops."""
    stage.declare(stage.job("each"))
    process = subprocess.Popen(
        stage.command("run", stage.file, "--state", stage.state),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=stage.root,
        env=stage.environment(),
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    seen = len(stage.witness())
    stage.sees("each", count=seen + 3)
    process.terminate()
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    assert b"Traceback" not in said
