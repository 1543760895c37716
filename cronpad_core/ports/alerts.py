"""Telling somebody: the protocol of an alert emitter, and the outbox in which alerts wait for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cronpad_core.domain.outbox import AlertChannel, AlertEntry, AlertReport, AlertStatus
from cronpad_core.domain.timing import JsonValue, Millis, rfc3339

__all__ = ["Alert", "AlertEmitter", "AlertOutbox", "Emitters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One thing to tell. ``id`` is the same however often it is sent; ``kind`` such as ``run_failed``; ``text`` for a person.

    ``name`` is the alert's own name in the jobs file. Where many things are told at once, ``kind`` is theirs if they have one, else
    ``several``; ``job_name`` is empty unless it is one job; and ``facts["items"]`` lists them.
    """

    id: str
    kind: str
    job_name: str
    run_id: str | None
    at_ms: Millis
    text: str
    facts: Mapping[str, JsonValue]
    name: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        """The document in which an emitter hands it on: its keys are those of the reference of alerts."""
        return {
            "id": self.id,
            "alert": self.name,
            "kind": self.kind,
            "job": self.job_name,
            "run_id": self.run_id,
            "at": rfc3339(self.at_ms),
            "text": self.text,
            "facts": dict(self.facts),
        }


class AlertEmitter(Protocol):
    """Sends alerts.

    An emitter's class also has ``name``, ``api = 1`` and ``Settings`` (a pydantic model); it is built with validated settings, in
    which secret references are resolved. It runs on a thread and a loop of its alert's own, one call at a time: it may block.

    A1. Returning means that it was sent; raising means that it was not, and it will be tried again.
    A2. A call that is cancelled ends soon. After its deadline it is left behind.
    """

    async def emit(self, alert: Alert) -> None:
        """Sends one alert, or raises."""


class Emitters(Protocol):
    """The emitters of all declared alerts, by the alerts' names. Called by the sender, which sets the deadline."""

    async def emit(self, name: str, alert: Alert) -> None:
        """Sends by the emitter of the alert ``name``; what it raises says why it was not sent, and holds no secret.

        Cancelling frees the caller at once, whatever the emitter does.
        """


class AlertOutbox(Protocol):
    """Alerts on their way, in the history database; what is put there is written with the outcome that it tells of.

    Promises, proved by ``HistorySuite``:

    ===  ==========================================================================================================
    O1   an entry is taken once under a term; under a later one it can be taken again until it is settled
    O2   entries of one alert and lane are taken in their order, the next when the one before is settled
    O3   nothing is taken before its time, nor while its alert is snoozed or rests
    O4   ``settle_alert`` writes what ``settle_alert`` of the domain decides, and settles nothing twice
    O5   ``snooze_alert`` puts an alert off at once, and lets it go where the time is past
    O6   ``prune_alerts`` removes settled entries alone
    ===  ==========================================================================================================
    """

    async def take_alerts(self, names: Collection[str], *, now_ms: Millis, term: int) -> list[AlertEntry]:
        """Takes at most one due entry of each alert, to be sent under this term. Raises ``TermRefusedError``. (O1, O2, O3)"""

    async def settle_alert(self, report: AlertReport, *, term: int) -> AlertEntry | None:
        """Writes down how a try went; the entry as it is now, ``None`` where it was settled before. (O4)"""

    async def snooze_alert(self, name: str, *, until_ms: Millis, now_ms: Millis, term: int) -> AlertChannel:
        """Puts an alert off. (O5)"""

    async def prune_alerts(self, *, before_ms: Millis, keep: int, term: int) -> int:
        """Removes entries that were settled before then, and all but the newest ``keep`` settled ones; answers how many. (O6)"""

    async def alerts(
        self, *, name: str | None = None, statuses: Sequence[AlertStatus] = (), limit: int = 100
    ) -> list[AlertEntry]:
        """Entries, newest first."""

    async def alert_channels(self) -> list[AlertChannel]:
        """How each alert fares that anything is known of, by name."""
