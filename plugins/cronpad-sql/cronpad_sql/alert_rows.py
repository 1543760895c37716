"""Rows of alerts: what was told of each job, how each alert fares, and what waits to be sent."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from cronpad_core.api import (
    HOUR,
    MOST_PENDING,
    AlertBrief,
    AlertCase,
    AlertChannel,
    AlertEntry,
    AlertItem,
    AlertKind,
    AlertState,
    AlertStatus,
    Millis,
    tell_alerts,
)
from cronpad_sql.history_rows import Row

__all__ = ["CHANNELS", "PRUNE", "TAKE", "SqlAlertRows", "channel_of", "entry_of", "listing", "tell"]

_STATE = "SELECT failures, open FROM alert_states WHERE job_id = ? AND name = ?"
_KEEP_STATE = "INSERT OR REPLACE INTO alert_states (job_id, name, failures, open) VALUES (?, ?, ?, ?)"

_CHANNEL = "name, snoozed_until, window_from, window_count, failures, rest_until, failing_told, dropped"
_ONE_CHANNEL = f"SELECT {_CHANNEL} FROM alert_channels WHERE name = ?"
CHANNELS = f"SELECT {_CHANNEL} FROM alert_channels ORDER BY name"
_KEEP_CHANNEL = f"INSERT OR REPLACE INTO alert_channels ({_CHANNEL}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

_ENTRY = (
    "id, name, lane, items, created_at, next_at, give_up_at, status, gathering, left_out, tries, error, settled_at, kind, "
    "taken_term"
)
_ONE = f"SELECT {_ENTRY} FROM outbox WHERE id = ?"
_KEEP = (
    f"INSERT INTO outbox ({_ENTRY}) VALUES ({', '.join('?' * 14)}, NULL) ON CONFLICT (id) DO UPDATE SET lane = excluded.lane, "
    "items = excluded.items, next_at = excluded.next_at, give_up_at = excluded.give_up_at, status = excluded.status, "
    "gathering = excluded.gathering, left_out = excluded.left_out, tries = excluded.tries, error = excluded.error, "
    "settled_at = excluded.settled_at, kind = excluded.kind, taken_term = NULL"
)
_REMOVE = "DELETE FROM outbox WHERE id = ?"
_GATHERING = (
    f"SELECT {_ENTRY} FROM outbox WHERE name = ? AND status = 'pending' AND gathering = 1 AND taken_term IS NULL "
    "ORDER BY seq DESC LIMIT 1"
)
_COUNT = f"SELECT count(*) FROM (SELECT 1 FROM outbox WHERE status = 'pending' LIMIT {MOST_PENDING + 1})"
_BRIEFS = "SELECT id, name, lane, kind FROM outbox WHERE status = 'pending' ORDER BY seq"
TAKE = (
    f"SELECT {_ENTRY} FROM outbox o WHERE name = ?1 AND status = 'pending' AND (taken_term IS NULL OR taken_term <> ?3) "
    f"AND (next_at <= ?2 OR (tries > 0 AND next_at > ?2 + {HOUR})) AND (lane = '*' OR NOT EXISTS (SELECT 1 FROM outbox e "
    "WHERE e.name = o.name AND e.lane = o.lane AND e.seq < o.seq AND e.status = 'pending')) ORDER BY tries, seq LIMIT 1"
)
"""Of the entries of an alert that were tried least the oldest, each lane in its order."""
_TAKEN = "UPDATE outbox SET taken_term = ? WHERE id = ?"
PRUNE = (
    "DELETE FROM outbox WHERE status <> 'pending' AND (settled_at < ?1 OR seq <= coalesce((SELECT seq FROM outbox "
    "WHERE status <> 'pending' ORDER BY seq DESC LIMIT 1 OFFSET ?2), -1))"
)


def listing(*, name: bool, statuses: bool) -> str:
    """The statement that lists entries, newest first."""
    wheres = (["name = :name"] if name else []) + (["status IN (SELECT value FROM json_each(:statuses))"] if statuses else [])
    where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
    return f"SELECT {_ENTRY} FROM outbox{where} ORDER BY seq DESC LIMIT :limit"


def entry_of(row: Row) -> AlertEntry:
    """The entry of one row."""
    return AlertEntry(
        id=row[0],
        name=row[1],
        lane=row[2],
        items=tuple(AlertItem(**{**item, "kind": AlertKind(item["kind"])}) for item in json.loads(row[3])),
        created_at_ms=row[4],
        next_at_ms=row[5],
        give_up_at_ms=row[6],
        status=AlertStatus(row[7]),
        gathering=bool(row[8]),
        left_out=row[9],
        tries=row[10],
        error=row[11],
        settled_at_ms=row[12],
    )


def channel_of(row: Row) -> AlertChannel:
    """The channel of one row."""
    return AlertChannel(
        name=row[0],
        snoozed_until_ms=row[1],
        window_from_ms=row[2],
        window_count=row[3],
        failures=row[4],
        rest_until_ms=row[5],
        failing_told=bool(row[6]),
        dropped=row[7],
    )


def tell(db: sqlite3.Connection, cases: Iterable[AlertCase | None]) -> None:
    """Tells what the outcomes of this transaction are told for."""
    tell_alerts(SqlAlertRows(db), [case for case in cases if case is not None])


class SqlAlertRows:
    """The rows of alerts within one transaction of history."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def state(self, job_id: str, name: str) -> AlertState | None:
        """What an alert knows of a job."""
        row = self._db.execute(_STATE, (job_id, name)).fetchone()
        return None if row is None else AlertState(job_id=job_id, name=name, failures=row[0], open=frozenset(json.loads(row[1])))

    def keep_state(self, state: AlertState) -> None:
        """Stores it."""
        self._db.execute(_KEEP_STATE, (state.job_id, state.name, state.failures, json.dumps(sorted(state.open))))

    def channel(self, name: str) -> AlertChannel:
        """How an alert fares."""
        row = self._db.execute(_ONE_CHANNEL, (name,)).fetchone()
        return AlertChannel(name=name) if row is None else channel_of(row)

    def keep_channel(self, channel: AlertChannel) -> None:
        """Stores it."""
        self._db.execute(
            _KEEP_CHANNEL,
            (
                channel.name,
                channel.snoozed_until_ms,
                channel.window_from_ms,
                channel.window_count,
                channel.failures,
                channel.rest_until_ms,
                int(channel.failing_told),
                channel.dropped,
            ),
        )

    def entry(self, entry_id: str) -> AlertEntry | None:
        """One entry."""
        return self._entry(_ONE, entry_id)

    def keep_entry(self, entry: AlertEntry) -> None:
        """Inserts it as the newest, or changes it in its place."""
        kind = entry.kind
        self._db.execute(
            _KEEP,
            (
                entry.id,
                entry.name,
                entry.lane,
                json.dumps([asdict(item) for item in entry.items]),
                entry.created_at_ms,
                entry.next_at_ms,
                entry.give_up_at_ms,
                entry.status.value,
                int(entry.gathering),
                entry.left_out,
                entry.tries,
                entry.error,
                entry.settled_at_ms,
                None if kind is None else kind.value,
            ),
        )

    def remove_entry(self, entry_id: str) -> None:
        """Removes it."""
        self._db.execute(_REMOVE, (entry_id,))

    def gathering(self, name: str) -> AlertEntry | None:
        """The newest entry of an alert that still gathers and that nobody has taken."""
        return self._entry(_GATHERING, name)

    def count_waiting(self) -> int:
        """How many entries are pending, up to one more than may be."""
        return int(self._db.execute(_COUNT).fetchone()[0])

    def waiting_briefs(self) -> Sequence[AlertBrief]:
        """All pending entries, the oldest first."""
        rows = self._db.execute(_BRIEFS).fetchall()
        return [
            AlertBrief(id=row[0], name=row[1], lane=row[2], kind=None if row[3] is None else AlertKind(row[3])) for row in rows
        ]

    def take(self, name: str, now_ms: Millis, term: int) -> AlertEntry | None:
        """Takes the next due entry of an alert under this term."""
        found = self._entry(TAKE, name, now_ms, term) if self.channel(name).free(now_ms) else None
        if found is not None:
            self._db.execute(_TAKEN, (term, found.id))
        return found

    def _entry(self, statement: str, *values: object) -> AlertEntry | None:
        row = self._db.execute(statement, values).fetchone()
        return None if row is None else entry_of(row)
