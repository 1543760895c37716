"""A machine in virtual time: processes that run the real engine over one shared memory state.

Every port call is a scheduling point with two sides, and at each of them a process may be killed, frozen or lied to. A killed
process does nothing more: its tasks are cancelled and its port calls end in cancellation. A frozen one waits in its next port
call. What the sinks were handed is kept by a witness that no process can change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any, cast

from faults import FragileQueue
from mouth import Mouth, fine
from rules import Rules, SafeCatalog, SafeHistory
from sinks import Act, ScriptedSinks, Sent
from watch import WatchedCatalog, WatchedHistory, WatchedQueue

from cronpad_core.builtin.memory import MemoryState, MemoryStorage
from cronpad_core.builtin.misfire import All, Earliest, Latest, Skip
from cronpad_core.control.apply import Declared, apply
from cronpad_core.domain.alerts import AlertSpec
from cronpad_core.domain.errors import StoreError
from cronpad_core.domain.events import Event, LineFailed
from cronpad_core.domain.occurrence import RunKey
from cronpad_core.domain.run import Run
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.alert_book import AlertBook
from cronpad_core.engine.retention import Keep
from cronpad_core.ports.alerts import Alert
from cronpad_core.ports.schedule import ScheduleReader
from cronpad_core.ports.sink import Delivery
from cronpad_core.ports.storage import StorageOptions
from cronpad_core.runtime.chores import Chores
from cronpad_core.runtime.compose import Engine, Parts, compose
from cronpad_core.runtime.drain import Drain
from cronpad_core.runtime.loops import Loops
from cronpad_core.runtime.schedules import ScheduleBook
from cronpad_testkit.clock import VirtualClock
from cronpad_testkit.tripwire import Action, Call, Plan, Tripwire

__all__ = ["QUICK", "Act", "Process", "Sent", "World"]

_CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
_KEEP_ALL = 10**9

QUICK = Tuning(
    workers=4,
    claim_batch=3,
    lease_ms=20_000,
    reconcile_ms=5_000,
    overdue_grace_ms=10_000,
    lock_ttl_ms=8_000,
    renew_ms=2_000,
    cancel_grace_ms=2_000,
)
"""The engine's figures scaled to about a third, as in the design's own model."""


class _Task(asyncio.Task[Any]):
    """A task with a hash that is the same in every run, so that sets of tasks have one order."""

    made = 0

    def __init__(self, *args: Any, **rest: Any) -> None:
        _Task.made += 1
        self._number = _Task.made
        super().__init__(*args, **rest)

    def __hash__(self) -> int:
        return self._number


def _factory(loop: asyncio.AbstractEventLoop, coro: Any, **rest: Any) -> asyncio.Task[Any]:
    context: Context | None = rest.get("context")
    process = _CURRENT.get() if context is None else context.get(_CURRENT)
    task = _Task(coro, loop=loop, **rest)
    if process is not None:
        process.tasks.add(task)
        task.add_done_callback(process.tasks.discard)
    return task


class _Clock:
    """The machine's clock as a process sees it: a frozen one oversleeps."""

    def __init__(self, process: Process, clock: VirtualClock) -> None:
        self._process = process
        self.wall_ms, self.boot_ms, self.boot_id = clock.wall_ms, clock.boot_ms, clock.boot_id
        self.suspended_ms = clock.suspended_ms

    async def sleep(self, duration_ms: int) -> None:
        await self._process.world.clock.sleep(duration_ms)
        await self._process.thawed()

    async def until(self, wall_ms: int) -> None:
        await self._process.world.clock.until(wall_ms)
        await self._process.thawed()


