"""What is known of each plugin after a start: values, for the report and for the messages that refuse a job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["PluginRecord", "PluginState", "canonical"]


class PluginState(StrEnum):
    """``FAILED``: its code raised or answered nonsense. ``INCOMPATIBLE``: written for another API number."""

    LOADED = "loaded"
    DISABLED = "disabled"
    FAILED = "failed"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRecord:
    """One entry point of the group ``cronpad``. ``reason`` says why it is not loaded; ``notes`` what is odd although it is.

    ``types`` are the (kind, name) pairs that it brought, or was about to bring when it failed.
    """

    name: str
    state: PluginState
    distribution: str
    version: str
    entry_point: str
    load_ms: float = 0.0
    reason: str = ""
    notes: tuple[str, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    api: int | None = None

    def goes_by(self, name: str) -> bool:
        """Whether ``name`` is this plugin's: its entry point's or its distribution's, with or without ``cronpad-``."""
        given = canonical(name)
        own = canonical(self.distribution)
        return given in (canonical(self.name), own, own.removeprefix("cronpad-"))


def canonical(name: str) -> str:
    """The name as package indexes compare it: lower case, with one dash for any run of ``-``, ``_`` and ``.``."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
