"""The host's sinks as the worker asks for them."""

from __future__ import annotations

from collections.abc import Hashable

from cronpad_core.domain.outcome import Outcome
from cronpad_core.host.registry import Registry
from cronpad_core.host.sinks import SinkPool
from cronpad_core.ports.sink import Delivery

__all__ = ["GRACEFUL", "HostSinks"]

GRACEFUL = "graceful"


class HostSinks:
    """Fulfils :class:`cronpad_core.engine.worker.Sinks` over the registry and its pool."""

    def __init__(self, registry: Registry, pool: SinkPool) -> None:
        self._registry = registry
        self._pool = pool

    def available(self, sink_type: str) -> bool:
        """Whether there is such a sink."""
        return self._registry.has_sink(sink_type)

    def graceful(self, sink_type: str) -> bool:
        """Whether that sink keeps its deadline and its cancel signal itself."""
        return self._registry.has_sink(sink_type) and GRACEFUL in self._registry.sink(sink_type).capabilities

    async def deliver(self, sink_type: str, settings_key: Hashable, delivery: Delivery) -> Outcome:
        """Hands a delivery over; its ``settings`` are the job's own, as stored."""
        settings = delivery.settings if isinstance(delivery.settings, dict) else {}
        return await self._pool.deliver(sink_type, settings_key, settings, delivery)
