"""Documents point at what exists, and the commands that they name are the ones that are run."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import house
import pytest

DOCUMENTS = [path for path in house.tracked_files() if path.suffix == ".md"]
README = (house.ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", DOCUMENTS, ids=house.relative)
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link of a document leads to a file or folder of this repository."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    assert [target for target in targets if target and not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=house.relative)
def test_examples_in_documents_can_be_read(path: Path) -> None:
    """Every TOML and JSON example parses."""
    for language, text in re.findall(r"^```(toml|json)\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        tomllib.loads(text) if language == "toml" else json.loads(text)


def test_every_page_of_the_documents_is_reachable() -> None:
    """docs/README.md links to each page."""
    index = (house.DOCS / "README.md").read_text(encoding="utf-8")
    pages = [path for path in DOCUMENTS if path.is_relative_to(house.DOCS) and path.parent.name not in ("changes", "adr")]
    pages = [path for path in pages if path != house.DOCS / "README.md" and "examples" not in path.parts]
    assert [house.relative(path) for path in pages if f"({path.relative_to(house.DOCS).as_posix()})" not in index] == []


def test_decisions_are_numbered_and_indexed() -> None:
    """docs/adr holds 0001, 0002, … without a gap, and its index links to each."""
    names = sorted(path.name for path in (house.DOCS / "adr").glob("[0-9]*.md"))
    assert [name[:4] for name in names] == [f"{number:04}" for number in range(1, len(names) + 1)]
    index = (house.DOCS / "adr" / "README.md").read_text(encoding="utf-8")
    assert [name for name in names if f"({name})" not in index] == []


def test_readme_names_what_ci_runs() -> None:
    """``.ci/run`` runs the test command that the README names."""
    runner = (house.ROOT / ".ci" / "run").read_text(encoding="utf-8")
    command = re.search(r"pip install.* nox && (nox -s \w+)", README)
    assert command
    assert command[1] in runner


def test_readme_runs_the_example() -> None:
    """The README's first command names a jobs file that exists, with jobs that run every few seconds."""
    name = re.search(r"pip install \. \./plugins/\*/ && cronpad run (\S+)", README)
    assert name
    jobs = json.loads((house.ROOT / name[1]).read_text(encoding="utf-8"))["jobs"]
    assert any(re.match(r"\*/\d ", job["schedule"]) or re.fullmatch(r"every \ds", job["schedule"]) for job in jobs)


def test_plugins_folder_holds_folders_alone() -> None:
    """A plain file in ``plugins/`` would break ``pip install . ./plugins/*/``."""
    assert [path.name for path in (house.ROOT / "plugins").iterdir() if not (path / "pyproject.toml").is_file()] == []


def test_changes_are_fragments() -> None:
    """Each file in docs/changes is named ``<issue or +slug>.<kind>.md``."""
    settings = tomllib.loads((house.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    kinds = "|".join(kind["directory"] for kind in settings["type"])
    names = [path.name for path in (house.DOCS / "changes").iterdir() if path.name != "README.md"]
    assert [name for name in names if not re.fullmatch(rf"(?:\d+|\+[\w-]+)\.(?:{kinds})(?:\.\d+)?\.md", name)] == []
