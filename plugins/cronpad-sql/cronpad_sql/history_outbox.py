"""The part of history that holds alerts on their way."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence

from cronpad_core.api import AlertChannel, AlertEntry, AlertReport, AlertStatus, Millis, settle_alert, snooze_alert
from cronpad_sql.alert_rows import CHANNELS, PRUNE, TAKE, SqlAlertRows, channel_of, entry_of, listing
from cronpad_sql.terms import SqliteTerms, require_term

__all__ = ["SqliteOutbox"]


class SqliteOutbox(SqliteTerms):
    """Alerts on their way; a part of ``SqliteHistory``."""

    async def take_alerts(self, names: Collection[str], *, now_ms: Millis, term: int) -> list[AlertEntry]:
        """Takes at most one due entry of each alert. (O1, O2, O3)"""

        def due(db: sqlite3.Connection) -> list[str]:
            require_term(db, term)
            return [name for name in names if db.execute(TAKE, (name, now_ms, term)).fetchone() is not None]

        def take(db: sqlite3.Connection) -> list[AlertEntry]:
            require_term(db, term)
            rows = SqlAlertRows(db)
            return [entry for name in found if (entry := rows.take(name, now_ms, term)) is not None]

        # Looked for where nobody waits: mostly there is nothing, and then the lane is left alone.
        found = await self._reader.run(due)
        return await self._lane.run(take) if found else []

    async def settle_alert(self, report: AlertReport, *, term: int) -> AlertEntry | None:
        """Writes down how a try went. (O4)"""

        def settle(db: sqlite3.Connection) -> AlertEntry | None:
            require_term(db, term)
            return settle_alert(SqlAlertRows(db), report)

        return await self._lane.run(settle)

    async def snooze_alert(self, name: str, *, until_ms: Millis, now_ms: Millis, term: int) -> AlertChannel:
        """Puts an alert off. (O5)"""

        def snooze(db: sqlite3.Connection) -> AlertChannel:
            require_term(db, term)
            return snooze_alert(SqlAlertRows(db), name, until_ms, now_ms)

        return await self._lane.run(snooze)

    async def prune_alerts(self, *, before_ms: Millis, keep: int, term: int) -> int:
        """Removes settled entries that are old or too many. (O6)"""

        def prune(db: sqlite3.Connection) -> int:
            require_term(db, term)
            return db.execute(PRUNE, (before_ms, keep)).rowcount

        return await self._lane.run(prune)

    async def alerts(
        self, *, name: str | None = None, statuses: Sequence[AlertStatus] = (), limit: int = 100
    ) -> list[AlertEntry]:
        """Entries, newest first."""
        statement = listing(name=name is not None, statuses=bool(statuses))
        values = {"name": name, "statuses": json.dumps([one.value for one in statuses]), "limit": max(limit, 0)}
        return await self._reader.run(lambda db: [entry_of(row) for row in db.execute(statement, values).fetchall()])

    async def alert_channels(self) -> list[AlertChannel]:
        """How each alert fares that anything is known of."""
        return await self._reader.run(lambda db: [channel_of(row) for row in db.execute(CHANNELS).fetchall()])
