"""``validate``, ``plugin``, ``version``, ``completion`` and ``init``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Call = Callable[..., Result]

GOOD = 'version = 1\n[[jobs]]\nname = "a"\nschedule = "@daily"\ncommand = "true"\n'


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_valid_file(call: Call, site: Path, tmp_path: Path) -> None:
    """Exit 0 and how many jobs there are."""
    result = call("validate", write(tmp_path, "a.toml", GOOD))
    assert (result.exit_code, result.stdout) == (0, "valid: 1 job, 0 errors, 0 warnings\n")


def test_all_problems_of_all_files(call: Call, site: Path, tmp_path: Path) -> None:
    """Exit 2, each with its place; a document for programs."""
    bad = write(tmp_path, "a.toml", GOOD.replace("@daily", "61 * * * *") + "nope = 1\n")
    worse = write(tmp_path, "b.toml", "version = 2\n")
    result = call("validate", bad, worse)
    assert result.exit_code == 2
    for said in (f"{bad}:4:", "61 is not in 0-59", f"{bad}:6:", worse, "invalid: "):
        assert said in result.stdout
    document = json.loads(call("validate", bad, "--json").stdout)
    assert document["schema"] == "cronpad.problems/1"
    assert {one["code"] for one in document["items"]} == {"CP101", "CP102"}


def test_a_missing_plugin_is_another_exit_code(call: Call, site: Path, tmp_path: Path) -> None:
    """Exit 5 and what to install, where that is all that is wrong; with --no-plugins everything is missing."""
    file = write(tmp_path, "a.toml", GOOD.replace('command = "true"', 'sink = { type = "webhook", url = "http://x" }'))
    result = call("validate", file)
    assert result.exit_code == 5
    assert "it comes with cronpad-webhook, which is not installed" in result.stdout
    unknown = call("validate", write(tmp_path, "c.toml", GOOD.replace('command = "true"', 'sink = { type = "telex" }')))
    assert (unknown.exit_code, 'unknown sink "telex"' in unknown.stdout) == (5, True)
    assert call("--no-plugins", "validate", write(tmp_path, "b.toml", GOOD)).exit_code == 5


def test_plugins_are_listed_and_shown(call: Call, site: Path) -> None:
    """With state, source and types; with the settings of each type."""
    result = call("plugin", "list")
    assert result.exit_code == 0
    assert "builtin  loaded  cronpad-core 9.9" in result.stdout
    assert "sink command" in result.stdout
    for name in ("fake", "cronpad-fake", "command"):
        shown = call("plugin", "show", name)
        assert shown.exit_code == 0
        for said in ("cronpad-fake 9.9", "listens to    cronpad_stopping", "sink command   Runs nothing.", "(required)", '"sh"'):
            assert said in shown.stdout
    details = json.loads(call("plugin", "show", "builtin", "--json").stdout)["items"][0]["details"]
    assert details[0]["name"] == "all"
    assert details[0]["settings"]["properties"]["max"]["default"] == 1000
    assert call("plugin", "show", "nope").exit_code == 4


def test_a_broken_plugin_is_listed_with_its_reason(call: Call, site: Path) -> None:
    """Exit 1, and the same line on stderr that a start prints."""
    (site / "plug_fake.py").write_text("raise SystemExit('no')")
    result = call("plugin", "list")
    assert result.exit_code == 1
    assert "failed" in result.stdout
    assert "plugin fake (cronpad-fake) is failed: SystemExit: no" in result.stderr
    assert "SystemExit: no" in call("plugin", "show", "fake").stdout
    quiet = call("plugin", "list", CRONPAD_PLUGINS_DISABLED="fake")
    assert quiet.exit_code == 0


def test_a_clash_is_listed_and_ends_with_5(call: Call, site: Path) -> None:
    """``plugin list`` is what one looks at to mend it, so it works all the same."""
    info = site / "cronpad_again-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cronpad-again\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[cronpad]\nagain = plug_fake\n")
    (site / "plug_again.py").write_text((site / "plug_fake.py").read_text())
    (info / "entry_points.txt").write_text("[cronpad]\nagain = plug_again\n")
    result = call("plugin", "list", "--json")
    assert result.exit_code == 5
    assert len(json.loads(result.stdout)["clashes"]) == 1
    assert "sink 'command' is claimed by two distributions: cronpad-again and cronpad-fake" in result.stderr


def test_hook_calls_are_traced_on_stderr(call: Call, site: Path) -> None:
    """Also with ``-q``: they were asked for."""
    result = call("--trace-plugins", "-q", "plugin", "list")
    assert "trace: cronpad_register_sinks of fake: " in result.stderr
    assert "trace: " not in result.stdout


def test_version(call: Call, site: Path) -> None:
    """One line; with -v what it runs on."""
    assert call("version").stdout == call("--version").stdout == "cronpad 9.9\n"
    assert "Python 3." in call("--version", "-v").stdout
    assert "Python 3." in call("version", "-v").stdout
    assert json.loads(call("version", "--json").stdout)["items"][0] == {"name": "cronpad-core", "version": "9.9"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(call: Call, shell: str) -> None:
    """For the shell named, or for the login shell."""
    result = call("completion", shell)
    assert result.exit_code == 0
    assert "_CRONPAD_COMPLETE" in result.stdout
    assert call("completion", SHELL=f"/usr/bin/{shell}").stdout == result.stdout
    assert call("completion", SHELL="/bin/csh").exit_code == 2


def test_init_writes_a_file_that_is_valid_and_never_overwrites(call: Call, site: Path, tmp_path: Path) -> None:
    """In a directory it is jobs.toml; a file, or a link to nothing, is left alone."""
    result = call("init", str(tmp_path))
    assert result.exit_code == 0
    assert call("validate", str(tmp_path / "jobs.toml")).exit_code == 0
    before = (tmp_path / "jobs.toml").read_bytes()
    again = call("init", str(tmp_path))
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    assert (tmp_path / "jobs.toml").read_bytes() == before
    (tmp_path / "link.toml").symlink_to(tmp_path / "nowhere.toml")
    assert call("init", str(tmp_path / "link.toml")).exit_code == 2
    assert not (tmp_path / "nowhere.toml").exists()
    assert call("init", str(tmp_path / "a.json")).exit_code == 2
    assert call("init", str(tmp_path / "no" / "a.toml")).exit_code == 73


def test_the_core_alone_says_what_is_missing(call: Call, site: Path, tmp_path: Path) -> None:
    """Where none of cronpad's own packages brought anything, ``run`` names all of them before what it cannot do."""
    result = call("--no-plugins", "run", write(tmp_path, "a.toml", GOOD))
    assert result.exit_code == 5
    assert "missing: cronpad-command, cronpad-sql" in result.stderr


def test_the_schema_is_printed(call: Call, site: Path) -> None:
    """One JSON document with the settings of what is installed, with and without --json."""
    result = call("schema")
    assert result.exit_code == 0
    schema = json.loads(result.stdout)
    assert {"sink.command", "misfire.latest"} <= schema["$defs"].keys()
    assert call("--json", "schema").stdout == result.stdout
