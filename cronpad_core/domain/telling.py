"""The order in which a transaction decides over alerts: what every store does, given its rows.

A store calls :func:`tell_alerts` where it has written an outcome, and :func:`settle_alert` where a try to send has ended; it brings
the rows, and decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from cronpad_core.domain.alerts import AlertCase, AlertItem, AlertKind, AlertRule, AlertState, judge
from cronpad_core.domain.ids import alert_id_for
from cronpad_core.domain.outbox import (
    MOST_PENDING,
    AlertBrief,
    AlertChannel,
    AlertEntry,
    AlertReport,
    AlertStatus,
    choose_dropped,
    place,
    settle_entry,
    snooze_channel,
)
from cronpad_core.domain.timing import Millis

__all__ = ["AlertRows", "put_alert", "settle_alert", "snooze_alert", "tell_alerts"]

_ROOM = MOST_PENDING // 20
"""So many are dropped at once, so that a flood does not look at all that waits for each of its alerts."""


class AlertRows(Protocol):
    """The rows of alerts within one transaction: reads see what was written before in it."""

    def state(self, job_id: str, name: str) -> AlertState | None:
        """What an alert knows of a job."""

    def keep_state(self, state: AlertState) -> None:
        """Stores it."""

    def channel(self, name: str) -> AlertChannel:
        """How an alert fares; a fresh one where nothing is stored."""

    def keep_channel(self, channel: AlertChannel) -> None:
        """Stores it."""

    def entry(self, entry_id: str) -> AlertEntry | None:
        """One entry, whatever its status."""

    def keep_entry(self, entry: AlertEntry) -> None:
        """Inserts it as the newest, or changes the one of its id in its place; it is not taken any more."""

    def remove_entry(self, entry_id: str) -> None:
        """Removes it."""

    def gathering(self, name: str) -> AlertEntry | None:
        """The entry of an alert that still gathers and that nobody has taken."""

    def count_waiting(self) -> int:
        """How many entries are pending, counted up to one more than ``MOST_PENDING``."""

    def waiting_briefs(self) -> Sequence[AlertBrief]:
        """All pending entries, the oldest first."""


def tell_alerts(rows: AlertRows, cases: Iterable[AlertCase]) -> None:
    """Judges each case by its rules, keeps what they know now, and puts what is to be told into the outbox."""
    put = False
    for case in cases:
        for rule in case.rules:
            before = rows.state(case.job_id, rule.name)
            after, items = judge(case, rule, before)
            if after != (before or AlertState(job_id=case.job_id, name=rule.name)):
                rows.keep_state(after)
            for item in items:
                put_alert(rows, rule, item, case.at_ms)
                put = True
    if put:
        _make_room(rows)


def put_alert(rows: AlertRows, rule: AlertRule, item: AlertItem, now_ms: Millis) -> None:
    """Puts one item into the outbox, once."""
    if rows.entry(item.id) is not None:
        return
    channel = rows.channel(rule.name)
    entry, moved = place(rule, item, now_ms, channel, rows.gathering(rule.name))
    if moved != channel:
        rows.keep_channel(moved)
    if entry is None:
        return
    if entry.items:
        rows.keep_entry(entry)
    else:
        rows.remove_entry(entry.id)


def _make_room(rows: AlertRows) -> None:
    if rows.count_waiting() <= MOST_PENDING:
        return
    for one in choose_dropped(rows.waiting_briefs(), _ROOM):
        rows.remove_entry(one.id)
        channel = rows.channel(one.name)
        rows.keep_channel(replace(channel, dropped=channel.dropped + 1))


def settle_alert(rows: AlertRows, told: AlertReport) -> AlertEntry | None:
    """Writes down how a try went; answers the entry as it is now, ``None`` where it is gone or had been settled."""
    entry = rows.entry(told.entry_id)
    if entry is None or entry.status is not AlertStatus.PENDING:
        return None
    channel = rows.channel(entry.name)
    entry, moved, failing = settle_entry(entry, channel, told)
    rows.keep_entry(entry)
    if moved != channel:
        rows.keep_channel(moved)
    if failing:
        _tell_another(rows, entry.name, told)
    return entry


def _tell_another(rows: AlertRows, name: str, told: AlertReport) -> None:
    """Tells the first other alert that does not fail itself, once for an episode."""
    for other in told.others:
        if rows.channel(other).failures == 0:
            item = AlertItem(
                id=alert_id_for(other, AlertKind.EMITTER_FAILING.value, name, str(told.now_ms)),
                kind=AlertKind.EMITTER_FAILING,
                job_id="",
                job_name="",
                run_id=None,
                at_ms=told.now_ms,
                text=f'the alert "{name}" cannot be sent: {told.error}',
                facts={"alert": name, "error": told.error},
            )
            put_alert(rows, AlertRule(name=other), item, told.now_ms)
            return


def snooze_alert(rows: AlertRows, name: str, until_ms: Millis, now_ms: Millis) -> AlertChannel:
    """Puts an alert off until then, or lets it go again where that is past."""
    gathering = rows.gathering(name)
    channel, moved = snooze_channel(rows.channel(name), gathering, until_ms, now_ms)
    rows.keep_channel(channel)
    if moved is not None and moved != gathering:
        rows.keep_entry(moved)
    return channel
