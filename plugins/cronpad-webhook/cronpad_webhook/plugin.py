"""What this distribution registers with cronpad."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_core.api import AlertEmitter, Sink, hookimpl
from cronpad_webhook.emitter import WebhookEmitter
from cronpad_webhook.sink import WebhookSink

__all__ = ["cronpad_register_alert_emitters", "cronpad_register_sinks"]


@hookimpl
def cronpad_register_sinks() -> Sequence[type[Sink]]:
    """One sink type, ``webhook``."""
    return [WebhookSink]


@hookimpl
def cronpad_register_alert_emitters() -> Sequence[type[AlertEmitter]]:
    """One emitter type, ``webhook``."""
    return [WebhookEmitter]
