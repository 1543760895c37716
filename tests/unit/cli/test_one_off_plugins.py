"""Plugins that nobody installed: ``cronpad_plugins.py`` beside a jobs file, and the files of ``--plugins-dir``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Call = Callable[..., Result]

SOURCE = '''
from pydantic import BaseModel, ConfigDict, Field
from cronpad_core.api import Delivered, hookimpl

class ShoutSettings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    word: str = Field(description="What is shouted.")

class Shout:
    """Shouts."""
    name, api, Settings, capabilities = "shout", 1, ShoutSettings, frozenset()
    def __init__(self, context): ...
    def deliver(self, delivery): return Delivered(reason=delivery.settings.word.upper())
    async def close(self): ...

@hookimpl
def cronpad_register_sinks():
    return [Shout]
'''
JOBS = 'version = 1\n[[jobs]]\nname = "a"\nschedule = "@daily"\nsink = { type = "shout", word = "hey" }\n'


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A jobs file in a folder of its own, that nobody else can write."""
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o755)
    (folder / "jobs.toml").write_text(JOBS)
    return folder / "jobs.toml"


def _write(folder: Path, name: str = "cronpad_plugins.py", source: str = SOURCE) -> Path:
    path = folder / name
    path.write_text(source)
    path.chmod(0o644)
    return path


def test_a_file_beside_the_jobs_is_a_plugin(call: Call, site: Path, jobs: Path) -> None:
    """Without it the sink is unknown; with it the file is valid and its jobs run once."""
    assert call("validate", str(jobs)).exit_code == 5
    _write(jobs.parent)
    assert call("validate", str(jobs)).exit_code == 0
    assert call("validate", str(jobs.parent)).exit_code == 0, "a folder is looked into as well"
    assert call("next", "--file", str(jobs)).exit_code == 0
    assert call("run", "--once", "a", str(jobs)).exit_code == 0


def test_a_folder_of_plugins_is_named(call: Call, site: Path, jobs: Path, tmp_path: Path) -> None:
    """Each file of --plugins-dir is a plugin, but for those that begin with ``_``; one that breaks stops no other."""
    folder = tmp_path / "plugins"
    folder.mkdir(mode=0o755)
    _write(folder, "shouting.py")
    _write(folder, "broken.py", "raise RuntimeError('no luck')")
    _write(folder, "_not_one.py", "raise SystemExit(9)")
    result = call("--plugins-dir", str(folder), "validate", str(jobs))
    assert result.exit_code == 0, result.stderr
    assert f"plugin broken ({folder}/broken.py) is failed: RuntimeError: no luck" in result.stderr
    listed = call("--plugins-dir", str(folder), "plugin", "list").stdout
    assert "sink shout" in listed
    assert "not_one" not in listed
    assert call("--plugins-dir", str(folder), "plugin", "show", "shouting").exit_code == 0
    missing = call("--plugins-dir", str(folder / "nowhere"), "plugin", "list")
    assert (missing.exit_code, "is no folder" in missing.stderr) == (2, True)


def test_no_plugins_leaves_the_file_alone(call: Call, site: Path, jobs: Path) -> None:
    """With --no-plugins the file is not even read."""
    _write(jobs.parent, source="raise RuntimeError('read')")
    result = call("--no-plugins", "validate", str(jobs))
    assert result.exit_code == 5
    assert "RuntimeError" not in result.stderr


def test_strictness_counts_files_too(call: Call, site: Path, jobs: Path) -> None:
    """With CRONPAD_STRICT_PLUGINS a file that breaks ends the command with 5."""
    _write(jobs.parent, source="raise RuntimeError('no luck')")
    result = call("validate", str(jobs), CRONPAD_STRICT_PLUGINS="1")
    assert (result.exit_code, "no luck" in result.stderr) == (5, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("who", ["others", "folder", "owner"])
def test_root_runs_no_file_that_others_can_write(call: Call, site: Path, jobs: Path, who: str) -> None:
    """As root the plugin is refused, with how to mend it, if others can write the file or its folder or own it."""
    path = _write(jobs.parent)
    match who:
        case "others":
            path.chmod(0o666)
        case "folder":
            jobs.parent.chmod(0o777)
        case _:
            os.chown(path, 12345, -1)
    result = call("validate", str(jobs))
    assert result.exit_code == 5
    assert "chown root" in result.stderr
    path.chmod(0o644)


def test_calls_are_traced(call: Call, site: Path, jobs: Path) -> None:
    """With --trace-plugins each hook call is a line on stderr with its plugin and milliseconds."""
    _write(jobs.parent)
    result = call("--trace-plugins", "validate", str(jobs))
    for plugin in ("cronpad_plugins", "builtin", "fake"):
        assert f" of {plugin}: " in result.stderr
    assert " ms" in result.stderr