class _Life:
    """What processes of one machine know of each other: who is gone for good."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def me(self) -> str:
        return self._process.name

    def dead(self, holder: str) -> bool:
        return any(one.name == holder and not one.alive for one in self._process.world.processes)


class Process:
    """One incarnation of one process: from its start to its death."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.alive = True
        self.frozen_until_ms = 0
        self.tasks: set[asyncio.Task[Any]] = set()
        self.delivering: dict[RunKey, int] = {}
        self.plan: Plan = lambda call: None
        self.calls: list[Call] = []
        self.at_delivery: Callable[[Sent], Coroutine[Any, Any, None]] | None = None
        self.crash: BaseException | None = None
        inner = MemoryStorage(StorageOptions(url="memory://", wall_ms=world.clock.wall_ms), state=world.state, keep=_KEEP_ALL)
        for store, watched in (("queue", WatchedQueue), ("catalog", WatchedCatalog), ("history", WatchedHistory)):
            base = world.broken(getattr(inner, store), self)
            setattr(inner, store, watched(FragileQueue(base, self) if store == "queue" else base, self))
        self.wire = Tripwire(plan=self._plan, between=self.pace)
        self.storage = self.wire.storage(inner)
        with self._within():
            self.engine: Engine = world.rebuild(
                compose(
                    Parts(
                        storage=self.storage,
                        sinks=ScriptedSinks(self),
                        policies={policy.name: policy() for policy in (Latest, Earliest, All, Skip)},
                        schedules=world.schedules,
                        clock=_Clock(self, world.clock),
                        liveness=_Life(self),
                        draw=world.draw,
                        emit=self._emit,
                        tuning=world.tuning,
                        owner=name,
                        alerts=AlertBook(world.alerts),
                        emitters=Mouth(self),
                    )
                )
            )
            self.loops = Loops(self.engine, prepare=self._prepare, chores=self._chores())
        self.running = self.spawn(self._run())

    # --- inside -------------------------------------------------------------------------------------------------------------------
    @contextmanager
    def _within(self) -> Iterator[None]:
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs something as a part of this process: it dies with it."""
        context = copy_context()
        context.run(_CURRENT.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    async def _run(self) -> None:
        try:
            await self.storage.open()
            await self.loops.run()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.crash = error
            if self.alive:
                self.world.note(self.name, "crashes", repr(error))
                self.world.rules.bad("crash", f"{self.name}: {error!r}")
                self.kill()

    def _chores(self) -> Sequence[Callable[[], Coroutine[Any, Any, int]]]:
        """Feeding backfills and ending pauses; what comes once in minutes is left to the storm."""
        if self.world.alerts:
            return (self.engine.sender.step,)
        if not self.world.chores:
            return ()
        every = Chores(self.engine, self.engine.desk, ScheduleBook(), Keep()).all
        return cast("Sequence[Callable[[], Coroutine[Any, Any, int]]]", every[:2])

    async def _prepare(self) -> None:
        await self.storage.prepare()
        await self.apply()

    async def apply(self) -> None:
        """Applies what the world declares, as a runner applies its files."""
        await apply(
            self.world.declared,
            origins=frozenset({"sim"}),
            prune=True,
            catalog=self.engine.catalog,
            history=self.storage.history,
            schedules=self.world.schedules,
            now=self.world.clock.wall_ms,
            term=self.engine.authority.term,
        )

    async def reload(self) -> None:
        """What SIGHUP does: apply, then look for what is missing."""
        if self.engine.authority.trusted():
            await self.apply()
            await self.engine.reconciler.sweep()
            self.engine.wake.ring()

    def _emit(self, event: Event) -> None:
        if self.alive:
            self.world.events.append((self.world.clock.boot_ms(), self.name, event))
            self.world.rules.hit(type(event).__name__)
            self.world.note(self.name, "tells", event)
            if isinstance(event, LineFailed):
                self.world.rules.bad("crash", f"{self.name}: a line failed: {event.error}")

    def _plan(self, call: Call) -> Action | None:
        self.calls.append(call)
        return self.plan(call)

    async def pace(self) -> None:
        """One side of a port call: a scheduling point, where a dead process ends and a frozen one waits."""
        pause = self.world.pause(self)
        await asyncio.sleep(pause / 1_000 if pause else 0)
        await self.thawed()

    async def thawed(self) -> None:
        """Returns when the process is not frozen; never in a dead one."""
        while self.alive and self.world.clock.boot_ms() < self.frozen_until_ms:
            await asyncio.sleep((self.frozen_until_ms - self.world.clock.boot_ms()) / 1_000)
        if not self.alive:
            raise asyncio.CancelledError

    # --- from outside -------------------------------------------------------------------------------------------------------------
    def kill(self) -> None:
        """SIGKILL: no step of this process is taken any more."""
        if self.alive:
            self.world.note("KILL", self.name)
            self.alive = False
            for task in list(self.tasks):
                task.cancel()

    def freeze(self, for_ms: int) -> None:
        """SIGSTOP, and SIGCONT after ``for_ms``."""
        self.world.note("FREEZE", self.name, for_ms)
        self.frozen_until_ms = max(self.frozen_until_ms, self.world.clock.boot_ms() + for_ms)

    async def stop(self, grace_ms: int = 5_000) -> int:
        """SIGTERM, as the runner's life cycle does it; answers how many deliveries did not finish."""
        self.world.note("STOP", self.name)
        interrupted = 0
        try:
            interrupted = await Drain(self.engine, self.loops, grace_ms).run()
            await self.engine.dispatcher.give_back()
        except StoreError as error:
            self.world.rules.bad("crash", f"{self.name} while stopping: {error!r}")
        self.kill()
        return interrupted

    @property
    def active(self) -> bool:
        """Whether it dispatches, as far as it knows."""
        return self.alive and self.loops.active.is_set()


