"""Floor 5: the host of plugins. pluggy lives here; what leaves this room is plain objects by name."""

from __future__ import annotations

from cronpad_core.host.loader import PluginHost, load_plugins
from cronpad_core.host.records import PluginRecord, PluginState
from cronpad_core.host.registry import Registry
from cronpad_core.host.sinks import SinkPool

__all__ = ["PluginHost", "PluginRecord", "PluginState", "Registry", "SinkPool", "load_plugins"]
