"""Telling somebody: the protocol of an alert emitter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cronpad_core.domain.timing import JsonValue, Millis

__all__ = ["Alert", "AlertEmitter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One thing to tell. ``id`` is the same however often it is sent; ``kind`` such as ``run_failed``; ``text`` for a person."""

    id: str
    kind: str
    job_name: str
    run_id: str | None
    at_ms: Millis
    text: str
    facts: Mapping[str, JsonValue]


class AlertEmitter(Protocol):
    """Sends alerts.

    An emitter's class also has ``name``, ``api = 1`` and ``Settings`` (a pydantic model); it is built with validated settings.

    A1. Returning means that it was sent; raising means that it was not, and it will be tried again.
    """

    async def emit(self, alert: Alert) -> None:
        """Sends one alert, or raises."""
