"""What this sink asks of a spawner beyond the port."""

from __future__ import annotations

from dataclasses import dataclass

from cronpad_core.api import Child, Millis, SpawnRequest

__all__ = ["DEFAULT_LINGER_MS", "LingeringRequest", "leader_has_ended"]

DEFAULT_LINGER_MS: Millis = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LingeringRequest(SpawnRequest):
    """A request that also says how long output is read on after the leader's end; a spawner may ignore it."""

    linger_ms: Millis = DEFAULT_LINGER_MS


def leader_has_ended(child: Child) -> bool:
    """Whether the child says that its leader is gone, so that ``wait`` only lingers; ``False`` from one that does not say."""
    return bool(getattr(child, "leader_ended", False))
