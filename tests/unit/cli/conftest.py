"""One way to call the command line inside the test process, at a fixed time and with an environment of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.main import cli
from cronpad_core.domain.timing import to_ms

NOW = to_ms(datetime(2026, 11, 30, 12, 0, 10, tzinfo=UTC))

Call = Callable[..., Result]


@pytest.fixture
def call() -> Call:
    """``call("next", "@daily", NO_COLOR="1")``: keywords are the environment."""

    def run(*arguments: str, **environ: str) -> Result:
        invocation = Invocation(environ=environ, fixed_now_ms=NOW)
        return CliRunner().invoke(cli, list(arguments), obj=invocation, prog_name="cronpad")

    return run


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Installed packages of the test's own: the core, and a plugin that brings the sink ``command``."""
    folder = tmp_path / "site"
    for name, point, value in (("cronpad_core", "builtin", "cronpad_core.builtin.plugin"), ("cronpad_fake", "fake", "plug_fake")):
        info = folder / f"{name}-9.9.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 9.9\n")
        (info / "entry_points.txt").write_text(f"[cronpad]\n{point} = {value}\n")
    (folder / "plug_fake.py").write_text(FAKE)

    def find(context: object = None) -> Iterator[object]:
        return (PathDistribution(path) for path in sorted(folder.glob("*.dist-info")))

    monkeypatch.setattr("importlib.metadata.MetadataPathFinder.find_distributions", find)
    monkeypatch.syspath_prepend(str(folder))
    yield folder

    sys.modules.pop("plug_fake", None)


FAKE = '''
from typing import Any
from pydantic import BaseModel
from cronpad_core.api import Delivered, hookimpl

class Settings(BaseModel):
    command: Any
    shell: str = "sh"

class Fake:
    """Runs nothing."""
    name, api, Settings, capabilities = "command", 1, Settings, frozenset({"output"})
    def __init__(self, context): ...
    async def deliver(self, delivery): return Delivered()

@hookimpl
def cronpad_register_sinks():
    return [Fake]

@hookimpl
def cronpad_stopping(owner): ...
'''
