"""One runner, from opening the state to the last row: what ``cronpad run`` does once its files are read."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

from cronpad_core.config.secrets import resolve_secret
from cronpad_core.config.settings import Settings
from cronpad_core.control.apply import Applied, ChangeKind, Declared, apply
from cronpad_core.control.arguments import Arguments
from cronpad_core.domain.alerts import AlertSpec
from cronpad_core.domain.errors import ConfigurationError, CoreDiedError, CronpadError
from cronpad_core.domain.events import DispatcherChanged, Event
from cronpad_core.domain.timing import JsonValue
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.alert_book import AlertBook
from cronpad_core.host.emitters import EmitterPool
from cronpad_core.host.loader import PluginHost
from cronpad_core.host.observers import Observers, tell_hook
from cronpad_core.host.sinks import SinkPool
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.misfire import MisfirePolicy
from cronpad_core.runtime.alert_test import send_test
from cronpad_core.runtime.chores import Chores, keep_of
from cronpad_core.runtime.clock import SystemClock
from cronpad_core.runtime.compose import Engine, Parts, compose
from cronpad_core.runtime.control_protocol import socket_name
from cronpad_core.runtime.control_socket import ControlSocket
from cronpad_core.runtime.drain import Drain
from cronpad_core.runtime.health import Pulse, write_pulse
from cronpad_core.runtime.loops import Loops
from cronpad_core.runtime.schedules import ScheduleBook
from cronpad_core.runtime.sinks import HostSinks
from cronpad_core.runtime.state import identity_for, open_storage
from cronpad_core.runtime.vitals import Vitals

__all__ = ["DeclaredFiles", "Listener", "Runner", "RunnerOptions", "tuning_of"]

STARTED_S, STOPPING_S = 30.0, 5.0
LAST_ALERTS_MS = 2_000
"""How long a stop waits for alerts that are due; what is not sent by then waits for the next start."""


def tuning_of(settings: Settings) -> Tuning:
    """The engine's figures out of the settings."""
    ttl = settings.scheduler_lock_ttl_ms
    return Tuning(
        workers=settings.workers_count,
        claim_batch=settings.scheduler_claim_batch,
        lease_ms=settings.scheduler_lease_duration_ms,
        reconcile_ms=settings.scheduler_reconcile_interval_ms,
        tick_ms=settings.scheduler_tick_interval_ms,
        overdue_grace_ms=settings.scheduler_overdue_grace_ms,
        batch=settings.results_max_batch,
        flush_ms=settings.results_flush_interval_ms,
        lock_ttl_ms=ttl,
        renew_ms=ttl // 3,
        look_ms=min(1_000, max(50, ttl // 15)),
        trust_margin_ms=min(1_000, ttl // 15),
        replay_rate=settings.scheduler_replay_rate,
        max_running=settings.scheduler_max_running,
        fast=settings.delivery == "fast",
    )


class Listener:
    """Who is told what happens; every method may be left out."""

    def opened(self) -> None:
        """The state is open: from here on the runner dispatches or stands by."""

    def event(self, event: Event) -> None:
        """Something happened in the engine."""

    def applied(self, applied: Applied) -> None:
        """The files were applied."""

    def note(self, text: str) -> None:
        """Something worth a line on stderr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredFiles:
    """What the files declare; ``origins`` are the files themselves."""

    jobs: list[Declared]
    origins: frozenset[str]
    alerts: Mapping[str, AlertSpec] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """How to run. ``load`` reads the files again and raises ``CronpadError`` where they are refused."""

    url: str
    load: Callable[[], DeclaredFiles]
    settings: Settings
    environ: Mapping[str, str]
    stand_by: bool = True
    exit_when_idle: bool = False


class Runner:
    """Runs one state until told to stop. Must be built where its event loop runs."""

    def __init__(self, options: RunnerOptions, host: PluginHost, listener: Listener, clock: Clock | None = None) -> None:
        self._options = options
        self._host = host
        self._listener = listener
        self.clock: Clock = clock or SystemClock()
        self._stop = asyncio.Event()
        self._drain: Drain | None = None
        files = options.load()
        self.declared, self._origins = files.jobs, files.origins
        self.storage = open_storage(host.registry, options.url, options.settings, self.clock)
        token = secrets.token_hex(8)
        self._identity = identity_for(self.storage, self.clock, token)
        self._observers = Observers(host.calls_of("cronpad_event"), report=listener.note)
        self._pool = SinkPool(
            host.registry,
            environ=options.environ,
            secret=partial(resolve_secret, environ=options.environ),
            plugin_settings=_plugin_tables(options.settings),
            state=options.url,
        )
        self._emitters = EmitterPool(host.registry, secret=partial(resolve_secret, environ=options.environ))
        self._alerts = AlertBook()
        self._declare(files.alerts)
        self.schedules = ScheduleBook()
        self.engine: Engine = compose(
            Parts(
                storage=self.storage,
                sinks=HostSinks(host.registry, self._pool),
                policies=_policies(host),
                schedules=self.schedules,
                clock=self.clock,
                liveness=self._identity,
                draw=partial(secrets.token_hex, 8),
                emit=self._emit,
                tuning=tuning_of(options.settings),
                owner=token,
                alerts=self._alerts,
                emitters=self._emitters,
            )
        )
        self._chores = Chores(self.engine, self.engine.desk, self.schedules, keep_of(options.settings))
        self.loops = Loops(self.engine, prepare=self._prepare, stand_by=options.stand_by, chores=self._chores.all)
        self._active_once = asyncio.Event()
        self._control = self._control_socket()

    def _emit(self, event: Event) -> None:
        try:
            self._listener.event(event)
        except Exception as error:  # whoever listens must not stop the line
            self._listener.note(f"{type(event).__name__} could not be shown: {type(error).__name__}: {error}")
        if self._observers.wanted:
            self._observers.tell(event)
        if self._control is not None:
            self._control.heard(event)
        self._vitals.tell(event)
        if isinstance(event, DispatcherChanged) and event.state == "active":
            self._active_once.set()

    async def run(self) -> int:
        """Until a stop, by signal or because nothing is left to do; the exit code. Raises ``CronpadError``."""
        await self.storage.open()
        try:
            self._listener.opened()
            return await self._run()
        finally:
            await self.close()

    async def close(self) -> None:
        """Closes sinks, observers and state; what was recorded is flushed."""
        await self._pool.close()
        await self.engine.sender.close()
        self._observers.close()
        await self.storage.close()
        self._emitters.close()
        self._identity.close()

    async def _run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        running = asyncio.ensure_future(self.loops.run())
        ends = [running, asyncio.ensure_future(self._stop.wait())]
        if self._options.exit_when_idle:
            ends.append(asyncio.ensure_future(self._until_idle()))
        beside = [asyncio.ensure_future(self._tell_started()), asyncio.ensure_future(self._beat())]
        if self._control is not None:
            beside.append(asyncio.ensure_future(self._control.follow(self.loops.active)))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                _died(running)
            await self._stop_gracefully()
            return 0
        finally:
            for task in (*ends, *beside):
                task.cancel()
            await asyncio.gather(*ends, *beside, return_exceptions=True)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Asks for a graceful stop; asked again, for a faster one."""
        if self._drain is not None:
            self._drain.hurry()
        self._stop.set()

    async def _stop_gracefully(self) -> None:
        grace = self._options.settings.shutdown_grace_ms
        self._drain = Drain(self.engine, self.loops, grace)
        self.loops.state = "stopped"
        for line in await tell_hook(
            self._host.calls_of("cronpad_stopping"), {"owner": self.engine.parts.owner}, deadline_s=STOPPING_S
        ):
            self._listener.note(line)
        interrupted = await self._drain.run()
        await self.engine.sender.flush(LAST_ALERTS_MS)
        if self.engine.authority.term is not None:
            self._pulse("stopped")
        await self.engine.dispatcher.give_back()
        self._emit(
            DispatcherChanged(
                state="stopped", term=None, reason=f"{interrupted} deliveries were interrupted" if interrupted else ""
            )
        )

    async def _beat(self) -> None:
        """Leaves a pulse beside the state while this process is the active one; a standby writes nothing."""
        await self._active_once.wait()
        self._vitals.note_start()
        while True:
            await self._vitals.look()
            if self.loops.active.is_set():
                self._pulse("active")
            await self.clock.sleep(self.engine.parts.tuning.renew_ms)

    @cached_property
    def _vitals(self) -> Vitals:
        """What the pulse says besides that it beats."""
        return Vitals(self.storage.directory, self.clock, self._host.plugins, self.storage.tools)

    def _pulse(self, dispatcher: str) -> None:
        directory, tuning = self.storage.directory, self.engine.parts.tuning
        if directory is None:
            return
        failing = tuple(sorted(self.engine.patience.failing))
        pulse = Pulse(
            dispatcher=dispatcher,
            pid=os.getpid(),
            term=self.engine.authority.term,
            boot_id=self.clock.boot_id(),
            beat_boot_ms=self.clock.boot_ms(),
            fresh_for_ms=tuning.lock_ttl_ms,
            failing=failing,
            running=len(self.engine.holdings),
            wrong={store: word for store, word in self._vitals.wrong.items() if store in failing},
            degraded=self._vitals.codes(self.engine.worker.abandoned),
            starts=self._vitals.starts,
        )
        write_pulse(directory, pulse)

    def _control_socket(self) -> ControlSocket | None:
        """How other processes ask this one for something while it is the active one; none for a state in memory."""
        directory = self.storage.directory
        if directory is None:
            return None
        name, own = socket_name(self._options.url), {"reload": self._asked_to_reload, "alert-test": self._asked_to_test}
        return ControlSocket(directory, self.engine.desk, name=name, operations=own, note=self._listener.note)

    async def _tell_started(self) -> None:
        await self._active_once.wait()
        for line in await tell_hook(
            self._host.calls_of("cronpad_started"), {"owner": self.engine.parts.owner}, deadline_s=STARTED_S
        ):
            self._listener.note(line)

    async def _prepare(self) -> None:
        await self._vitals.back_off()
        await self.storage.prepare()
        await self._chores.refit()
        await self._apply()

    async def _apply(self) -> Applied:
        applied = await apply(
            self.declared,
            origins=self._origins,
            prune=True,
            catalog=self.engine.catalog,
            history=self.storage.history,
            schedules=self.schedules,
            now=self.clock.wall_ms,
            term=self.engine.authority.term,
        )
        self._listener.applied(applied)
        return applied

    def reload(self) -> None:
        """Reads the files again (SIGHUP): all of them valid, or nothing changes."""
        self._reloading = asyncio.ensure_future(self._reload())

    async def _reload(self) -> None:
        try:
            self._read_again()
        except CronpadError as error:
            report = error.report if isinstance(error, ConfigurationError) else error.message
            self._listener.note(f"reload refused, nothing was changed:\n{report}")
            return
        try:
            if self.engine.authority.trusted():
                await self._apply_again()
        except CronpadError as error:
            self._listener.note(f"the files were read, but applying them broke off: {error.message}; send SIGHUP again")

    def _read_again(self) -> None:
        files = self._options.load()
        self.declared, self._origins = files.jobs, self._origins | files.origins
        self._declare(files.alerts)

    def _declare(self, alerts: Mapping[str, AlertSpec]) -> None:
        self._alerts.replace(alerts)
        self._emitters.replace(alerts)

    async def _apply_again(self) -> Applied:
        applied = await self._apply()
        await self.engine.reconciler.sweep()
        self.engine.wake.ring()
        return applied

    async def _asked_to_reload(self, arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The operation ``reload``: as SIGHUP, but whoever asked is told what became of it."""
        if arguments:
            raise ConfigurationError('"reload" takes no argument')
        self._read_again()
        applied = await self._apply_again()
        return {kind.value: len(applied.of(kind)) for kind in ChangeKind}

    async def _asked_to_test(self, arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The operation ``alert-test``: sends a test by one of the alerts, and answers how that went."""
        name = Arguments("alert-test", arguments, ("alert",)).text("alert")
        error = await send_test(self._emitters, self._alerts.declared, name, now_ms=self.clock.wall_ms())
        return {"alert": name, "sent": error is None, "error": error}

    async def _until_idle(self) -> None:
        """Returns when every job has completed and nothing is queued or running."""
        await self._active_once.wait()
        while True:
            await self.clock.sleep(200)
            if not self.engine.authority.trusted() or not self.loops.idle:
                continue
            counts = await self.storage.queue.counts()
            if counts.due == 0 and counts.in_flight == 0 and not self.engine.advancer.owed and self.loops.idle:
                return


def _died(core: asyncio.Future[None]) -> None:
    """Raises what ended the core: a refusal as it is, anything else as the fault of ours that it is."""
    error = core.exception()
    if isinstance(error, CronpadError):
        raise error
    raise CoreDiedError(f"a core loop ended: {type(error).__name__}: {error}", hint="restart it, and report this") from error


def _policies(host: PluginHost) -> dict[str, MisfirePolicy]:
    return {name: host.registry.misfire(name) for name in host.registry.misfire_models()}


def _plugin_tables(settings: Settings) -> dict[str, Mapping[str, JsonValue]]:
    return {name: table for name, table in settings.plugins.items() if isinstance(table, dict)}
