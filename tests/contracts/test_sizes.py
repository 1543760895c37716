"""How large things may grow: growing past a limit is a line in a table here, with its reason, and so a reviewed line."""

from __future__ import annotations

import ast
from pathlib import Path

import house

FILE_LINES = 400
FUNCTION_LINES = 60
PLUGIN_LINES = 40

LARGER_FILES: dict[str, tuple[int, str]] = {}
"""File → (its own limit, why)."""

LARGER_FUNCTIONS: dict[str, tuple[int, str]] = {}
"""``file::function`` → (its own limit, why)."""


def _files() -> list[Path]:
    return [path for path in house.tracked_files() if path.suffix == ".py"]


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _too_large(sizes: dict[str, int], limit: int, exceptions: dict[str, tuple[int, str]]) -> dict[str, int]:
    """What is larger than it may be; and, as 0, exceptions that are no longer needed."""
    unneeded = {name: 0 for name in exceptions if sizes.get(name, 0) <= limit}
    return {name: size for name, size in sizes.items() if size > exceptions.get(name, (limit, ""))[0]} | unneeded


def _functions() -> dict[str, int]:
    sizes: dict[str, int] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}" if name[-1] != ":" else f"{name}{child.name}"
                if not isinstance(child, ast.ClassDef):
                    assert child.end_lineno is not None
                    sizes[inner] = child.end_lineno - child.lineno + 1
                visit(child, inner)
            else:
                visit(child, name)

    for path in _files():
        visit(house.parsed(path), f"{house.relative(path)}::")
    return sizes


def test_files_are_small() -> None:
    """No Python file has more than 400 lines; about 250 is the aim."""
    assert _too_large({house.relative(path): _lines(path) for path in _files()}, FILE_LINES, LARGER_FILES) == {}


def test_functions_are_small() -> None:
    """No function has more than 60 lines, its docstring included."""
    assert _too_large(_functions(), FUNCTION_LINES, LARGER_FUNCTIONS) == {}


def test_plugin_modules_hold_hooks_alone() -> None:
    """A ``plugin.py`` has at most 40 lines: hook implementations, and nothing else."""
    homes = {house.PACKAGES[0] / "builtin", *house.PACKAGES[1:]}
    sizes = {house.relative(home / "plugin.py"): _lines(home / "plugin.py") for home in homes if (home / "plugin.py").is_file()}
    assert _too_large(sizes, PLUGIN_LINES, {}) == {}
