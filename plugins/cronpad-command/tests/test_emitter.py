"""The alert emitter: what the command is given, and what becomes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import ValidationError

from cronpad_command.emitter import AlertSettings, CommandEmitter
from cronpad_core.api import AlertEmitter, JsonValue
from cronpad_testkit.suites import AlertEmitterSuite, EmitterCase
from cronpad_testkit.suites.emitter import alert


class TestCommandEmitter(AlertEmitterSuite):
    """A1 and A2."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"cancellable"})

    @pytest.fixture
    def emitter_type(self) -> type[AlertEmitter]:
        """The class."""
        return CommandEmitter

    @pytest.fixture
    def working(self, tmp_path: Path) -> EmitterCase:
        """Each alert becomes a line of a file."""
        place = tmp_path / "told"

        def received() -> Sequence[str]:
            return place.read_text(encoding="utf-8").splitlines()

        return EmitterCase(settings={"command": f"cat >> {place}"}, received=received)

    @pytest.fixture
    def failing(self) -> Mapping[str, JsonValue]:
        """A command that does not read and fails."""
        return {"command": ["false"]}

    @pytest.fixture
    def hanging(self) -> Mapping[str, JsonValue]:
        """A command that does not end."""
        return {"command": "cat; sleep 600"}


def _run(command: str | list[str], **settings: object) -> None:
    made = AlertSettings.model_validate({"command": command, **settings})
    asyncio.run(CommandEmitter(made).emit(alert()))


def test_the_alert_is_on_standard_input_and_in_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON on standard input, CRONPAD_ALERT_* in the environment, own variables beside; nothing of cronpad's own secrets."""
    monkeypatch.setenv("CRONPAD_SECRET_X", "hidden")
    monkeypatch.setenv("INHERITED", "yes")
    _run(f"cat > {tmp_path}/in; env -0 > {tmp_path}/env; pwd > {tmp_path}/cwd", env={"OWN": "1"}, cwd=str(tmp_path))
    told = json.loads((tmp_path / "in").read_text())
    assert told == {
        "id": "al_1",
        "alert": "on-call",
        "kind": "run_failed",
        "job": "backup",
        "run_id": "run_1",
        "at": "2026-01-01T00:00:00Z",
        "text": "backup failed: exit 3",
        "facts": {"status": "failed", "attempts": 2},
    }
    env = dict(item.split("=", 1) for item in (tmp_path / "env").read_text().split("\0") if item)
    given = {name.removeprefix("CRONPAD_ALERT_"): value for name, value in env.items() if name.startswith("CRONPAD_ALERT_")}
    assert given == {
        "ID": "al_1",
        "NAME": "on-call",
        "KIND": "run_failed",
        "JOB": "backup",
        "RUN_ID": "run_1",
        "AT": "2026-01-01T00:00:00Z",
        "TEXT": "backup failed: exit 3",
    }
    assert (env["OWN"], env["INHERITED"], "CRONPAD_SECRET_X" in env) == ("1", "yes", False)
    assert (tmp_path / "cwd").read_text().strip() == str(tmp_path)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo first >&2; echo no route >&2; exit 7", "exit 7: first no route"),
        ("kill -9 $$", "signal 9"),
        (["/no/such/program"], "No such file"),
    ],
)
def test_what_failed_is_said(command: str | list[str], words: str) -> None:
    """The exit code, or the signal, with the last that was said on standard error; a program that is not there."""
    with pytest.raises((RuntimeError, OSError), match=words):
        _run(command)


def test_what_is_left_in_its_session_ends(tmp_path: Path) -> None:
    """A process that the command leaves behind is killed with it."""
    _run(f"sleep 600 & echo $! > {tmp_path}/pid")
    left = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    while left.exists() and left.read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
        pass


@pytest.mark.parametrize(
    "settings",
    [
        {"command": ""},
        {"command": []},
        {"command": "a", "env": {"CRONPAD_ALERT_ID": "x"}},
        {"command": "a", "env": {"A=B": "x"}},
        {"command": "a", "cwd": "relative"},
    ],
)
def test_odd_settings_are_refused(settings: dict[str, object]) -> None:
    """An empty command, a variable that cronpad sets or that cannot be, a relative directory."""
    with pytest.raises(ValidationError):
        AlertSettings.model_validate(settings)
