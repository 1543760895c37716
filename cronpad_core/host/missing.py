"""What to say when a type is asked for that no plugin brought: what is there, what was meant, which package has it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

__all__ = ["PACKAGES", "install_hint", "missing_hint", "missing_packages", "unknown_message"]

PACKAGES: Mapping[str, Mapping[str, str]] = {
    "sink": {"command": "cronpad-command", "python": "cronpad-python", "webhook": "cronpad-webhook"},
    "misfire policy": {},
    "alert emitter": {"apprise": "cronpad-apprise", "command": "cronpad-command", "webhook": "cronpad-webhook"},
    "storage": {"sqlite": "cronpad-sql"},
}
"""By kind and type name: the distribution that brings it. Names only; nothing here is ever imported."""


_OPTIONAL = frozenset({"cronpad-apprise", "cronpad-python", "cronpad-webhook"})
"""Packages that nobody misses who did not ask for them."""


def unknown_message(kind: str, name: str, known: Iterable[str], broken: str | None) -> str:
    """One sentence that names what is missing and what is known, or why the plugin that has it is of no use."""
    if broken is not None:
        return f"{kind} '{name}' cannot be used: {broken}"
    names = ", ".join(sorted(known))
    return f"unknown {kind} '{name}'; " + (f"known: {names}" if names else f"no plugin that brings a {kind} is installed")


def missing_packages(present: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """Which of cronpad's own packages brought nothing, given the kinds and names of all types that are there."""
    missing = {package for kind, names in PACKAGES.items() for name, package in names.items() if (kind, name) not in present}
    return tuple(sorted(missing - _OPTIONAL))


def install_hint(kind: str, name: str) -> str | None:
    """The command that installs what brings a type of cronpad's own packages, from an index and from a checkout."""
    package = PACKAGES.get(kind, {}).get(name)
    if package is None:
        return None
    return f"pip install {package} (in a checkout, where 'pip install .' is the core alone: pip install ./plugins/{package})"


def missing_hint(kind: str, name: str, known: Iterable[str], broken: str | None) -> str:
    """What to do about it: the package to install, or the name that was meant."""
    if broken is not None:
        return "see 'cronpad plugin list'"
    install = install_hint(kind, name)
    if install is not None:
        return install
    names = list(known)
    near = get_close_matches(name, [*names, *PACKAGES.get(kind, {})], n=1, cutoff=0.6)
    if near:
        install = install_hint(kind, near[0]) if near[0] not in names else None
        return f"did you mean '{near[0]}'?" + (f" {install}" if install else "")
    if not names and kind == "misfire policy":
        return "the core's own entry point is missing: install cronpad-core (in a checkout: pip install .)"
    return "install the plugin that brings it; 'cronpad plugin list' shows what is there"
