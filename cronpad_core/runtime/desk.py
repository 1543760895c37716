"""The desk of control operations over a running engine."""

from __future__ import annotations

from cronpad_core.control.desk import Desk
from cronpad_core.runtime.compose import Engine

__all__ = ["desk_of"]


def desk_of(engine: Engine) -> Desk:
    """A desk whose writes count under the engine's term, and whose words reach its deliveries."""
    return engine.desk
