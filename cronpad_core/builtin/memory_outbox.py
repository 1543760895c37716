"""The part of history in memory that holds alerts: what was told of each job, and what waits to be sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice

from cronpad_core.api import (
    HOUR,
    MOST_PENDING,
    AlertBrief,
    AlertCase,
    AlertChannel,
    AlertEntry,
    AlertReport,
    AlertState,
    AlertStatus,
    Millis,
    settle_alert,
    snooze_alert,
    tell_alerts,
)
from cronpad_core.builtin.memory_catalog import TermCell

__all__ = ["AlertData", "MemoryOutbox"]


@dataclass(slots=True)
class AlertData:
    """The rows of alerts; ``entries`` in the order in which they came, ``taken`` the term under which each was taken.

    ``pending`` are those that wait, in that order too; ``gatherers`` the newest entry of each alert that was to gather.
    """

    states: dict[tuple[str, str], AlertState] = field(default_factory=dict)
    channels: dict[str, AlertChannel] = field(default_factory=dict)
    entries: dict[str, AlertEntry] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    pending: dict[str, AlertEntry] = field(default_factory=dict)
    gatherers: dict[str, str] = field(default_factory=dict)

    def state(self, job_id: str, name: str) -> AlertState | None:
        """What an alert knows of a job."""
        return self.states.get((job_id, name))

    def keep_state(self, state: AlertState) -> None:
        """Stores it."""
        self.states[state.job_id, state.name] = state

    def channel(self, name: str) -> AlertChannel:
        """How an alert fares."""
        return self.channels.get(name) or AlertChannel(name=name)

    def keep_channel(self, channel: AlertChannel) -> None:
        """Stores it."""
        self.channels[channel.name] = channel

    def entry(self, entry_id: str) -> AlertEntry | None:
        """One entry."""
        return self.entries.get(entry_id)

    def keep_entry(self, entry: AlertEntry) -> None:
        """Inserts it as the newest, or changes it in its place."""
        self.entries[entry.id] = entry
        self.taken.pop(entry.id, None)
        if entry.status is AlertStatus.PENDING:
            self.pending[entry.id] = entry
        else:
            self.pending.pop(entry.id, None)
        if entry.gathering:
            self.gatherers[entry.name] = entry.id

    def remove_entry(self, entry_id: str) -> None:
        """Removes it."""
        for rows in (self.entries, self.taken, self.pending):
            rows.pop(entry_id, None)

    def gathering(self, name: str) -> AlertEntry | None:
        """The newest entry of an alert that still gathers and that nobody has taken."""
        found = self.pending.get(self.gatherers.get(name, ""))
        return found if found is not None and found.gathering and found.id not in self.taken else None

    def count_waiting(self) -> int:
        """How many entries are pending, up to one more than may be."""
        return min(len(self.pending), MOST_PENDING + 1)

    def waiting_briefs(self) -> Sequence[AlertBrief]:
        """All pending entries, the oldest first."""
        return [AlertBrief(id=one.id, name=one.name, lane=one.lane, kind=one.kind) for one in self.pending.values()]

    def take(self, name: str, now_ms: Millis, term: int) -> AlertEntry | None:
        """The next due entry of an alert: of those that were tried least the oldest, each lane in its order."""
        if not self.channel(name).free(now_ms):
            return None
        lanes: set[str] = set()
        due: list[AlertEntry] = []
        for one in self.pending.values():
            if one.name != name:
                continue
            first = one.lane == "*" or one.lane not in lanes
            lanes.add(one.lane)
            ready = one.next_at_ms <= now_ms or (one.tries > 0 and one.next_at_ms > now_ms + HOUR)
            if first and ready and self.taken.get(one.id) != term:
                due.append(one)
        found = min(due, key=lambda one: one.tries, default=None)
        if found is not None:
            self.taken[found.id] = term
        return found


class MemoryOutbox:
    """Alerts on their way; a part of ``MemoryHistory``."""

    _alerts: AlertData
    _outbox_term: TermCell

    def _tell(self, case: AlertCase | None) -> None:
        if case is not None:
            tell_alerts(self._alerts, (case,))

    async def take_alerts(self, names: Collection[str], *, now_ms: Millis, term: int) -> list[AlertEntry]:
        """Takes at most one due entry of each alert. (O1, O2, O3)"""
        self._outbox_term.require(term)
        return [entry for name in names if (entry := self._alerts.take(name, now_ms, term)) is not None]

    async def settle_alert(self, report: AlertReport, *, term: int) -> AlertEntry | None:
        """Writes down how a try went. (O4)"""
        self._outbox_term.require(term)
        return settle_alert(self._alerts, report)

    async def snooze_alert(self, name: str, *, until_ms: Millis, now_ms: Millis, term: int) -> AlertChannel:
        """Puts an alert off. (O5)"""
        self._outbox_term.require(term)
        return snooze_alert(self._alerts, name, until_ms, now_ms)

    async def prune_alerts(self, *, before_ms: Millis, keep: int, term: int) -> int:
        """Removes settled entries that are old or too many. (O6)"""
        self._outbox_term.require(term)
        settled = [one for one in self._alerts.entries.values() if one.settled_at_ms is not None]
        old = {one.id for one in settled if (one.settled_at_ms or 0) < before_ms}
        gone = old | {one.id for one in settled[: max(0, len(settled) - keep)]}
        for entry_id in gone:
            self._alerts.remove_entry(entry_id)
        return len(gone)

    async def alerts(
        self, *, name: str | None = None, statuses: Sequence[AlertStatus] = (), limit: int = 100
    ) -> list[AlertEntry]:
        """Entries, newest first."""
        found = (
            one
            for one in reversed(self._alerts.entries.values())
            if (name is None or one.name == name) and (not statuses or one.status in statuses)
        )
        return list(islice(found, max(limit, 0)))

    async def alert_channels(self) -> list[AlertChannel]:
        """How each alert fares that anything is known of."""
        return [channel for _, channel in sorted(self._alerts.channels.items())]