class World:
    """One machine, its state, its processes and its witness."""

    def __init__(
        self, clock: VirtualClock, *, tuning: Tuning = QUICK, jobs: Iterable[Declared] = (), tracing: bool = False
    ) -> None:
        self.clock, self.tuning = clock, tuning
        self.rules = Rules(self)
        catalog, history = SafeCatalog(), SafeHistory()
        catalog.rules = history.rules = self.rules
        self.state = MemoryState(catalog=catalog, history=history)
        self.schedules: ScheduleReader = ScheduleBook()
        self.declared: list[Declared] = list(jobs)
        self.processes: list[Process] = []
        self.damaged: dict[int, object] = {}
        self.witness: list[Sent] = []
        self.events: list[tuple[int, str, Event]] = []
        self.script: Callable[[Delivery], Act] = lambda delivery: Act()
        self.pause: Callable[[Process], int] = lambda process: 0
        self.broken: Callable[[Any, Process], Any] = lambda store, process: store
        self.rebuild: Callable[[Engine], Engine] = lambda engine: engine
        self.chores = False
        self.alerts: dict[str, AlertSpec] = {}
        self.said: list[tuple[int, str, Alert]] = []
        self.emitting: Callable[[str, Alert, int], Coroutine[Any, Any, None]] = fine
        self.log: list[str] | None = [] if tracing else None
        self._drawn = 0
        self._kept: set[asyncio.Task[Any]] = set()
        self._breached = asyncio.Event()
        self.rules.on_breach = self._breached.set
        _Task.made = 0
        loop = asyncio.get_running_loop()
        loop.set_task_factory(_factory)
        loop.set_exception_handler(self._unhandled)

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.rules.bad("unhandled", f"{context.get('message')}: {context.get('exception')!r}")

    def draw(self) -> str:
        """A fresh word, the same in every run of a seed."""
        self._drawn += 1
        return f"word-{self._drawn}"

    def note(self, *what: object) -> None:
        """A line of the trace."""
        if self.log is not None:
            self.log.append(f"{self.clock.boot_ms():>10} {self.clock.wall_ms()}  {' '.join(map(str, what))}")

    def overlaps(self, process: Process, delivery: Delivery) -> None:
        """S11: with ``skip``, one delivery of a job at a time inside one trusted process."""
        if not process.engine.authority.trusted():
            return
        live = sorted(key for key, count in process.delivering.items() if count and key.job_id == delivery.job_id)
        # A run keeps the settings that it started with, so the most generous of those that run counts.
        limits = [run.spec.overlap.limit for key in live if (run := self.state.history.runs.get(key)) is not None]
        if limits and len(live) > max(limits):
            self.rules.bad("S11", f"{process.name} delivers {len(live)} runs of {delivery.job_id} at once: {live}")

    def keep(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs something that belongs to no process."""
        task = asyncio.ensure_future(work)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)

    def start(self) -> Process:
        """Starts a process."""
        process = Process(self, f"P{len(self.processes) + 1}")
        self.note("START", process.name)
        self.processes.append(process)
        return process

    async def run(self, for_ms: int) -> None:
        """Lets time pass; raises the first breach of a rule."""
        if self.rules.breach is None:
            waiting = asyncio.ensure_future(self._breached.wait())
            await asyncio.wait({waiting}, timeout=for_ms / 1_000)
            waiting.cancel()
        if self.rules.breach is not None:
            raise self.rules.breach

    async def until(self, condition: Callable[[], bool], *, within_ms: int = 60_000) -> None:
        """Lets time pass until something holds, looking every 10 ms."""
        end = self.clock.boot_ms() + within_ms
        while not condition():
            if self.clock.boot_ms() >= end:
                raise AssertionError(f"did not come true within {within_ms} ms of virtual time")
            await self.run(10)

    # --- asking -------------------------------------------------------------------------------------------------------------------
    def runs(self, name: str | None = None) -> list[Run]:
        """The runs as stored, by scheduled time; of one job, by its name."""
        found = [run for run in self.state.history.runs.values() if name is None or run.spec.name == name]
        return sorted(found, key=lambda run: run.key)

    def sent(self, name: str | None = None) -> list[Sent]:
        """What the witness saw, in order; of one job, by its name."""
        return [one for one in self.witness if name is None or one.delivery.job_name == name]

    def told(self, kind: type) -> list[Any]:
        """The events of one kind."""
        return [event for _, _, event in self.events if isinstance(event, kind)]

    def members(self) -> list[str]:
        """All entries of the queue."""
        file = self.state.queue.file
        return [] if file is None else file.members()

    def end(self) -> None:
        """Ends all processes."""
        for process in self.processes:
            process.kill()
