"""What may import what: the contracts of import-linter, and what it cannot express."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import grimp
import house
import pytest

LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"

RESTRICTED = {"domain": set[str](), "ports": set[str](), "engine": set[str]()}
"""Rooms of the core that stand on the standard library alone, and what else they may import: nothing."""

DOORS = {
    "croniter": {"cronpad_core/schedules/cron.py"},
    "pluggy": {"cronpad_core/hookspecs.py", "cronpad_core/host/"},
    "click": {"cronpad_core/cli/"},
    "rich": {"cronpad_core/cli/"},
    "pydantic": {"cronpad_core/api.py", "cronpad_core/builtin/", "cronpad_core/config/", "cronpad_core/host/"},
    "pydantic_core": {"cronpad_core/config/", "cronpad_core/host/"},
    "durationpy": {"cronpad_core/config/"},
    "ruamel": {"cronpad_core/config/"},
    "tree_sitter": {"cronpad_core/config/"},
    "tree_sitter_toml": {"cronpad_core/config/"},
    "cron_descriptor": {"cronpad_core/cli/", "cronpad_core/control/"},
}
"""Each third-party library of the core, and where it may be imported."""


def _rooms(*names: str) -> list[Path]:
    return [
        path for path in house.shipped_files() if path.relative_to(house.ROOT).parts[:2] in {("cronpad_core", n) for n in names}
    ]


def test_import_contracts_hold() -> None:
    """Every contract of ``[tool.importlinter]`` is kept, ``TYPE_CHECKING`` imports included."""
    done = subprocess.run(
        [sys.executable, "-c", LINT_IMPORTS, "--no-cache", "pyproject.toml"],
        cwd=house.ROOT,
        env={**os.environ, "PYTHONPATH": house.source_path(), "NO_COLOR": "1", "COLUMNS": "140"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("room", RESTRICTED)
def test_low_floors_stand_on_the_standard_library(room: str) -> None:
    """Domain, ports and engine import no third-party library."""
    allowed = set(sys.stdlib_module_names) | {"cronpad_core"} | RESTRICTED[room]
    strangers = [
        f"{house.relative(path)}:{line} imports {name}"
        for path in _rooms(room)
        for line, name in house.imports(path)
        if name.split(".")[0] not in allowed
    ]
    assert not strangers


def test_each_library_has_its_door() -> None:
    """A third-party library of the core is imported where the table says, and one that the table lacks nowhere."""
    known = set(sys.stdlib_module_names) | {"cronpad_core"}
    strangers = []
    for path in house.shipped_files():
        name = house.relative(path)
        if not name.startswith("cronpad_core/"):
            continue
        for line, imported in house.imports(path):
            library = imported.split(".")[0]
            if library in known or any(
                name == door or (door.endswith("/") and name.startswith(door)) for door in DOORS.get(library, ())
            ):
                continue
            strangers.append(f"{name}:{line} imports {library}")
    assert not strangers


PLUGIN_DOORS = {
    "httpx": {"clients.py", "exchange.py", "failures.py"},
    "httpx_aiohttp": {"clients.py"},
    "aiohttp": {"clients.py", "failures.py", "guard.py"},
    "standardwebhooks": {"receiver.py", "signing.py"},
    "limits": {"places.py"},
}
"""Each library of ``cronpad-webhook``, and the modules that may import it."""


def test_each_library_of_webhooks_has_its_door() -> None:
    """The HTTP libraries, signatures and rates are imported where the table says, in one plugin alone."""
    found: dict[str, set[str]] = {library: set() for library in PLUGIN_DOORS}
    for path in house.shipped_files():
        for _, imported in house.imports(path):
            library = imported.split(".")[0]
            if library in found:
                found[library].add(house.relative(path).removeprefix("plugins/cronpad-webhook/cronpad_webhook/"))
    assert found == PLUGIN_DOORS


def test_plugins_use_the_doors() -> None:
    """Of the core a plugin imports ``cronpad_core.api`` alone; cronpad-python and the test kit ``cronpad_core.app`` too."""
    intruders = []
    for package in house.PACKAGES[1:]:
        doors = {"cronpad_core.api"} | ({"cronpad_core.app"} if package.name in ("cronpad_python", "cronpad_testkit") else set())
        for path in sorted(package.rglob("*.py")):
            for line, name in house.imports(path):
                if name in ("cronpad_core.api", "cronpad_core.app"):
                    name += "."
                if house.is_within(name, "cronpad_core") and not any(name.startswith(door + ".") for door in doors):
                    intruders.append(f"{house.relative(path)}:{line} imports {name}")
    assert not intruders


def test_bundled_plugins_use_the_same_door() -> None:
    """``builtin`` imports ``cronpad_core.api`` and itself, nothing else of the core."""
    intruders = [
        f"{house.relative(path)}:{line} imports {name}"
        for path in _rooms("builtin")
        for line, name in house.imports(path)
        if house.is_within(name, "cronpad_core")
        and not house.is_within(name, "cronpad_core.api")
        and not house.is_within(name, "cronpad_core.builtin")
    ]
    assert not intruders


def test_no_module_imports_itself_in_a_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    """No chain of imports leads from a module back to it, a package's ``__init__`` and ``TYPE_CHECKING`` included."""
    monkeypatch.setattr(sys, "path", [*house.source_path().split(os.pathsep), *sys.path])
    names = [package.name for package in house.PACKAGES]
    graph = grimp.build_graph(*names, cache_dir=None, exclude_type_checking_imports=False)
    circles = []
    for module in sorted(graph.modules):
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            back = graph.find_shortest_chain(importer=imported, imported=module) if imported in graph.modules else None
            if imported == module or back is not None:
                circles.append(" → ".join([module, *(back or (imported,))]))
    assert not circles


def test_everything_promised_by_all_exists_and_is_sorted_once() -> None:
    """``__all__`` names nothing twice."""
    twice = []
    for path in house.shipped_files():
        for node in house.parsed(path).body:
            if isinstance(node, house.ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
                names = house.ast.literal_eval(node.value)
                if len(set(names)) != len(names):
                    twice.append(house.relative(path))
    assert not twice
