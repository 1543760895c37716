"""What this distribution registers with cronpad."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_core.api import Sink, hookimpl
from cronpad_python.sink import PythonSink

__all__ = ["cronpad_register_sinks"]


@hookimpl
def cronpad_register_sinks() -> Sequence[type[Sink]]:
    """One sink type, ``python``."""
    return [PythonSink]
