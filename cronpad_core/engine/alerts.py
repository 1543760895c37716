"""Sending what waits in the outbox: beside the line, and of no consequence for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial

from cronpad_core.domain.alerts import AlertKind
from cronpad_core.domain.errors import StoreError, TermRefusedError
from cronpad_core.domain.events import AlertFailed, AlertSent, LineFailed
from cronpad_core.domain.outbox import AlertEntry, AlertReport, AlertStatus
from cronpad_core.domain.timing import DAY, HOUR, SECOND, JsonValue, Millis, rfc3339
from cronpad_core.engine.alert_book import AlertBook
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.ports.alerts import Alert, Emitters
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import HistoryStore

__all__ = ["AlertSender", "alert_of", "send_within"]

DEADLINE_MS: Millis = 30 * SECOND
"""How long an emitter may take for one alert."""

_CANCEL_GRACE_S = 5.0
_LONGEST_ERROR = 500
_TIDY_EVERY, _KEEP_FOR, _KEEP, _UNCLAIMED_FOR = HOUR, 30 * DAY, 5_000, 3 * DAY
_UNCLAIMED = "no alert of this name is declared any more"


def alert_of(entry: AlertEntry) -> Alert:
    """What the emitter is given: the one thing, or one text over many."""
    first, kind = entry.items[0], entry.kind
    if len(entry.items) == 1 and not entry.left_out:
        return Alert(
            id=entry.id,
            kind=first.kind.value,
            job_name=first.job_name,
            run_id=first.run_id,
            at_ms=first.at_ms,
            text=first.text,
            facts={**first.facts, "job_id": first.job_id},
            name=entry.name,
        )
    jobs = {item.job_name for item in entry.items}
    count = len(entry.items) + entry.left_out
    lines = [f"{count} alerts", *(f"- {item.text}" for item in entry.items)]
    if entry.left_out:
        lines.append(f"- and {entry.left_out} more")
    items: list[JsonValue] = [
        {
            "id": item.id,
            "kind": item.kind.value,
            "job": item.job_name,
            "run_id": item.run_id,
            "at": rfc3339(item.at_ms),
            "text": item.text,
            "facts": dict(item.facts),
        }
        for item in entry.items
    ]
    return Alert(
        id=entry.id,
        kind=kind.value if kind is not None else "several",
        job_name=jobs.pop() if len(jobs) == 1 else "",
        run_id=None,
        at_ms=first.at_ms,
        text="\n".join(lines),
        facts={"count": count, "left_out": entry.left_out, "items": items},
        name=entry.name,
    )


class AlertSender:
    """Sends what is due, one alert of each name at a time, while this process dispatches.

    Guarantees: what was sent is settled, what was not is tried again until it is given up; an emitter that raises, hangs or exits
    delays nobody. Dies half-way: what it had taken is taken again under the next term, and sent with the same id.
    """

    def __init__(
        self,
        *,
        history: HistoryStore,
        emitters: Emitters,
        book: AlertBook,
        clock: Clock,
        authority: Authority,
        patience: Patience,
        emit: Emit,
    ) -> None:
        self._history = history
        self._emitters = emitters
        self._book = book
        self._clock = clock
        self._authority = authority
        self._patience = patience
        self._emit = emit
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._alive_at: dict[str, Millis] = {}
        self._tidied_at: Millis | None = None

    async def step(self) -> Millis:
        """Begins to send what is due; answers when to look again. Raises ``StoreError`` and ``TermRefusedError``."""
        term = self._authority.term
        if term is None or not self._authority.trusted():
            return SECOND
        self._tell_alive()
        names = [name for name in self._book.declared if name not in self._busy]
        if names:
            for entry in await self._take(names, term):
                self._begin(entry.name, self._send(entry, term))
        now_ms = self._clock.boot_ms()
        if self._tidied_at is None or now_ms - self._tidied_at >= _TIDY_EVERY:
            self._tidied_at = now_ms
            await self._tidy(term)
        return SECOND

    async def flush(self, within_ms: Millis) -> None:
        """Sends what is due now, as far as that goes within that time: for a stop."""
        end_ms = self._clock.boot_ms() + within_ms
        while (left_ms := end_ms - self._clock.boot_ms()) > 0:
            try:
                await self.step()
            except (StoreError, TermRefusedError):
                return
            if not self._busy:
                return
            await asyncio.wait(set(self._busy.values()), timeout=left_ms / 1000, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Leaves what is being sent."""
        tasks = set(self._busy.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    def _begin(self, name: str, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._busy[name] = task
        task.add_done_callback(partial(self._ended, name))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        self._busy.pop(name, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, StoreError | TermRefusedError):
            self._emit(LineFailed(member=f"alert {name}", error=f"{type(error).__name__}: {error}"))

    async def _take(self, names: list[str], term: int) -> list[AlertEntry]:
        now_ms = self._clock.wall_ms()
        return await self._patience.attempt("history", lambda: self._history.take_alerts(names, now_ms=now_ms, term=term))

    async def _send(self, entry: AlertEntry, term: int) -> None:
        """Sends this and what follows of the same alert, until one fails or nothing is due."""
        due = [entry]
        while due:
            entry = due[0]
            error = await send_within(self._emitters, entry.name, alert_of(entry))
            settled = await self._settle(entry, error, term)
            if settled is None or error is not None or not self._authority.trusted():
                return
            due = await self._take([entry.name], term)

    async def _settle(self, entry: AlertEntry, error: str | None, term: int, *, final: bool = False) -> AlertEntry | None:
        report = AlertReport(
            entry_id=entry.id,
            now_ms=self._clock.wall_ms(),
            error=error,
            others=() if final else self._book.others(entry.name),
            final=final,
        )
        settled = await self._patience.insist("history", lambda: self._history.settle_alert(report, term=term))
        if settled is None:
            return None
        kind = "several" if settled.kind is None else settled.kind.value
        if error is None:
            self._emit(AlertSent(alert_id=settled.id, name=settled.name, kind=kind, tries=settled.tries))
        else:
            given_up = settled.status is AlertStatus.UNDELIVERED
            self._emit(
                AlertFailed(
                    alert_id=settled.id, name=settled.name, kind=kind, tries=settled.tries, error=error, given_up=given_up
                )
            )
        return settled

    def _tell_alive(self) -> None:
        """Heartbeats of cronpad itself: of now or never, so they wait in no outbox."""
        now_ms = self._clock.boot_ms()
        for name, spec in self._book.declared.items():
            wanted = AlertKind.RUNNER_ALIVE in spec.rule.events and name not in self._busy
            if wanted and now_ms - self._alive_at.get(name, now_ms - spec.alive_every_ms) >= spec.alive_every_ms:
                self._alive_at[name] = now_ms
                self._begin(name, self._ping(name))

    async def _ping(self, name: str) -> None:
        at_ms, kind = self._clock.wall_ms(), AlertKind.RUNNER_ALIVE.value
        alert = Alert(
            id=f"{kind}.{at_ms}", kind=kind, job_name="", run_id=None, at_ms=at_ms, text="cronpad runs", facts={}, name=name
        )
        error = await send_within(self._emitters, name, alert)
        if error is not None:
            self._emit(AlertFailed(alert_id=alert.id, name=name, kind=kind, tries=1, error=error, given_up=True))

    async def _tidy(self, term: int) -> None:
        """Forgets what was settled long ago, and gives up what nobody is declared for any more."""
        now_ms = self._clock.wall_ms()
        await self._patience.attempt(
            "history", lambda: self._history.prune_alerts(before_ms=now_ms - _KEEP_FOR, keep=_KEEP, term=term)
        )
        waiting = await self._patience.attempt(
            "history", lambda: self._history.alerts(statuses=[AlertStatus.PENDING], limit=_KEEP)
        )
        for entry in waiting:
            if entry.name not in self._book.declared and now_ms - entry.created_at_ms > _UNCLAIMED_FOR:
                await self._settle(entry, _UNCLAIMED, term, final=True)


async def send_within(emitters: Emitters, name: str, alert: Alert) -> str | None:
    """One call of the emitter, within its deadline: ``None`` where it sent, else why not."""
    call = asyncio.ensure_future(_guarded(emitters, name, alert))
    try:
        await asyncio.wait({call}, timeout=DEADLINE_MS / SECOND)
        if call.done():
            return call.result()
        call.cancel()
        await asyncio.wait({call}, timeout=_CANCEL_GRACE_S)
    finally:
        call.cancel()
    return f"not sent within {DEADLINE_MS // SECOND} s"


async def _guarded(emitters: Emitters, name: str, alert: Alert) -> str | None:
    try:
        await emitters.emit(name, alert)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling() > 0:
            raise
        return "it was cancelled by itself"
    except BaseException as error:  # whatever it is, SystemExit included, it must end neither the loop nor the process
        return _said(error)
    return None


def _said(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    return (text or type(error).__name__)[:_LONGEST_ERROR].encode("utf-8", "backslashreplace").decode()
