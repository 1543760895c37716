"""The one place that chooses what starts the commands on this machine."""

from __future__ import annotations

from cronpad_command.spawn import AsyncioSpawner
from cronpad_core.api import Spawner

__all__ = ["default_spawner"]


def default_spawner() -> Spawner:
    """Processes started by the runner itself, watched on its event loop."""
    return AsyncioSpawner()
