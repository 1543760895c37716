"""One repository, one version, several distributions."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import house
import pytest

FOLDERS = (house.ROOT, *house.PLUGINS)


def _project(folder: Path) -> dict[str, Any]:
    return dict(tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"])


CORE = _project(house.ROOT)


@pytest.mark.parametrize("folder", FOLDERS, ids=house.relative)
def test_versions_and_pins_agree(folder: Path) -> None:
    """Every distribution has the core's version, and every requirement on one of ours names exactly that version."""
    project = _project(folder)
    assert project["version"] == CORE["version"]
    assert project["requires-python"] == CORE["requires-python"]
    assert project["license"] == CORE["license"]
    requirements = [
        *project.get("dependencies", []),
        *(r for extra in project.get("optional-dependencies", {}).values() for r in extra),
    ]
    ours = [requirement for requirement in requirements if re.match(r"cronpad\b", requirement)]
    assert [
        requirement for requirement in ours if not re.fullmatch(rf"cronpad[a-z-]*=={re.escape(CORE['version'])}", requirement)
    ] == []


def test_changelog_has_the_same_version() -> None:
    """The changelog's tool builds notes for the core's version."""
    settings = tomllib.loads((house.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    assert settings["version"] == CORE["version"]


def test_installed_version_is_this_one() -> None:
    """What is installed, if anything, is this checkout's version."""
    try:
        assert version("cronpad-core") == CORE["version"]
    except PackageNotFoundError:
        pytest.skip("the core is not installed here")


@pytest.mark.parametrize("folder", FOLDERS, ids=house.relative)
def test_third_party_requirements_have_a_lower_bound(folder: Path) -> None:
    """A requirement on another project says which version it needs at least."""
    requirements = [r for r in _project(folder).get("dependencies", []) if not r.startswith("cronpad")]
    assert [requirement for requirement in requirements if ">=" not in requirement] == []


PROVIDERS = {"ruamel": "ruamel.yaml", "pydantic_core": "pydantic"}
"""Import name → the distribution that brings it, where the two differ by more than dashes."""

DATA_ALONE = {"tzdata"}
"""Requirements that hold no code to import."""


@pytest.mark.parametrize("package", house.PACKAGES, ids=house.relative)
def test_requirements_are_what_is_imported(package: Path) -> None:
    """A distribution requires each library that it imports, and no other."""
    imported = {name.split(".")[0] for path in package.rglob("*.py") for _, name in house.imports(path)}
    imported -= {*sys.stdlib_module_names, package.name}
    needed = {PROVIDERS.get(name, name.replace("_", "-")) for name in imported}
    required = {re.split(r"[\[=<>~!;\s]", one)[0].lower() for one in _project(package.parent).get("dependencies", [])}
    assert required - DATA_ALONE == needed


@pytest.mark.parametrize("folder", house.PLUGINS, ids=house.relative)
def test_plugin_folders_are_complete(folder: Path) -> None:
    """``cronpad-<thing>`` holds a README, a licence, ``cronpad_<thing>`` with ``plugin.py`` and ``py.typed``, and tests."""
    project = _project(folder)
    assert project["name"] == folder.name
    assert (folder / "README.md").is_file()
    if folder.name == "cronpad":
        assert not list(folder.rglob("*.py"))
        return
    package = folder / folder.name.replace("-", "_")
    assert (package / "py.typed").is_file()
    assert list((folder / "tests").glob("test_*.py"))
    for group, names in project.get("entry-points", {}).items():
        for name, target in names.items():
            assert target.startswith(package.name), (group, name)
    if folder.name != "cronpad-testkit":
        assert f"{package.name}.plugin" in project["entry-points"]["cronpad"].values()
        assert (package / "plugin.py").is_file()


def test_core_says_that_it_is_typed() -> None:
    """The core ships its types."""
    assert (house.PACKAGES[0] / "py.typed").is_file()


def test_metapackage_pulls_the_standard_set() -> None:
    """``pip install cronpad`` gives the core, storage, commands, functions and webhooks."""
    names = {re.split(r"[=<>]", requirement)[0] for requirement in _project(house.ROOT / "plugins" / "cronpad")["dependencies"]}
    assert names == {"cronpad-core", "cronpad-sql", "cronpad-command", "cronpad-python", "cronpad-webhook"}
