"""The installed entry points of cronpad's group, read so that one damaged distribution hides no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Final

from cronpad_core.hookspecs import ENTRY_POINT_GROUP
from cronpad_core.host.records import canonical

__all__ = ["Entry", "entry_of", "find_entries"]

_BUILTIN: Final = "cronpad_core.builtin.plugin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry point with what its distribution says of itself; ``load`` imports what it names."""

    name: str
    value: str
    distribution: str
    version: str
    load: Callable[[], object]

    @property
    def builtin(self) -> bool:
        """Whether it is the core's own plugin, told by the code that it names, not by what it calls itself."""
        return self.value == _BUILTIN


def find_entries() -> tuple[list[Entry], list[str]]:
    """The entry points, the core's own first and then by name; and one line for each distribution that cannot be read."""
    found: dict[tuple[str, str], Entry] = {}
    notes: list[str] = []
    for distribution in distributions():
        try:
            points = [one for one in distribution.entry_points if one.group == ENTRY_POINT_GROUP]
        except Exception as error:  # importlib.metadata promises no kind of error for damaged files
            notes.append(f"the entry points of {_name(distribution)} cannot be read: {type(error).__name__}: {error}")
            continue
        for point in points:
            entry = entry_of(point, _name(distribution), _version(distribution))
            # One distribution may be found twice on the path; the first is the one that Python imports.
            found.setdefault((canonical(entry.distribution), entry.name), entry)
    ordered = sorted(found.values(), key=lambda one: (not one.builtin, one.name, one.distribution))
    return ordered, notes


def entry_of(point: EntryPoint, distribution: str, version: str) -> Entry:
    """The entry of an entry point."""
    return Entry(name=point.name, value=point.value, distribution=distribution, version=version, load=point.load)


def _name(distribution: Distribution) -> str:
    try:
        return distribution.name or "(unknown distribution)"
    except Exception:  # as above
        return "(unknown distribution)"


def _version(distribution: Distribution) -> str:
    try:
        return distribution.version or "?"
    except Exception:  # as above
        return "?"
