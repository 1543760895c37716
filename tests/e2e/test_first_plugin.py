"""The tutorial on a first plugin, done as it is written, in a new environment with wheels of this checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial" / "your-first-plugin.md"
OURS = (ROOT, *(ROOT / "plugins" / name for name in ("cronpad-command", "cronpad-sql", "cronpad-testkit")))


def _blocks() -> Iterator[tuple[str, str, str]]:
    """Language, file name and text of each block, but for the first, which installs a checkout."""
    found = re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    yield from found[1:]


def _run(command: str, folder: Path, environ: dict[str, str]) -> str:
    done = subprocess.run(["sh", "-ec", command], cwd=folder, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def _environment(folder: Path) -> dict[str, str]:
    """A new virtual environment with wheels of the core and the plugins that the page needs."""
    venv, wheels = folder / "venv", folder / "wheels"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CRONPAD_", "PYTHON", "PYTEST_"))}
    environ = {**inherited, "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(venv)}
    for one in OURS:
        _run(f"python -m pip wheel --quiet --no-deps --wheel-dir {wheels} {one}", folder, environ)
    _run(f"python -m pip install --quiet {wheels}/*.whl", folder, environ)
    return environ


def _replace_send(sink: Path, method: str) -> None:
    text, count = re.subn(
        r"    def send\(.*?(?=\n    async def close)", lambda _: method, sink.read_text("utf-8"), flags=re.DOTALL
    )
    assert count == 1
    sink.write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_newcomer_gets_what_the_page_shows(tmp_path: Path) -> None:
    """Each command works, each line of output on the page is printed, and the edited sink does its work."""
    environ = _environment(tmp_path)
    folder, said, steps = tmp_path, "", 0
    for language, name, text in _blocks():
        match language:
            case "sh":
                said = ""
                for command in text.splitlines():
                    if command.startswith("cd "):
                        folder /= command.removeprefix("cd ")
                    else:
                        said += _run(command, folder, environ)
                        steps += 1
            case "text":
                missing = [line for line in text.splitlines() if line not in said]
                assert missing == [], said
            case "python":
                _replace_send(folder / "cronpad_hello" / "sink.py", text)
            case "toml":
                (folder / name).write_text(text, encoding="utf-8")
            case _:
                pytest.fail(f"nobody knows what to do with a block of {language}")
    assert steps == 8
    assert (folder / "greetings.txt").read_text("utf-8") == "hello from greet\n"
