"""The doors: every name that they offer is explained."""

from __future__ import annotations

import ast
import importlib
import inspect
from functools import cache
from itertools import pairwise

import house
import pytest

DOORS = ["cronpad_core.api", "cronpad_core.app"]


@cache
def _explained_values() -> frozenset[str]:
    """Names of the core that are assigned at module level and followed by a string, which is their docstring."""
    names = set()
    for path in house.PACKAGES[0].rglob("*.py"):
        body = house.parsed(path).body
        for node, after in pairwise(body):
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
                targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                flat = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
                names |= {part.id for part in flat if isinstance(part, ast.Name)}
    return frozenset(names)


@pytest.mark.parametrize("door", DOORS)
def test_public_names_exist(door: str) -> None:
    """``__all__`` names what is there, each name once."""
    module = importlib.import_module(door)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert len(module.__all__) == len(set(module.__all__))


@pytest.mark.parametrize("door", DOORS)
def test_public_names_have_docstrings(door: str) -> None:
    """Each class and function has a docstring of its own; each value a string behind its assignment."""
    module = importlib.import_module(door)
    silent = []
    for name in module.__all__:
        value = getattr(module, name)
        if (inspect.isclass(value) and value.__name__ == name) or inspect.isroutine(value):
            text = value.__doc__ or ""
            explained = bool(text) and not text.startswith(f"{value.__name__}(")
        else:
            explained = name in _explained_values()
        if not explained:
            silent.append(name)
    assert silent == []


@pytest.mark.parametrize("door", DOORS)
def test_public_methods_have_docstrings(door: str) -> None:
    """Each public method and property of a class behind a door says what it does."""
    module = importlib.import_module(door)
    silent = []
    for name in module.__all__:
        value = getattr(module, name)
        if not inspect.isclass(value) or not value.__module__.startswith("cronpad_core"):
            continue
        for attribute, member in vars(value).items():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if attribute.startswith("_") or not inspect.isfunction(function):
                continue
            if not function.__doc__:
                silent.append(f"{name}.{attribute}")
    assert silent == []
