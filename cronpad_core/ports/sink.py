"""Where runs go: the protocol that a sink fulfils, and what it is handed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cronpad_core.domain.ids import idempotency_key
from cronpad_core.domain.occurrence import RunKey, Trigger
from cronpad_core.domain.outcome import Outcome
from cronpad_core.domain.timing import JsonValue, Millis

__all__ = ["CancelSignal", "Delivery", "Sink", "SinkContext"]


class CancelSignal:
    """Tells a running delivery that it should end.

    ``stage`` is what is asked for now: ``None`` (go on), ``"stop"`` (end in an orderly way) or ``"kill"`` (end at once). A sink
    that knows no such difference may simply be cancelled: the host cancels its task when nothing else helps.
    """

    __slots__ = ("_event", "_listener", "reason", "stage")

    def __init__(self, listener: Callable[[str], None] | None = None) -> None:
        self.stage: str | None = None
        self.reason = ""
        self._event: asyncio.Event | None = None  # few deliveries wait for it
        self._listener = listener

    def ask(self, stage: str, reason: str) -> None:
        """Raises the stage; waiters wake. A lower stage after a higher one changes nothing."""
        if self.stage == "kill" or stage == self.stage:
            return
        self.stage, self.reason = stage, reason
        self._asked().set()
        if self._listener is not None:
            self._listener(stage)

    async def wait(self) -> str:
        """Returns the next stage that is asked for; called again, it waits for a higher one."""
        event = self._asked()
        await event.wait()
        event.clear()
        return self.stage or "stop"

    def _asked(self) -> asyncio.Event:
        if self._event is None:
            self._event = asyncio.Event()
        return self._event


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One attempt, as a sink sees it.

    ``slot_at_ms`` is the logical time of the run, the same over retries; ``scheduled_at_ms`` is part of the occurrence's id.
    ``deadline_boot_ms`` is when the attempt is given up, on the boot clock; ``timeout_ms`` how long that was from the start.
    ``idempotency_key`` is the same over retries and redeliveries. ``redelivery`` counts earlier deliveries of this attempt.
    ``still_ours`` answers whether the lease is held: ask before a step that cannot be undone.
    """

    job_id: str
    job_name: str
    workspace: str
    run_id: str
    occurrence: str
    trigger: Trigger
    attempt: int
    redelivery: int
    slot_at_ms: Millis
    scheduled_at_ms: Millis
    timezone: str
    fence: str
    timeout_ms: Millis
    kill_grace_ms: Millis
    deadline_boot_ms: Millis
    settings: object
    cancel: CancelSignal
    still_ours: Callable[[], bool]
    payload: JsonValue = None
    trace: Mapping[str, str] | None = None

    @property
    def idempotency_key(self) -> str:
        """What a receiver may tell repeats by."""
        return idempotency_key(RunKey(job_id=self.job_id, scheduled_at_ms=self.scheduled_at_ms, trigger=self.trigger))


class Sink(Protocol):
    """Takes deliveries, many at once. One object of a type serves every job that names it.

    A sink's class also has ``name`` (what a jobs file says), ``api = 1``, ``Settings`` (a pydantic model: validated once per job
    and handed over as ``Delivery.settings``) and ``capabilities`` (a frozenset of words). It is built once, on first use, with a
    :class:`SinkContext`.

    The capability ``"graceful"`` says that the sink keeps its deadline and its cancel signal itself, and needs ``kill_grace_ms``
    for it; any other sink's delivery is cancelled (as a task) when its time is up or it should stop.

    K1. What was not done, or failed, is an answer (``Failed``), never an exception; whatever is raised counts as a plugin error.
    K2. It returns soon after its cancel signal asks it to, and leaves nothing running behind.
    K3. It is called at least once for an attempt, with the same idempotency key each time.
    """

    async def deliver(self, delivery: Delivery) -> Outcome:
        """Does the work. Called on the event loop; a plain ``def`` is run in a thread by the host."""

    async def close(self) -> None:
        """Called once, when nothing more will be delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """What a sink is built with: the host-wide settings ``[plugins.<name>]`` and the environment that cronpad was started with.

    ``state`` names the state that runs belong to: its URL, or its directory; empty where there is none. Every process that works
    on one state is given the same text. It may hold credentials, so it is not to be shown.
    """

    settings: Mapping[str, JsonValue]
    environ: Mapping[str, str]
    secret: Callable[[str], str]
    state: str = ""
