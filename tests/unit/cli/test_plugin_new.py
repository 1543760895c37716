"""``cronpad plugin new``: what it writes works before anything is edited, and what it refuses it refuses with one error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Call = Callable[..., Result]
KINDS = ["sink", "misfire", "alert", "storage"]


def _new(call: Call, folder: Path, kind: str, name: str = "my-first") -> Path:
    result = call("plugin", "new", kind, name, "--into", str(folder))
    assert result.exit_code == 0, result.stderr
    return folder / f"cronpad-{name}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_the_tests_of_a_new_package_pass_at_once(call: Call, site: Path, tmp_path: Path, kind: str) -> None:
    """Unedited and not installed, the package passes the conformance suite of its kind."""
    made = _new(call, tmp_path, kind)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CRONPAD_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=made, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_package_is_complete(call: Call, site: Path, tmp_path: Path, kind: str) -> None:
    """Project file with the entry point, README, types and a test; every word of a template is filled in."""
    made = _new(call, tmp_path, kind)
    project = tomllib.loads((made / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == "cronpad-my-first"
    assert project["entry-points"]["cronpad"] == {"my-first": "cronpad_my_first.plugin"}
    assert any(one.startswith("cronpad-core>=") for one in project["dependencies"])
    for name in ("README.md", "cronpad_my_first/py.typed", "cronpad_my_first/plugin.py", "tests/test_my_first.py"):
        assert (made / name).is_file(), name
    for path in made.rglob("*.py"):
        text = path.read_text("utf-8")
        compile(text, str(path), "exec")
        assert "$package" not in text and "${" not in text, path
        assert "cronpad_core.builtin" not in text, path


def test_what_was_written_is_said(call: Call, site: Path, tmp_path: Path) -> None:
    """Each file on a line, or as a document."""
    result = call("--json", "plugin", "new", "sink", "one", "--into", str(tmp_path))
    document = json.loads(result.stdout)
    assert document["folder"] == str(tmp_path / "cronpad-one")
    assert {item["path"] for item in document["items"]} == {
        str(path) for path in (tmp_path / "cronpad-one").rglob("*") if path.is_file()
    }
    assert f"wrote {tmp_path}/cronpad-two/README.md" in call("plugin", "new", "sink", "two", "--into", str(tmp_path)).stdout


@pytest.mark.parametrize("name", ["A", "a b", "../up", "a/b", "9lives", "a_b", "a--b", "a-", "ü", "a" * 41, ""])
def test_a_name_that_is_not_allowed_is_refused(call: Call, site: Path, tmp_path: Path, name: str) -> None:
    """Exit 2, with a name that would do; nothing is written."""
    result = call("plugin", "new", "sink", "--into", str(tmp_path / "x"), "--", name)
    assert result.exit_code == 2
    assert "is no name for a plugin" in result.stderr
    assert "such as 'my-pager'" in result.stderr
    assert not list(tmp_path.rglob("cronpad-*[!o]/pyproject.toml"))


@pytest.mark.parametrize(
    ("kind", "name", "whose"),
    [
        ("sink", "command", "sink 'command' comes with cronpad-fake"),
        ("misfire", "latest", "misfire policy 'latest' comes with cronpad-core"),
        ("sink", "fake", "plugin fake of cronpad-fake goes by 'fake'"),
        ("alert", "sql", "cronpad-sql is a package of cronpad's own"),
    ],
)
def test_a_name_that_is_taken_is_refused(call: Call, site: Path, tmp_path: Path, kind: str, name: str, whose: str) -> None:
    """Exit 2, with who has it."""
    result = call("plugin", "new", kind, name, "--into", str(tmp_path))
    assert (result.exit_code, whose in result.stderr) == (2, True), result.stderr
    assert not (tmp_path / f"cronpad-{name}").exists()


def test_an_existing_folder_is_left_alone(call: Call, site: Path, tmp_path: Path) -> None:
    """Exit 2; what is in it stays as it was."""
    made = tmp_path / "cronpad-mine"
    made.mkdir()
    (made / "work.txt").write_text("dear")
    result = call("plugin", "new", "sink", "mine", "--into", str(tmp_path))
    assert (result.exit_code, f"{made} exists already" in result.stderr) == (2, True)
    assert [path.name for path in made.iterdir()] == ["work.txt"]


def test_a_missing_folder_is_named(call: Call, site: Path, tmp_path: Path) -> None:
    """Exit 2 where --into names no folder."""
    result = call("plugin", "new", "sink", "mine", "--into", str(tmp_path / "nowhere"))
    assert (result.exit_code, "nowhere is no folder" in result.stderr) == (2, True)
