"""The hooks of this plugin."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_core.api import Sink, hookimpl
from cronpad_hello.sink import HelloSink


@hookimpl
def cronpad_register_sinks() -> Sequence[type[Sink]]:
    """One sink: ``hello``."""
    return [HelloSink]
