"""cronpad as one more system of the performance harness: copied beside the harness's own drivers, it speaks their command line.

The engine runs in this process as ``cronpad run`` builds it: the same line, loops and SQLite files; only the jobs are stored by
this file instead of being read from one.

``--sync FULL|NORMAL`` is ``durable`` on or off. ``--how native`` lets 1,000 runs be under way at once, as the drivers of the peers
do; ``--how defaults`` keeps cronpad's own 64. ``--sink noop`` is a sink object that notes the call; ``command`` goes through the
plugin host to cronpad-command. ``--mode drain`` stores one-shot jobs that are due already; the clock starts when the runner is
active, before its first claim. ``--mode scale`` stores ``--idle-jobs`` in another process first.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from pathlib import Path
from typing import Any

import common  # of the harness, beside which this file is copied

from cronpad_core.api import Delivered, Delivery, JobSpec, Outcome, ScheduleSpec, SinkSpec, StorageOptions
from cronpad_core.builtin.misfire import Latest
from cronpad_core.control.apply import Declared, apply
from cronpad_core.domain.events import DispatcherChanged, Event
from cronpad_core.domain.job import Job, JobStatus, JobVersion
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.worker import Sinks
from cronpad_core.ports.catalog import JobWrite
from cronpad_core.runtime.clock import SystemClock
from cronpad_core.runtime.compose import Parts, compose
from cronpad_core.runtime.identity import ProcessIdentity
from cronpad_core.runtime.interpreter import settle_interpreter
from cronpad_core.runtime.loops import Loops
from cronpad_core.runtime.schedules import ScheduleBook
from cronpad_sql.storage import SqliteStorage

_DAY_MS = 86_400_000
_ALLOW = OverlapRule(policy=OverlapPolicy.ALLOW, max=1_000)


class NoWork:
    """Sinks that do nothing, at once."""

    def available(self, sink_type: str) -> bool:
        return True

    def graceful(self, sink_type: str) -> bool:
        return False

    async def deliver(self, sink_type: str, settings_key: Hashable, delivery: Delivery) -> Outcome:
        return Delivered()


class Measured:
    """Sinks whose every call is told to the harness: its start before anything else, its end after everything."""

    def __init__(self, bench: Any, inner: Sinks, due: Callable[[Delivery], float]) -> None:
        self._bench = bench
        self._inner = inner
        self._due = due
        self.available = inner.available
        self.graceful = inner.graceful

    async def deliver(self, sink_type: str, settings_key: Hashable, delivery: Delivery) -> Outcome:
        self._bench.start(number_of(delivery), self._due(delivery))
        outcome = await self._inner.deliver(sink_type, settings_key, delivery)
        self._bench.done()
        return outcome


def number_of(delivery: Delivery) -> int:
    return int(delivery.job_name.rpartition("-")[2])


def sinks_for(kind: str) -> tuple[Sinks, SinkSpec]:
    if kind == "noop":
        return NoWork(), SinkSpec(type="none")
    if kind == "command":
        from cronpad_core.host.loader import load_plugins
        from cronpad_core.host.sinks import SinkPool
        from cronpad_core.runtime.sinks import HostSinks

        registry = load_plugins(os.environ).registry
        pool = SinkPool(registry, environ=os.environ, secret=str)
        return HostSinks(registry, pool), SinkSpec(type="command", settings={"command": ["/bin/true"]})
    sys.exit(f"drv_cronpad has no sink '{kind}' yet")


def repeating(numbers: Iterable[int], sink: SinkSpec, offset_ms: Callable[[int], int]) -> list[Declared]:
    """One fire a second for each."""
    return [
        Declared(
            spec=JobSpec(
                name=f"job-{number}",
                schedule=ScheduleSpec(texts=("* * * * * *",)),
                sink=sink,
                overlap=_ALLOW,
                offset_ms=offset_ms(number),
            ),
            origin="bench",
        )
        for number in numbers
    ]


def due_already(count: int, sink: SinkSpec, now_ms: int) -> list[JobWrite]:
    """One-shot jobs whose only slot was a second ago, stored as if an earlier runner had left them."""
    slot_ms = now_ms - 1_000
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(slot_ms // 1_000))
    slot_ms = slot_ms // 1_000 * 1_000
    writes = []
    for number in range(count):
        spec = JobSpec(
            name=f"job-{number}", schedule=ScheduleSpec(texts=(f"at {at}Z",), anchor_ms=0), sink=sink, grace_ms=3_600_000
        )
        job = Job(
            id=f"job_bench_{number}",
            origin="bench",
            version=1,
            status=JobStatus.ACTIVE,
            spec=spec,
            next_run_at_ms=slot_ms,
            valid_from_ms=slot_ms - 1_000,
        )
        begins = JobVersion(job_id=job.id, version=1, spec=spec, valid_from_ms=job.valid_from_ms)
        writes.append(JobWrite(job=job, expected=None, begins=begins))
    return writes


def idle(count: int, sink: SinkSpec) -> list[Declared]:
    """Jobs that are due once a day, tomorrow."""
    now = time.gmtime(time.time() + 12 * 3_600)
    return [
        Declared(
            spec=JobSpec(name=f"idle-{number}", schedule=ScheduleSpec(texts=(f"{number % 60} {now.tm_hour} * * *",)), sink=sink),
            origin="idle",
        )
        for number in range(count)
    ]


class Runner:
    """An engine on a state directory, from its start until it has left everything in order."""

    def __init__(self, directory: Path, sinks: Sinks, *, durable: bool, tuning: Tuning, emit: Callable[[Event], None]) -> None:
        clock = SystemClock()
        self.clock, self.book = clock, ScheduleBook()
        self.storage = SqliteStorage(StorageOptions(url=f"sqlite://{directory}", wall_ms=clock.wall_ms, durable=durable))
        self.identity = ProcessIdentity(directory, clock, "bench")
        self.engine = compose(
            Parts(
                storage=self.storage,
                sinks=sinks,
                policies={"latest": Latest()},
                schedules=self.book,
                clock=clock,
                liveness=self.identity,
                draw=functools.partial(secrets.token_hex, 8),
                emit=emit,
                tuning=tuning,
                owner="bench",
            )
        )

    async def apply(self, declared: list[Declared]) -> None:
        storage = self.storage
        await apply(
            declared,
            origins=sorted({one.origin for one in declared}),
            prune=False,
            catalog=self.engine.catalog,
            history=storage.history,
            schedules=self.book,
            now=self.clock.wall_ms,
            term=self.engine.authority.term,
        )

    @contextlib.asynccontextmanager
    async def running(self, store: Callable[[], Awaitable[None]]):  # type: ignore[no-untyped-def]  # a script beside the harness
        async def prepare() -> None:
            await self.storage.prepare()
            await store()

        await self.storage.open()
        loops = Loops(self.engine, prepare=prepare)
        task = asyncio.ensure_future(loops.run())
        active = asyncio.ensure_future(loops.active.wait())
        await asyncio.wait({task, active}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await loops.abandon_lines()
            await self.engine.dispatcher.give_back()
            await self.storage.close()
            self.identity.close()


async def main() -> None:
    a = common.parse("cronpad", store="sqlite")
    logging.disable(logging.CRITICAL)
    b = common.Bench(a)
    directory = Path(common.DATA, "cronpad")
    inner, sink = sinks_for(a.sink)
    tuning = Tuning(workers=64 if a.how == "defaults" else 1_000, fast=a.sync != "FULL")
    if a.phase == "populate":
        await populate(directory, a, inner, sink, tuning)
        return
    shutil.rmtree(directory, ignore_errors=True)
    if a.mode == "drain":
        await drain(directory, a, b, inner, sink, tuning)
        return
    if a.mode == "scale":
        began = time.time()
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--phase", "populate"], check=True)
        b.load_s = round(time.time() - began, 2)
    offsets = {number: int(b.offset(number) * 1_000) for number in range(a.jobs)}
    measured = Measured(b, inner, lambda delivery: (delivery.slot_at_ms + offsets[number_of(delivery)]) / 1_000)
    runner = Runner(directory, measured, durable=a.sync == "FULL", tuning=tuning, emit=lambda event: None)
    began = time.time()
    async with runner.running(lambda: runner.apply(repeating(range(a.jobs), sink, offsets.__getitem__))):
        b.notes["start_s"] = round(time.time() - began, 3)
        base = b.set_base(3.0)
        b.done = lambda: setattr(b, "ends", b.ends + (time.time() >= base))  # what fires before the window is no part of it
        await b.window()
    b.finish()


async def populate(directory: Path, a: Any, inner: Sinks, sink: SinkSpec, tuning: Tuning) -> None:
    runner = Runner(directory, inner, durable=False, tuning=tuning, emit=lambda event: None)
    async with runner.running(lambda: runner.apply(idle(a.idle_jobs, sink))):
        pass


async def drain(directory: Path, a: Any, b: Any, inner: Sinks, sink: SinkSpec, tuning: Tuning) -> None:
    began = 0.0

    def emit(event: Event) -> None:
        nonlocal began
        if isinstance(event, DispatcherChanged) and event.state == "active":
            b.load_s = round(time.time() - loading, 2)
            b.mark()
            began = time.time()

    sinks = Measured(b, inner, lambda delivery: 0.0)
    runner = Runner(directory, sinks, durable=a.sync == "FULL", tuning=tuning, emit=emit)

    async def store() -> None:
        await runner.engine.catalog.write(due_already(a.due, sink, runner.clock.wall_ms()), term=runner.engine.authority.term)

    loading = time.time()
    async with runner.running(store):
        limit = began + 180
        while b.ends < a.due and time.time() < limit:
            await asyncio.sleep(0.01)
        took = time.time() - began
        while (counts := await runner.storage.queue.counts()).due + counts.in_flight and time.time() < limit:
            await asyncio.sleep(0.01)
        b.notes["acked_s"] = round(time.time() - began, 3)
        b.mark_end()
    b.finish_drain(b.ends, took)


if __name__ == "__main__":
    settle_interpreter()  # as `cronpad run` does
    asyncio.run(main())
