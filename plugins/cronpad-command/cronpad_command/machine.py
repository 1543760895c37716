"""The one place that chooses what starts the commands on this machine."""

from __future__ import annotations

import sys
from typing import Protocol, runtime_checkable

from cronpad_command.host_settings import host_settings
from cronpad_command.nursery_spawner import NurserySpawner
from cronpad_command.spawn import AsyncioSpawner
from cronpad_core.api import SinkContext, Spawner

__all__ = ["Closing", "default_spawner"]


@runtime_checkable
class Closing(Protocol):
    """A spawner that keeps something between two starts."""

    async def close(self) -> None:
        """Lets go of it, at the end of the runner."""


def default_spawner(context: SinkContext) -> Spawner:
    """A nursery on Linux, unless the settings refuse it; elsewhere the runner starts processes itself.

    Raises ``PluginError`` where ``[plugins.command]`` has a mistake.
    """
    if host_settings(context.settings).nursery and sys.platform.startswith("linux"):
        return NurserySpawner(state=context.state, environ=context.environ)
    return AsyncioSpawner()
