"""What this distribution registers with cronpad."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_command.emitter import CommandEmitter
from cronpad_command.sink import CommandSink
from cronpad_core.api import AlertEmitter, Sink, hookimpl

__all__ = ["cronpad_register_alert_emitters", "cronpad_register_sinks"]


@hookimpl
def cronpad_register_sinks() -> Sequence[type[Sink]]:
    """One sink type, ``command``."""
    return [CommandSink]


@hookimpl
def cronpad_register_alert_emitters() -> Sequence[type[AlertEmitter]]:
    """One alert emitter, ``command``."""
    return [CommandEmitter]
