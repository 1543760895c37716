"""The one place that chooses what starts the commands on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from cronpad_command.spawn import AsyncioSpawner
from cronpad_core.api import Spawner

__all__ = ["Closing", "default_spawner"]


@runtime_checkable
class Closing(Protocol):
    """A spawner that keeps something between two starts."""

    async def close(self) -> None:
        """Lets go of it, at the end of the runner."""


def default_spawner(environ: Mapping[str, str]) -> Spawner:
    """Processes started by the runner itself, watched on its event loop."""
    return AsyncioSpawner()
