"""Hooks that would silently never be called: a name that is no hook, a missing mark, an ``async def``, a wrapper."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from difflib import get_close_matches

from cronpad_core.hookspecs import HOOK_NAMESPACE

__all__ = ["hook_notes", "uncallable", "unknown_hook_note"]

_MARK = f"{HOOK_NAMESPACE}_impl"


def hook_notes(plugin: object, specs: Collection[str]) -> Iterator[str]:
    """One sentence for each function of the plugin that is named like a hook but carries no mark."""
    own = getattr(plugin, "__name__", None) if inspect.ismodule(plugin) else None
    for name in dir(plugin):
        if not name.startswith(f"{HOOK_NAMESPACE}_"):
            continue
        found = inspect.getattr_static(plugin, name, None)
        found = getattr(found, "__func__", found)
        if not inspect.isroutine(found) or hasattr(found, _MARK):
            continue
        if name in specs:
            yield f"function {name} has no @hookimpl, so it is never called"
        # Something imported from elsewhere that happens to be named so is no attempt at a hook.
        elif own is None or getattr(found, "__module__", own) == own:
            yield unknown_hook_note(name, specs)


def unknown_hook_note(name: str, specs: Collection[str]) -> str:
    """Says that there is no such hook, and which one was probably meant."""
    near = get_close_matches(name, sorted(specs), n=1, cutoff=0.6)
    return f"there is no hook {name}, so it is never called" + (f"; did you mean {near[0]}?" if near else "")


def uncallable(function: object) -> str | None:
    """Why a hook cannot simply be called, or ``None`` where it can."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "is 'async def', which cronpad does not call; write a plain function"
    marks = getattr(function, _MARK, None) or {}
    if marks.get("wrapper") or marks.get("hookwrapper"):
        return "is a wrapper; cronpad asks each plugin alone, so there is nothing to wrap"
    return None
