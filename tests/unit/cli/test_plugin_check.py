"""``cronpad plugin check``: each thing that can be wrong with a plugin is a finding, and a sound one has none."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Call = Callable[..., Result]


@pytest.fixture
def project(call: Call, site: Path, tmp_path: Path) -> Iterator[Path]:
    """A new package of a misfire policy; nothing of it stays imported."""
    before = list(sys.path)
    assert call("plugin", "new", "misfire", "checked", "--into", str(tmp_path)).exit_code == 0
    yield tmp_path / "cronpad-checked"
    sys.path[:] = before
    for name in [one for one in sys.modules if one.startswith("cronpad_checked")]:
        del sys.modules[name]


def _bad(result: Result) -> dict[str, str]:
    items: list[dict[str, Any]] = json.loads(result.stdout)["items"]
    bad = [one for one in items if one["answer"] == "bad"]
    return {
        name: "\n".join(one["text"] for one in bad if one["check"] == name) for name in dict.fromkeys(one["check"] for one in bad)
    }


def _edit(project: Path, name: str, old: str, new: str) -> None:
    path = project / "cronpad_checked" / name
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.timeout(300)
def test_a_new_package_has_no_findings(call: Call, project: Path) -> None:
    """Exit 0; its tests are run, and passed."""
    result = call("plugin", "check", str(project))
    assert result.exit_code == 0, result.stdout
    assert "conformance  5 tests passed" in result.stdout


@pytest.mark.timeout(300)
def test_a_broken_promise_is_found(call: Call, project: Path) -> None:
    """Exit 1, with the test that failed."""
    _edit(project, "policy.py", "until_ms=newest_ms)", "until_ms=newest_ms + 1)")
    result = call("--json", "plugin", "check", str(project))
    assert result.exit_code == 1
    assert "test_m2" in _bad(result)["conformance"]


@pytest.mark.parametrize(
    ("file", "old", "new", "check", "says"),
    [
        (
            "plugin.py",
            "def cronpad_register_m",
            "def cronpad_evnt(): ...\n\n\n@hookimpl\ndef cronpad_register_m",
            "hooks",
            "did you mean",
        ),
        ("settings.py", 'extra="forbid", ', "", "settings", "unknown keys are taken"),
        ("settings.py", ', description="How many of the newest missed slots run."', "", "settings", "no description of max"),
        (
            "settings.py",
            "    max: int",
            '    token: str = Field(default="", description="x")\n    max: int',
            "secrets",
            "token can be read",
        ),
    ],
    ids=["hook", "unknown-keys", "description", "secret"],
)
def test_what_is_wrong_is_found(call: Call, project: Path, file: str, old: str, new: str, check: str, says: str) -> None:
    """Exit 1, with what is wrong and how to mend it."""
    _edit(project, file, old, new)
    (project / "tests" / "test_checked.py").unlink()
    result = call("--json", "plugin", "check", str(project))
    assert result.exit_code == 1
    assert says in _bad(result)[check]
    assert "adopts the suite of: misfire policy (MisfirePolicySuite)" in _bad(result)["conformance"]


def test_a_secret_that_hides_itself_is_sound(call: Call, project: Path) -> None:
    """A SecretStr is not shown, and no finding."""
    _edit(
        project,
        "settings.py",
        "    max: int",
        '    token: SecretStr = Field(default=SecretStr(""), description="x")\n    max: int',
    )
    _edit(project, "settings.py", "ConfigDict, Field", "ConfigDict, Field, SecretStr")
    assert "secrets" not in _bad(call("--json", "plugin", "check", str(project)))


def test_a_plugin_that_does_not_load_is_5(call: Call, project: Path) -> None:
    """Exit 5, with what it raised."""
    _edit(project, "plugin.py", "@hookimpl", "raise RuntimeError('broken')\n\n\n@hookimpl")
    result = call("--json", "plugin", "check", str(project))
    assert result.exit_code == 5
    assert _bad(result) == {"loads": "it is failed: RuntimeError: broken"}


def test_an_installed_plugin_is_checked_by_name(call: Call, site: Path) -> None:
    """What is installed can be named; its tests are elsewhere, which is said and no finding."""
    result = call("--json", "plugin", "check", "fake")
    assert result.exit_code == 1
    assert set(_bad(result)) == {"settings"}
    assert {one["answer"] for one in json.loads(result.stdout)["items"] if one["check"] == "conformance"} == {"unknown"}
    assert call("plugin", "check", "nobody").exit_code == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [(None, "cannot be read"), ("[", "is no project file"), ("[project]\nname = 'x'\n", "declares no plugin")],
)
def test_a_folder_without_a_plugin_is_refused(call: Call, site: Path, tmp_path: Path, text: str | None, says: str) -> None:
    """Exit 2, with what is missing."""
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    result = call("plugin", "check", str(tmp_path))
    assert (result.exit_code, says in result.stderr) == (2, True), result.stderr


HANGING = """
from pydantic import BaseModel, ConfigDict
import asyncio
from cronpad_core.api import Delivered, Failed

class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

class SlowSink:
    name, api, Settings, capabilities = "slow", 1, Settings, frozenset()
    def __init__(self, context): ...
    async def deliver(self, delivery):
        STOPPING
        return Failed(reason="stopped")
    async def close(self): ...
"""
ADOPTED = """
import pytest
from cronpad_slow.sink import SlowSink
from cronpad_testkit.suites import SinkCase, SinkSuite

class TestSlow(SinkSuite):
    stop_within_s = 1.0
    @pytest.fixture
    def sink_case(self):
        return SinkCase(type=SlowSink, succeeds=None, fails=None, hangs={})
    @pytest.mark.xfail(reason="it only hangs")
    def test_k2_nothing_is_left_behind(self, sink_case):
        super().test_k2_nothing_is_left_behind(sink_case)
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("stopping", "answer"),
    [("await delivery.cancel.wait()", "good"), ("await asyncio.sleep(600)", "bad")],
    ids=["in-time", "never"],
)
def test_whether_a_sink_cancels_in_time(call: Call, site: Path, tmp_path: Path, stopping: str, answer: str) -> None:
    """A sink that ends when it is asked to is sound; one that goes on is a finding of its own."""
    before = list(sys.path)
    assert call("plugin", "new", "sink", "slow", "--into", str(tmp_path)).exit_code == 0
    made = tmp_path / "cronpad-slow"
    (made / "cronpad_slow" / "sink.py").write_text(HANGING.replace("STOPPING", stopping))
    (made / "tests" / "test_slow.py").write_text(ADOPTED)
    result = call("--json", "plugin", "check", str(made))
    sys.path[:] = before
    for name in [one for one in sys.modules if one.startswith("cronpad_slow")]:
        del sys.modules[name]
    items = json.loads(result.stdout)["items"]
    assert {one["answer"] for one in items if one["check"] == "cancels"} == {answer}, items
    assert result.exit_code == (0 if answer == "good" else 1)
