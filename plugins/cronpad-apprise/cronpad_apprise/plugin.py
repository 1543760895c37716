"""What this distribution registers with cronpad."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_apprise.emitter import AppriseEmitter
from cronpad_core.api import AlertEmitter, hookimpl

__all__ = ["cronpad_register_alert_emitters"]


@hookimpl
def cronpad_register_alert_emitters() -> Sequence[type[AlertEmitter]]:
    """One alert emitter, ``apprise``."""
    return [AppriseEmitter]
