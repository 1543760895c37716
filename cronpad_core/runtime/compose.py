"""Building an engine out of its parts: the only place that knows them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cronpad_core.control.desk import Desk
from cronpad_core.control.pausing import pause_for_sink
from cronpad_core.domain.occurrence import Occurrence
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.advancer import Advancer
from cronpad_core.engine.alert_book import AlertBook
from cronpad_core.engine.alerts import AlertSender
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.budget import ReplayBudget
from cronpad_core.engine.catchup import CatchUp
from cronpad_core.engine.claimer import Claimer
from cronpad_core.engine.clock_watch import ClockWatch
from cronpad_core.engine.dispatcher import Dispatcher
from cronpad_core.engine.gate import Gate
from cronpad_core.engine.holds import Holds
from cronpad_core.engine.job_cache import JobCache
from cronpad_core.engine.leases import LeaseKeeper
from cronpad_core.engine.opener import Opener
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.engine.reaper import Reaper
from cronpad_core.engine.reconciler import Reconciler
from cronpad_core.engine.recorder import Recorder
from cronpad_core.engine.rewinder import PutNext, Rewinder
from cronpad_core.engine.rush import Rush
from cronpad_core.engine.settle import Settle
from cronpad_core.engine.ticket import Holdings
from cronpad_core.engine.wakeup import WakeUp
from cronpad_core.engine.worker import Sinks, Worker
from cronpad_core.ports.alerts import Alert, Emitters
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.liveness import Liveness
from cronpad_core.ports.misfire import MisfirePolicy
from cronpad_core.ports.schedule import ScheduleReader
from cronpad_core.ports.storage import Storage
from cronpad_core.runtime.line import Line

__all__ = ["Engine", "Parts", "compose"]


class NoEmitters:
    """Sends nothing, and says so."""

    async def emit(self, name: str, alert: Alert) -> None:
        """Raises ``LookupError``."""
        raise LookupError(f'the alert "{name}" has no emitter here')


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an engine is built from. ``draw`` answers a fresh random word; ``owner`` names this process in the queue."""

    storage: Storage
    sinks: Sinks
    policies: Mapping[str, MisfirePolicy]
    schedules: ScheduleReader
    clock: Clock
    liveness: Liveness
    draw: Callable[[], str]
    emit: Emit
    tuning: Tuning
    owner: str
    alerts: AlertBook = field(default_factory=AlertBook)
    emitters: Emitters = field(default_factory=NoEmitters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The moving parts, ready to be driven by the loops."""

    parts: Parts
    catalog: JobCache
    authority: Authority
    patience: Patience
    holdings: Holdings
    wake: WakeUp
    dispatcher: Dispatcher
    claimer: Claimer
    line: Line
    leases: LeaseKeeper
    reaper: Reaper
    reconciler: Reconciler
    rewinder: Rewinder
    watch: ClockWatch
    budget: ReplayBudget
    advancer: Advancer
    worker: Worker
    sender: AlertSender
    desk: Desk


def compose(parts: Parts) -> Engine:
    """Builds the engine; touches nothing. Must be called where its event loop runs."""
    clock, emit, tuning, storage = parts.clock, parts.emit, parts.tuning, parts.storage
    authority = Authority(clock)
    shared = _Shared(
        parts=parts,
        catalog=JobCache(storage.catalog),
        authority=authority,
        patience=Patience(clock, authority, emit),
        holdings=Holdings(),
        wake=WakeUp(),
        budget=ReplayBudget(clock, rate=tuning.replay_rate, workers=tuning.workers),
    )
    patience, holdings = shared.patience, shared.holdings
    line = shared.line()
    return Engine(
        parts=parts,
        catalog=shared.catalog,
        authority=authority,
        patience=patience,
        holdings=holdings,
        wake=shared.wake,
        dispatcher=Dispatcher(
            catalog=shared.catalog,
            history=storage.history,
            queue=storage.queue,
            clock=clock,
            liveness=parts.liveness,
            authority=authority,
            patience=patience,
            tuning=tuning,
            draw=parts.draw,
            emit=emit,
        ),
        claimer=Claimer(
            queue=storage.queue,
            clock=clock,
            authority=authority,
            holdings=holdings,
            patience=patience,
            tuning=tuning,
            owner=parts.owner,
            emit=emit,
        ),
        line=line,
        leases=line.leases,
        reaper=Reaper(queue=storage.queue, clock=clock, authority=authority, holdings=holdings, patience=patience, tuning=tuning),
        reconciler=shared.reconciler(),
        rewinder=shared.rewinder(line.advancer.put_fire),
        watch=ClockWatch(clock, emit),
        budget=shared.budget,
        advancer=line.advancer,
        worker=line.worker,
        sender=shared.sender(),
        desk=shared.desk(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What most parts are built from."""

    parts: Parts
    catalog: JobCache
    authority: Authority
    patience: Patience
    holdings: Holdings
    wake: WakeUp
    budget: ReplayBudget

    def line(self) -> Line:
        """The line with its steps."""
        parts = self.parts
        clock, emit, tuning, patience = parts.clock, parts.emit, parts.tuning, self.patience
        rush = Rush()
        queue, history, catalog, schedules = parts.storage.queue, parts.storage.history, self.catalog, parts.schedules
        return Line(
            gate=self._gate(),
            catchup=CatchUp(
                catalog=catalog,
                history=history,
                patience=patience,
                schedules=schedules,
                policies=parts.policies,
                emit=emit,
                alerts=parts.alerts,
            ),
            opener=self._opener(),
            advancer=Advancer(
                catalog=catalog,
                queue=queue,
                clock=clock,
                patience=patience,
                schedules=schedules,
                budget=self.budget,
                wake=self.wake,
            ),
            worker=Worker(
                sinks=parts.sinks, clock=clock, authority=self.authority, tuning=tuning, present=queue.present, emit=emit
            ),
            recorder=self._recorder(rush),
            settle=Settle(queue=queue, clock=clock, patience=patience, wake=self.wake),
            leases=self._leases(),
            holdings=self.holdings,
            holds=Holds(),
            budget=self.budget,
            rush=rush,
            fast=tuning.fast,
            authority=self.authority,
            clock=clock,
            wake=self.wake,
            emit=emit,
            pause=self._pause_job,
        )

    def _opener(self) -> Opener:
        parts = self.parts
        return Opener(
            catalog=self.catalog,
            history=parts.storage.history,
            clock=parts.clock,
            patience=self.patience,
            holdings=self.holdings,
            tuning=parts.tuning,
            available=parts.sinks.available,
            emit=parts.emit,
            alerts=parts.alerts,
        )

    def sender(self) -> AlertSender:
        """The part that sends alerts."""
        parts = self.parts
        return AlertSender(
            history=parts.storage.history,
            emitters=parts.emitters,
            book=parts.alerts,
            clock=parts.clock,
            authority=self.authority,
            patience=self.patience,
            emit=parts.emit,
        )

    def _gate(self) -> Gate:
        parts = self.parts
        return Gate(
            catalog=self.catalog,
            history=parts.storage.history,
            clock=parts.clock,
            patience=self.patience,
            schedules=parts.schedules,
            tuning=parts.tuning,
            emit=parts.emit,
            alerts=parts.alerts,
        )

    def _recorder(self, rush: Rush) -> Recorder:
        parts = self.parts
        return Recorder(
            history=parts.storage.history,
            clock=parts.clock,
            patience=self.patience,
            tuning=parts.tuning,
            rush=rush,
            emit=parts.emit,
            alerts=parts.alerts,
        )

    def desk(self) -> Desk:
        """The desk of control operations: its writes count under the engine's term, and its words reach its deliveries."""
        authority, parts = self.authority, self.parts
        return Desk(
            catalog=self.catalog,
            history=parts.storage.history,
            queue=parts.storage.queue,
            schedules=parts.schedules,
            clock=parts.clock,
            term=lambda: authority.term if authority.trusted() else None,
            wake=self.wake.offer,
            tell=self.holdings.tell,
            emit=parts.emit,
        )

    async def _pause_job(self, occurrence: Occurrence, reason: str) -> None:
        await pause_for_sink(self.desk(), occurrence.job_id, occurrence.job_version, reason=reason)

    def _leases(self) -> LeaseKeeper:
        parts = self.parts
        return LeaseKeeper(
            queue=parts.storage.queue,
            history=parts.storage.history,
            authority=self.authority,
            holdings=self.holdings,
            patience=self.patience,
            tuning=parts.tuning,
            owner=parts.owner,
            emit=parts.emit,
        )

    def reconciler(self) -> Reconciler:
        """The part that repairs."""
        parts = self.parts
        return Reconciler(
            catalog=self.catalog,
            history=parts.storage.history,
            queue=parts.storage.queue,
            clock=parts.clock,
            authority=self.authority,
            holdings=self.holdings,
            patience=self.patience,
            schedules=parts.schedules,
            budget=self.budget,
            tuning=parts.tuning,
            emit=parts.emit,
        )

    def rewinder(self, put_next: PutNext) -> Rewinder:
        """The part that puts right what a clock that was ahead left behind."""
        parts = self.parts
        return Rewinder(
            catalog=self.catalog,
            history=parts.storage.history,
            queue=parts.storage.queue,
            clock=parts.clock,
            authority=self.authority,
            patience=self.patience,
            schedules=parts.schedules,
            put_next=put_next,
            emit=parts.emit,
        )
