"""Where everything is: the one place in which the contract tests look for files, modules and documents."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PLUGINS = tuple(sorted(path.parent for path in (ROOT / "plugins").glob("*/pyproject.toml")))
"""The folder of each plugin distribution."""

PACKAGES = (ROOT / "cronpad_core", *sorted(path.parent for path in (ROOT / "plugins").glob("*/cronpad_*/__init__.py")))
"""Every package that is shipped."""


@cache
def tracked_files() -> tuple[Path, ...]:
    """Every file that is, or is about to be, in version control."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    paths = (ROOT / os.fsdecode(name) for name in listing.stdout.split(b"\0") if name)
    return tuple(sorted({path for path in paths if path.is_file()}))


def relative(path: Path) -> str:
    """The path as the tables of exceptions name it."""
    return path.relative_to(ROOT).as_posix()


def shipped_files() -> tuple[Path, ...]:
    """Every Python file that is shipped."""
    return tuple(sorted(path for package in PACKAGES for path in package.rglob("*.py")))


def module_name(path: Path) -> str:
    """The dotted name of a shipped file."""
    package = next(package for package in PACKAGES if path.is_relative_to(package))
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def shipped_modules() -> tuple[str, ...]:
    """The dotted name of every module that is shipped; Alembic's ``env.py`` are scripts that only Alembic can run."""
    return tuple(module_name(path) for path in shipped_files() if not path.match("migrations/*/env.py"))


def source_path() -> str:
    """A ``PYTHONPATH`` on which the packages of this checkout come first, installed or not."""
    return os.pathsep.join(str(folder) for folder in (ROOT, *(package.parent for package in PACKAGES[1:])))


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every import in a file, wherever it stands: in functions and under ``TYPE_CHECKING`` too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{relative(path)}:{node.lineno} is a relative import"
            assert node.module is not None
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def is_within(name: str, package: str) -> bool:
    """Whether a dotted name is the package or inside it."""
    return name == package or name.startswith(package + ".")


def headings(document: str) -> dict[str, str]:
    """The sections of a reference page whose heading is one code span: heading → text up to the next heading of any kind."""
    found: dict[str, str] = {}
    title: str | None = None
    fenced = False
    for line in (REFERENCE / document).read_text(encoding="utf-8").splitlines():
        fenced ^= line.startswith("```")
        if not fenced and line.startswith("#"):
            match = re.fullmatch(r"#{2,4} `([^`]+)`", line)
            title = match[1] if match else None
            if title is not None:
                assert title not in found, f"{document} has two sections {title}"
                found[title] = ""
        elif title is not None:
            found[title] += line + "\n"
    return found


def table_words(document: str, section: str) -> list[str]:
    """The code words in the first column of the table under a heading (``## section``)."""
    text = (REFERENCE / document).read_text(encoding="utf-8")
    match = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, f"{document} has no section {section!r}"
    return re.findall(r"^\| `([^`]+)`", match[1], re.MULTILINE)
