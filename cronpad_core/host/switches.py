"""The switches over plugins in the environment; they work without any configuration file, and with a broken one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from cronpad_core.host.records import PluginRecord, canonical

__all__ = ["Switches"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """Which plugins are wanted. ``only`` is ``None`` where all are; names are a plugin's or its distribution's."""

    disabled: frozenset[str]
    only: frozenset[str] | None
    strict: bool
    disabled_all: bool
    builtin: bool

    @classmethod
    def read(cls, environ: Mapping[str, str], *, disabled_all: bool, builtin: bool) -> Switches:
        """Reads ``CRONPAD_PLUGINS_DISABLED``, ``CRONPAD_PLUGINS_ONLY`` and ``CRONPAD_STRICT_PLUGINS``."""
        return cls(
            disabled=_names(environ.get("CRONPAD_PLUGINS_DISABLED", "")),
            only=_names(environ["CRONPAD_PLUGINS_ONLY"]) if "CRONPAD_PLUGINS_ONLY" in environ else None,
            strict=environ.get("CRONPAD_STRICT_PLUGINS", "").strip().lower() in ("1", "true", "yes", "on"),
            disabled_all=disabled_all,
            builtin=builtin,
        )

    def why_off(self, name: str, distribution: str, *, builtin: bool) -> str | None:
        """Why this plugin is not to be loaded, or ``None``."""
        names = _names_of(name, distribution)
        if names & self.disabled:
            return "named in CRONPAD_PLUGINS_DISABLED"
        if builtin:
            return None if self.builtin else "left out by the program"
        if self.disabled_all:
            return "--no-plugins"
        if self.only is not None and not names & self.only:
            return "not named in CRONPAD_PLUGINS_ONLY"
        return None

    def unmatched(self, plugins: Iterable[PluginRecord]) -> tuple[str, ...]:
        """One line for each name in a switch that no installed plugin goes by."""
        known = {name for one in plugins for name in _names_of(one.name, one.distribution)}
        lines: list[str] = []
        for variable, names in (("CRONPAD_PLUGINS_DISABLED", self.disabled), ("CRONPAD_PLUGINS_ONLY", self.only or frozenset())):
            for name in sorted(names - known):
                near = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
                meant = f"; did you mean '{near[0]}'?" if near else ""
                lines.append(f"{variable} names '{name}', which is no installed plugin{meant}")
        return tuple(lines)


def _names(text: str) -> frozenset[str]:
    return frozenset(canonical(name) for name in text.split(",") if name.strip())


def _names_of(name: str, distribution: str) -> frozenset[str]:
    own = canonical(distribution)
    return frozenset((canonical(name), own, own.removeprefix("cronpad-")))
