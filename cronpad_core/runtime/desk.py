"""The desk of control operations over a running engine."""

from __future__ import annotations

from cronpad_core.control.desk import Desk
from cronpad_core.runtime.compose import Engine

__all__ = ["desk_of"]


def desk_of(engine: Engine) -> Desk:
    """A desk whose writes count under the engine's term, and whose words reach its deliveries."""
    authority, parts = engine.authority, engine.parts
    return Desk(
        catalog=engine.catalog,
        history=parts.storage.history,
        queue=parts.storage.queue,
        schedules=parts.schedules,
        clock=parts.clock,
        term=lambda: authority.term if authority.trusted() else None,
        wake=engine.wake.offer,
        tell=engine.holdings.tell,
        emit=parts.emit,
    )
