"""Trying an alert out: sent at once, past the outbox, and answered for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from cronpad_core.config.problems import did_you_mean
from cronpad_core.config.secrets import resolve_secret
from cronpad_core.domain.alerts import AlertKind, AlertSpec
from cronpad_core.domain.errors import NotFoundError
from cronpad_core.domain.ids import alert_id_for
from cronpad_core.domain.timing import Millis
from cronpad_core.engine.alerts import send_within
from cronpad_core.host.emitters import EmitterPool
from cronpad_core.host.registry import Registry
from cronpad_core.ports.alerts import Alert, Emitters

__all__ = ["send_from_here", "send_test"]


async def send_test(emitters: Emitters, declared: Mapping[str, AlertSpec], name: str, *, now_ms: Millis) -> str | None:
    """Sends a test by a declared alert: ``None`` where it went, else why not. Raises ``NotFoundError``."""
    if name not in declared:
        there = ", ".join(sorted(declared)) or "none"
        raise NotFoundError(f'no alert "{name}" is declared', hint=did_you_mean(name, declared) or f"there are: {there}")
    kind = AlertKind.TEST.value
    alert = Alert(
        id=alert_id_for(name, kind, "", str(now_ms)),
        kind=kind,
        job_name="",
        run_id=None,
        at_ms=now_ms,
        text=f'this is a test of the alert "{name}" of cronpad',
        facts={},
        name=name,
    )
    return await send_within(emitters, name, alert)


async def send_from_here(
    registry: Registry, declared: Mapping[str, AlertSpec], name: str, *, environ: Mapping[str, str], now_ms: Millis
) -> str | None:
    """As :func:`send_test`, by emitters of this process's own."""
    pool = EmitterPool(registry, secret=partial(resolve_secret, environ=environ))
    pool.replace(declared)
    try:
        return await send_test(pool, declared, name, now_ms=now_ms)
    finally:
        pool.close()
