"""The command line as a whole: finding commands, global options, exit codes, and what may be imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.lazy import LazyGroup
from cronpad_core.cli.main import cli
from cronpad_core.domain.errors import ConfigurationError, LockHeldError, NotFoundError

Call = Callable[..., Result]
ROOT = Path(__file__).resolve().parents[3]


def test_help_lists_every_command_and_option(call: Call) -> None:
    """All commands of the table with their line; no arguments is help too, and wrong usage."""
    result = call("--help")
    assert result.exit_code == 0
    for word in ("run", "init", "validate", "next", "explain", "plugin", "completion", "version", "--state", "--no-plugins"):
        assert word in result.output
    assert call().exit_code == 2


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nex", "Did you mean 'next'?"),
        ("valdate", "Did you mean 'validate'?"),
        ("zzz", "no file of that name"),
        ("--nope", "--nope"),
    ],
)
def test_an_unknown_command_is_wrong_usage(call: Call, word: str, said: str) -> None:
    """With what was probably meant."""
    result = call(word)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def group(command: click.Command | None = None) -> LazyGroup:
    made = LazyGroup(name="t", table={"run": ("", "Run."), "other": ("", "Other.")}, params=list(cli.params))
    if command is not None:
        made.add_command(command, "run")
    return made


@click.command()
@click.argument("files", nargs=-1)
@click.option("--once")
@click.pass_obj
def fake_run(invocation: Invocation, files: tuple[str, ...], once: str | None) -> int:
    click.echo(f"{list(files)} {once} {invocation.state}")
    return 3


@pytest.mark.parametrize("name", ["x.json", "x.TOML", "x.yaml", "x.yml", "x.crontab", "folder"])
def test_a_file_in_place_of_a_command_is_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its ending, or because it exists; options after it belong to ``run``, and its number is the exit code."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    result = CliRunner().invoke(group(fake_run), ["--state", ":memory:", name, "--once", "a"])
    assert (result.output, result.exit_code) == (f"['{name}'] a :memory:\n", 3)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFoundError("no job 'x'", hint="see jobs"), 4),
        (LockHeldError("held"), 75),
        (ConfigurationError("bad", report="R1\nR2"), 2),
    ],
)
def test_an_error_is_shown_with_its_mend_and_ends_with_its_code(error: Exception, code: int) -> None:
    """On stderr; of a refused configuration the whole report."""

    @click.command()
    def fails() -> None:
        raise error

    result = CliRunner().invoke(group(fails), ["run"])
    assert result.exit_code == code
    assert result.stdout == ""
    expected = "R1\nR2\n" if code == 2 else f"error: {error}\n" + ("  hint: see jobs\n" if code == 4 else "")
    assert result.stderr == expected


def test_an_interrupt_ends_with_130() -> None:
    """As a process that SIGINT ended."""

    @click.command()
    def stops() -> None:
        raise KeyboardInterrupt

    assert CliRunner().invoke(group(stops), ["run"]).exit_code == 130


def test_global_options_stand_before_or_after_the_command(call: Call) -> None:
    """The later one counts."""
    for arguments in (("--json", "next", "@daily", "-n1"), ("next", "@daily", "-n1", "--json")):
        document = json.loads(call(*arguments).stdout)
        assert document["schema"] == "cronpad.next/1"
    both = call("--color", "never", "next", "@daily", "--color", "always")
    assert "\x1b[1m" in both.stdout


def test_a_file_name_cannot_be_mistaken_for_a_message(call: Call) -> None:
    """Control characters of an argument come back as escapes."""
    result = call("plugin", "show", "x\x1b]0;title\x07")
    assert result.exit_code == 4
    assert "\\x1b]0;title\\x07" in result.stderr
    assert "\x1b" not in result.stderr


def python(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]  # more options of subprocess.run
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, cwd=ROOT, **more
    )


FORBIDDEN = ("sqlalchemy", "alembic", "httpx", "aiohttp", "fastapi", "pydantic", "pluggy", "structlog", "ruamel", "rich")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["next", "*/5 * * * *"], ["next", "every 90s", "--json"], ["explain", "@daily"], ["version"]]
)
def test_quick_commands_import_little(arguments: list[str]) -> None:
    """No database, no HTTP, no pydantic and no rich where nothing of them is needed."""
    code = (
        "import sys\nfrom cronpad_core.cli.main import cli\n"
        f"cli.main({arguments!r}, standalone_mode=False, prog_name='cronpad')\n"
        f"print(sorted(set({FORBIDDEN!r}) & {{name.partition('.')[0] for name in sys.modules}}), file=sys.stderr)\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_module_is_the_script() -> None:
    """``python -m cronpad_core.cli.main`` prints results on stdout and refusals on stderr."""
    done = python("-m", "cronpad_core.cli.main", "next", "*/5 * * * *", "-n", "2", "--after", "2026-01-01T00:00")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].startswith("2026-01-01 00:05:00+00:00  Thu")
    refused = python("-m", "cronpad_core.cli.main", "next", "61 * * * *")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "  61 * * * *\n  ^^\n" in refused.stderr


def test_a_reader_that_leaves_is_no_traceback() -> None:
    """The command ends as SIGPIPE would end it, and says nothing."""
    command = f"{sys.executable} -m cronpad_core.cli.main next '* * * * *' -n 20000 | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "141"
    assert done.stderr == ""


def test_an_encoding_that_lacks_a_character_is_no_traceback() -> None:
    """What cannot be written is escaped."""
    done = python("-m", "cronpad_core.cli.main", "plugin", "show", "ü→", env={"PYTHONIOENCODING": "ascii", "PATH": ""})
    assert done.returncode == 4
    assert "\\xfc\\u2192" in done.stderr
