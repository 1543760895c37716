"""Plugins for tests are real: a folder with a module and a dist-info on ``sys.path``, found by importlib.metadata."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

CORE = "Metadata-Version: 2.1\nName: cronpad-core\nVersion: 9.9\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for installed packages that holds the core's own metadata and hides whatever the test environment has."""
    folder = tmp_path / "site"
    info = folder / "cronpad_core-9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(CORE)
    (info / "entry_points.txt").write_text("[cronpad]\nbuiltin = cronpad_core.builtin.plugin\n")
    before = set(sys.modules)
    # distributions() looks along sys.path; modules are found through the same folder, the rest is imported already.
    monkeypatch.setattr("importlib.metadata.MetadataPathFinder.find_distributions", _only(folder))
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith("plug_"):
            del sys.modules[name]


@pytest.fixture
def install(site: Path) -> Callable[..., None]:
    """``install("cronpad-x", "source")``: a distribution with one plugin of the name ``x``."""

    def make(distribution: str, source: str, *, name: str | None = None, version: str = "1.0") -> None:
        plain = distribution.replace("-", "_")
        info = site / f"{plain}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        point = name or distribution.removeprefix("cronpad-")
        (info / "entry_points.txt").write_text(f"[cronpad]\n{point} = plug_{plain}\n")
        (site / f"plug_{plain}.py").write_text(PRELUDE + dedent(source))
        importlib.invalidate_caches()

    return make


PRELUDE = """
from __future__ import annotations
from pydantic import BaseModel, ConfigDict
from cronpad_core.api import Delivered, hookimpl

class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    url: str = "x"

def sink(its_name, its_api=1):
    class Made:
        "A sink for tests."
        name = its_name
        api = its_api
        Settings = globals()["Settings"]
        capabilities = frozenset()
        def __init__(self, context):
            self.context = context
        async def deliver(self, delivery):
            return Delivered()
    return Made
"""


def _only(folder: Path) -> Callable[..., object]:
    from importlib.metadata import DistributionFinder, PathDistribution

    def find(context: DistributionFinder.Context | None = None) -> Iterator[PathDistribution]:
        return (PathDistribution(path) for path in sorted(folder.glob("*.dist-info")))

    return find
