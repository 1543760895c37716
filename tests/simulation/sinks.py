"""Sinks that do what a scenario says, and the witness who saw every delivery."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cronpad_core.domain.occurrence import Occurrence, RunKey
from cronpad_core.domain.outcome import Cancelled, Delivered, Outcome, TimedOut
from cronpad_core.ports.sink import Delivery

if TYPE_CHECKING:
    from world import Process

__all__ = ["Act", "ScriptedSinks", "Sent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a sink does with a delivery. ``swallows``: it does not stop when it is cancelled."""

    for_ms: int = 0
    outcome: Outcome = field(default_factory=Delivered)
    swallows: bool = False
    error: BaseException | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One delivery as the witness saw it."""

    boot_ms: int
    wall_ms: int
    process: str
    key: RunKey
    delivery: Delivery

    @property
    def late_ms(self) -> int:
        """How long after its scheduled time it was sent."""
        return self.wall_ms - self.key.scheduled_at_ms


class ScriptedSinks:
    """Hands deliveries to the world's script and tells the witness."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def available(self, sink_type: str) -> bool:
        return sink_type in ("script", "graceful")

    def graceful(self, sink_type: str) -> bool:
        return sink_type == "graceful"

    async def deliver(self, sink_type: str, settings_key: object, delivery: Delivery) -> Outcome:
        process, world = self._process, self._process.world
        await process.pace()
        key = Occurrence.parse(delivery.occurrence).key
        sent = Sent(
            boot_ms=world.clock.boot_ms(), wall_ms=world.clock.wall_ms(), process=process.name, key=key, delivery=delivery
        )
        world.witness.append(sent)
        world.note(process.name, "delivers", delivery.occurrence)
        if process.at_delivery is not None:
            await process.at_delivery(sent)
        act = world.script(delivery)
        # One that does not stop when told to is abandoned, and nobody can say that it ended.
        process.delivering[key] = process.delivering.get(key, 0) + (not act.swallows)
        world.overlaps(process, delivery)
        try:
            if sink_type == "graceful":
                return await self._wait_gracefully(act, delivery)
            await self._wait(act)
        finally:
            process.delivering[key] -= not act.swallows
        await process.pace()
        if act.error is not None:
            raise act.error
        return act.outcome

    async def _wait_gracefully(self, act: Act, delivery: Delivery) -> Outcome:
        """As a command: keeps its own deadline, and ends when its cancel signal says so."""
        asked = asyncio.ensure_future(delivery.cancel.wait())
        await asyncio.wait({asked}, timeout=min(act.for_ms, delivery.timeout_ms) / 1_000)
        told = asked.done()
        asked.cancel()
        await self._process.pace()
        if told:
            return Cancelled(reason=delivery.cancel.reason)
        return TimedOut(reason="its time was up") if act.for_ms > delivery.timeout_ms else act.outcome

    async def _wait(self, act: Act) -> None:
        boot, end = self._process.world.clock.boot_ms, self._process.world.clock.boot_ms() + act.for_ms
        while self._process.alive and boot() < end:
            try:
                await asyncio.sleep((end - boot()) / 1_000)
            except asyncio.CancelledError:
                if not act.swallows or not self._process.alive:
                    raise
