"""What the core itself brings, as any plugin would: entry point ``builtin`` of cronpad-core."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_core.api import AlertEmitter, MisfirePolicy, Storage, hookimpl
from cronpad_core.builtin.log_alerts import LogEmitter
from cronpad_core.builtin.memory import MemoryStorage
from cronpad_core.builtin.misfire import All, Earliest, Latest, Skip

__all__ = ["cronpad_register_alert_emitters", "cronpad_register_misfire_policies", "cronpad_register_storage"]


@hookimpl
def cronpad_register_misfire_policies() -> Sequence[type[MisfirePolicy]]:
    """The four ways of dealing with missed slots."""
    return (Latest, Earliest, All, Skip)


@hookimpl
def cronpad_register_alert_emitters() -> Sequence[type[AlertEmitter]]:
    """A line in the log."""
    return (LogEmitter,)


@hookimpl
def cronpad_register_storage() -> Sequence[type[Storage]]:
    """State in memory, for ``memory:`` URLs."""
    return (MemoryStorage,)
