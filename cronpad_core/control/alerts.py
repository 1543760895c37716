"""Alerts that wait or were sent, and putting them off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cronpad_core.control.desk import Desk
from cronpad_core.control.queries import all_jobs
from cronpad_core.domain.errors import ConfigurationError, NotFoundError
from cronpad_core.domain.outbox import AlertChannel, AlertEntry, AlertStatus
from cronpad_core.domain.timing import DAY, Millis
from cronpad_core.ports.catalog import CatalogStore
from cronpad_core.ports.history import HistoryStore

__all__ = ["AlertsView", "list_alerts", "snooze"]

_LONGEST_SNOOZE: Final = 366 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsView:
    """Entries of the outbox, newest first, and how each alert fares."""

    entries: tuple[AlertEntry, ...]
    channels: tuple[AlertChannel, ...]


async def list_alerts(
    history: HistoryStore, *, name: str | None = None, statuses: Sequence[AlertStatus] = (), limit: int = 50
) -> AlertsView:
    """What waits, what was sent, what could not be."""
    entries = await history.alerts(name=name, statuses=statuses, limit=limit)
    channels = [one for one in await history.alert_channels() if name is None or one.name == name]
    return AlertsView(entries=tuple(entries), channels=tuple(channels))


async def snooze(desk: Desk, name: str, *, for_ms: Millis) -> AlertChannel:
    """Puts an alert off for that long from now; 0 ends it. What happens meanwhile is told together afterwards.

    Raises ``NotFoundError`` where no stored job names the alert, ``ConfigurationError``, ``TermRefusedError`` and ``StoreError``.
    """
    term, now_ms = desk.require_term(), desk.now_ms()
    if for_ms > _LONGEST_SNOOZE:
        raise ConfigurationError("an alert can be snoozed for a year at most", hint="leave it out of the jobs file instead")
    await _known(desk.catalog, desk.history, name)
    until_ms = now_ms + for_ms if for_ms else 0
    return await desk.history.snooze_alert(name, until_ms=until_ms, now_ms=now_ms, term=term)


async def _known(catalog: CatalogStore, history: HistoryStore, name: str) -> None:
    known = {alert for job in await all_jobs(catalog) for alert in job.spec.alerts}
    known |= {channel.name for channel in await history.alert_channels()}
    if name not in known:
        there = ", ".join(sorted(known)[:20]) or "no alert yet"
        raise NotFoundError(f'no job of this state names an alert "{name}"', hint=f"there is {there}")
