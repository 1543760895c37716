"""What this distribution registers with cronpad."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_core.api import Sink, hookimpl
from cronpad_webhook.sink import WebhookSink

__all__ = ["cronpad_register_sinks"]


@hookimpl
def cronpad_register_sinks() -> Sequence[type[Sink]]:
    """One sink type, ``webhook``."""
    return [WebhookSink]
