"""faults.md has a row for each fault of the design, and every test that a row names is there."""

from __future__ import annotations

import ast
import re
from functools import cache

import house

ROWS = {*range(1, 93), *range(106, 112)}
WITHOUT = re.compile(r"later: needs PostgreSQL")
DOORS = {
    "plugins/cronpad-sql/cronpad_sql/files.py": "makes an empty file, which no connection has yet",
    "plugins/cronpad-sql/cronpad_sql/migrate.py": "syncs a copy that is finished, and that no connection has",
    "plugins/cronpad-sql/cronpad_sql/copies.py": "the same",
}
"""Shipped files that open a database file by other means than SQLite, and why that is sound."""


def _rows() -> dict[str, str]:
    """Row → its last cell."""
    text = (house.REFERENCE / "faults.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\d–]+)` \|(?:[^|\n]+\|){2}([^|\n]+)\|$", text, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| `", text, re.MULTILINE)), "a row is not of four cells"
    assert len({row for row, _ in rows}) == len(rows)
    return {row: proof.strip() for row, proof in rows}


@cache
def _tests(name: str) -> frozenset[str]:
    """The tests of a file, those of classes included."""
    found = ast.walk(house.parsed(house.ROOT / name))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in found if isinstance(node, kinds) and node.name.startswith("test_"))


def test_every_fault_has_a_row() -> None:
    """Rows 1 to 92 and 106 to 111 are there, one each."""
    assert {int(row) for row in _rows() if row.isdigit()} == ROWS


def test_every_row_names_tests_that_exist() -> None:
    """A row names its tests as ``path::name``, or says what it waits for."""
    wrong = []
    for row, proof in _rows().items():
        named = re.findall(r"`([^`]+)`", proof)
        if not named and not WITHOUT.fullmatch(proof):
            wrong.append(f"{row}: {proof}")
        for one in named:
            path, _, name = one.partition("::")
            if not (house.ROOT / path).is_file() or name not in _tests(path):
                wrong.append(f"{row}: {one}")
    assert wrong == []


def test_nothing_shipped_opens_a_database_but_sqlite() -> None:
    """The package of the SQLite files opens none by other means: closing such a descriptor would drop SQLite's locks."""
    calls = {"open", "read_bytes", "write_bytes", "read_text", "write_text", "copyfile", "copy", "copy2", "copytree"}
    found = set()
    for path in house.shipped_files():
        if not path.is_relative_to(house.ROOT / "plugins" / "cronpad-sql"):
            continue
        for node in ast.walk(house.parsed(path)):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
                if name in calls and owner in ("", "os", "io", "shutil", "path", "Path"):
                    found.add(f"{house.relative(path)}:{node.lineno} {ast.unparse(node)[:60]}")
    assert {one for one in found if one.partition(":")[0] not in DOORS} == set()
