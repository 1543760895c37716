"""What this distribution registers with cronpad."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_command.sink import CommandSink
from cronpad_core.api import Sink, hookimpl

__all__ = ["cronpad_register_sinks"]


@hookimpl
def cronpad_register_sinks() -> Sequence[type[Sink]]:
    """One sink type, ``command``."""
    return [CommandSink]
