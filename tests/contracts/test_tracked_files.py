"""Nothing in version control knows the machine that it was written on."""

from __future__ import annotations

import re
from pathlib import Path

import house
import pytest

MACHINE = re.compile(r"/work/(?:main|shared)\b|/tmp/v/|/root/|(?<![\w.])\.pyenv\b|/home/[a-z]+/(?:work|src)/")
REGISTRIES = re.compile(
    r"\bpypi\.org|pythonhosted\.org|--(?:extra-)?index-url|PIP_INDEX_URL|UV_INDEX|[a-z0-9.-]*artifactory|devpi"
)
LOCKS = re.compile(r"(?:^|/)(?:[\w.-]+\.lock|Pipfile\.lock|requirements[\w.-]*\.txt|pip-freeze\.txt|pylock[\w.-]*\.toml)$")

FILES = [path for path in house.tracked_files() if path != Path(__file__).resolve()]


def _texts() -> list[tuple[str, str]]:
    return [(house.relative(path), path.read_bytes().decode("utf-8", errors="replace")) for path in FILES]


@pytest.mark.parametrize("pattern", [MACHINE, REGISTRIES], ids=["machine-paths", "registry-hosts"])
def test_files_name_no_machine_and_no_registry(pattern: re.Pattern[str]) -> None:
    """No path of a developer's machine and no package registry is written down."""
    found = [f"{name}: {match[0]}" for name, text in _texts() for match in pattern.finditer(text)]
    assert found == []


def test_no_lock_files() -> None:
    """What is installed follows from the bounds in each ``pyproject.toml``, not from a lock file."""
    assert [house.relative(path) for path in FILES if LOCKS.search(house.relative(path))] == []


def test_no_built_or_large_files() -> None:
    """No build product, cache, database or file above 1 MB is in version control."""
    products = re.compile(r"\.(?:pyc|so|whl|db|sqlite3?|log|tar\.gz|zip)$|(?:^|/)__pycache__/|\.egg-info/")
    assert [house.relative(path) for path in FILES if products.search(house.relative(path))] == []
    assert [house.relative(path) for path in FILES if path.stat().st_size > 1_000_000] == []


def test_texts_end_with_one_newline() -> None:
    """Every text ends with a newline."""
    texts = [(name, text) for name, text in _texts() if name.endswith((".py", ".md", ".toml", ".json", ".jsonl")) and text]
    assert [name for name, text in texts if not text.endswith("\n")] == []
