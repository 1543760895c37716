"""What becomes of an alert between its telling and its sending: gathered, limited, put off, tried again, given up.

Values and pure decisions; :mod:`cronpad_core.domain.telling` is the order in which a store's transaction asks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from cronpad_core.domain.alerts import AlertItem, AlertKind, AlertRule
from cronpad_core.domain.timing import DAY, HOUR, MINUTE, SECOND, Millis

__all__ = [
    "MOST_PENDING",
    "AlertBrief",
    "AlertChannel",
    "AlertEntry",
    "AlertReport",
    "AlertStatus",
    "back_off_ms",
    "choose_dropped",
    "place",
    "settle_entry",
    "snooze_channel",
]

MOST_PENDING = 10_000
"""How many alerts may wait to be sent; what is more is dropped and counted."""

_MOST_ITEMS = 100
_GIVE_UP_MS, _HEARTBEAT_MS = 3 * DAY, 10 * MINUTE
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 5 * SECOND, HOUR
_FAILING_AFTER = 3
_HEARTBEATS = frozenset({AlertKind.RUN_STARTED, AlertKind.RUN_SUCCEEDED})


class AlertStatus(StrEnum):
    """``UNDELIVERED``: given up, and shown."""

    PENDING = "pending"
    DELIVERED = "delivered"
    UNDELIVERED = "undelivered"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertEntry:
    """One alert as it is sent: usually one item, many where they were gathered; ``left_out`` counts those beyond what is kept.

    Entries of one ``name`` and ``lane`` are sent in their order. While ``gathering``, further items may join until
    ``next_at_ms``. It is given up where a try fails after ``give_up_at_ms``, which is counted from the first try.
    """

    id: str
    name: str
    lane: str
    items: tuple[AlertItem, ...]
    created_at_ms: Millis
    next_at_ms: Millis
    give_up_at_ms: Millis
    status: AlertStatus = AlertStatus.PENDING
    gathering: bool = False
    left_out: int = 0
    tries: int = 0
    error: str = ""
    settled_at_ms: Millis | None = None

    @property
    def kind(self) -> AlertKind | None:
        """What it tells, ``None`` for several kinds."""
        kinds = {item.kind for item in self.items}
        return kinds.pop() if len(kinds) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChannel:
    """How one alert fares: until when it is snoozed, how many were sent in the present window of its rate, and its failing.

    ``failures`` counts tries in a row that failed, and nothing is tried before ``rest_until_ms`` then; ``failing_told`` that
    somebody was told of it; ``dropped`` what had to make room.
    """

    name: str
    snoozed_until_ms: Millis = 0
    window_from_ms: Millis = 0
    window_count: int = 0
    failures: int = 0
    rest_until_ms: Millis = 0
    failing_told: bool = False
    dropped: int = 0

    def free(self, now_ms: Millis) -> bool:
        """Whether something may be sent now. A rest further ahead than the longest is one of a clock that was ahead."""
        return self.snoozed_until_ms <= now_ms and not now_ms < self.rest_until_ms <= now_ms + _LONGEST_PAUSE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertBrief:
    """What of a waiting entry decides whether it has to make room."""

    id: str
    name: str
    lane: str
    kind: AlertKind | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertReport:
    """How a try to send an entry went; ``error`` is ``None`` where it was sent. ``others`` may be told that this one fails.

    ``final``: there will be no other try.
    """

    entry_id: str
    now_ms: Millis
    error: str | None = None
    others: tuple[str, ...] = ()
    final: bool = False


def back_off_ms(tries: int) -> Millis:
    """How long after the ``tries``-th failed try the next one comes: 5 s, doubled up to an hour."""
    return min(_LONGEST_PAUSE_MS, _FIRST_PAUSE_MS << min(max(tries, 1) - 1, 30))


def place(
    rule: AlertRule, item: AlertItem, now_ms: Millis, channel: AlertChannel, gathering: AlertEntry | None
) -> tuple[AlertEntry | None, AlertChannel]:
    """Where an item goes: into the entry that gathers, into a new one that waits for others or for leave, or out at once.

    An entry without items is one that has nothing to tell any more: what it told is over.
    """
    snoozed = channel.snoozed_until_ms > now_ms
    if gathering is not None and gathering.next_at_ms > now_ms:
        return _join(gathering, item, resolve=snoozed), channel
    wait_ms = now_ms + rule.group_for_ms
    if snoozed:
        wait_ms = max(wait_ms, channel.snoozed_until_ms)
    if rule.rate is not None:
        ends_ms = channel.window_from_ms + rule.rate.per_ms
        if now_ms >= ends_ms or channel.window_from_ms > now_ms + rule.rate.per_ms:
            channel = replace(channel, window_from_ms=now_ms, window_count=0)
        elif channel.window_count >= rule.rate.max:
            wait_ms = max(wait_ms, ends_ms)
            channel = replace(channel, window_from_ms=ends_ms, window_count=0)
        channel = replace(channel, window_count=channel.window_count + 1)
    gathers = wait_ms > now_ms
    give_up_ms = _HEARTBEAT_MS if item.kind in _HEARTBEATS else _GIVE_UP_MS
    entry = AlertEntry(
        id=item.id,
        name=rule.name,
        lane="*" if gathers else item.job_id,
        items=(item,),
        created_at_ms=now_ms,
        next_at_ms=wait_ms,
        give_up_at_ms=wait_ms + give_up_ms,
        gathering=gathers,
    )
    return entry, channel


def _join(entry: AlertEntry, item: AlertItem, *, resolve: bool) -> AlertEntry | None:
    if any(one.id == item.id for one in entry.items):
        return None
    if resolve and item.kind is AlertKind.RUN_RECOVERED:
        left = tuple(one for one in entry.items if (one.kind, one.job_id) != (AlertKind.RUN_FAILED, item.job_id))
        if len(left) < len(entry.items):
            return replace(entry, items=left)
    if len(entry.items) >= _MOST_ITEMS:
        return replace(entry, left_out=entry.left_out + 1)
    return replace(entry, items=(*entry.items, item))


def snooze_channel(
    channel: AlertChannel, gathering: AlertEntry | None, until_ms: Millis, now_ms: Millis
) -> tuple[AlertChannel, AlertEntry | None]:
    """An alert that is put off until then, or not any more where that is past, and what it gathers meanwhile."""
    if gathering is not None and until_ms > now_ms:
        gathering = replace(gathering, next_at_ms=max(gathering.next_at_ms, until_ms))
    elif gathering is not None and gathering.next_at_ms == channel.snoozed_until_ms:
        gathering = replace(gathering, next_at_ms=now_ms)
    return replace(channel, snoozed_until_ms=max(until_ms, 0)), gathering


def settle_entry(entry: AlertEntry, channel: AlertChannel, report: AlertReport) -> tuple[AlertEntry, AlertChannel, bool]:
    """What follows from a try for the entry and its channel, and whether to tell somebody that it fails."""
    now_ms, tries = report.now_ms, entry.tries + 1
    if report.error is None:
        sent = replace(entry, status=AlertStatus.DELIVERED, tries=tries, error="", gathering=False, settled_at_ms=now_ms)
        return sent, replace(channel, failures=0, rest_until_ms=0, failing_told=False), False
    failures = channel.failures + 1
    tell = failures >= _FAILING_AFTER and not channel.failing_told
    rests = replace(
        channel,
        failures=failures,
        rest_until_ms=now_ms + back_off_ms(failures),
        failing_told=channel.failing_told or tell,
    )
    failed = replace(entry, tries=tries, error=report.error, gathering=False)
    if entry.tries == 0 and entry.kind not in _HEARTBEATS:
        failed = replace(failed, give_up_at_ms=now_ms + _GIVE_UP_MS)
    if report.final or now_ms >= failed.give_up_at_ms:
        return replace(failed, status=AlertStatus.UNDELIVERED, settled_at_ms=now_ms), rests, tell
    return replace(failed, next_at_ms=now_ms + back_off_ms(tries)), rests, tell


def choose_dropped(waiting: Sequence[AlertBrief], count: int) -> list[AlertBrief]:
    """Which of ``waiting`` (the oldest first) make room: failures that a recovery followed, with it, then the oldest."""
    open_: dict[tuple[str, str], AlertBrief] = {}
    dropped: dict[str, AlertBrief] = {}
    for one in waiting:
        if len(dropped) >= count:
            break
        if one.kind is AlertKind.RUN_FAILED:
            open_[one.name, one.lane] = one
        elif one.kind is AlertKind.RUN_RECOVERED and (failed := open_.pop((one.name, one.lane), None)) is not None:
            dropped |= {failed.id: failed, one.id: one}
    for one in waiting:
        if len(dropped) >= count:
            break
        dropped.setdefault(one.id, one)
    return list(dropped.values())
