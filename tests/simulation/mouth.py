"""The emitters of the simulated machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronpad_core.ports.alerts import Alert

if TYPE_CHECKING:
    from world import Process

__all__ = ["Mouth", "fine"]


class Mouth:
    """The emitters: each call is kept by the world, and does what its script says."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def emit(self, name: str, alert: Alert) -> None:
        world = self._process.world
        await self._process.pace()
        number = sum(1 for _, _, there in world.said if there.id == alert.id)
        world.said.append((world.clock.boot_ms(), self._process.name, alert))
        await world.emitting(name, alert, number)
        await self._process.pace()


async def fine(name: str, alert: Alert, number: int) -> None:
    """An emitter that works."""
