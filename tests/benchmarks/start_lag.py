"""How late jobs start, and what an idle runner costs. Prints tables; decides nothing.

    python tests/benchmarks/start_lag.py                  1, 200 and 500 jobs on one instant each second; idle with 1,000 jobs
    python tests/benchmarks/start_lag.py --seconds 30 --jobs 1

Lag is from the scheduled instant to the first line of the sink's ``deliver``, on SQLite in the given durability, with a sink that
does nothing. The idle figure is the processor time of a ``cronpad run`` whose 1,000 jobs are all hours away.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Hashable
from pathlib import Path

from cronpad_core.api import Delivered, Delivery, JobSpec, Outcome, ScheduleSpec, SinkSpec, StorageOptions
from cronpad_core.builtin.misfire import Latest
from cronpad_core.control.apply import Declared, apply
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.tuning import Tuning
from cronpad_core.runtime.clock import SystemClock
from cronpad_core.runtime.compose import Parts, compose
from cronpad_core.runtime.identity import ProcessIdentity
from cronpad_core.runtime.loops import Loops
from cronpad_core.runtime.schedules import ScheduleBook
from cronpad_sql.storage import SqliteStorage


class NoWork:
    """Sinks that note when they are called."""

    def __init__(self) -> None:
        self.lags_ms: list[float] = []

    def available(self, sink_type: str) -> bool:
        return True

    def graceful(self, sink_type: str) -> bool:
        return True

    async def deliver(self, sink_type: str, settings_key: Hashable, delivery: Delivery) -> Outcome:
        self.lags_ms.append(time.time() * 1000 - delivery.slot_at_ms)
        return Delivered()


def every_second(jobs: int) -> list[Declared]:
    return [
        Declared(
            spec=JobSpec(
                name=f"job-{number}",
                schedule=ScheduleSpec(texts=("* * * * * *",)),
                sink=SinkSpec(type="none"),
                overlap=OverlapRule(policy=OverlapPolicy.ALLOW, max=10),
            ),
            origin="bench",
        )
        for number in range(jobs)
    ]


async def measure(jobs: int, seconds: float, durable: bool, directory: Path) -> tuple[list[float], float]:
    clock, sinks, book = SystemClock(), NoWork(), ScheduleBook()
    storage = SqliteStorage(StorageOptions(url=f"sqlite://{directory}", wall_ms=clock.wall_ms, durable=durable))
    await storage.open()
    identity = ProcessIdentity(directory, clock, "bench")
    engine = compose(
        Parts(
            storage=storage,
            sinks=sinks,
            policies={"latest": Latest()},
            schedules=book,
            clock=clock,
            liveness=identity,
            draw=lambda: secrets.token_hex(8),
            emit=lambda event: None,
            tuning=Tuning(workers=1_000),
            owner="bench",
        )
    )

    async def prepare() -> None:
        await storage.prepare()
        await apply(
            every_second(jobs),
            origins=["bench"],
            prune=False,
            catalog=storage.catalog,
            history=storage.history,
            schedules=book,
            now=clock.wall_ms,
            term=engine.authority.term,
        )

    loops = Loops(engine, prepare=prepare)
    running = asyncio.ensure_future(loops.run())
    await loops.active.wait()
    await asyncio.sleep(2.5)
    sinks.lags_ms.clear()
    began = time.process_time()
    await asyncio.sleep(seconds)
    cpu, lags = time.process_time() - began, list(sinks.lags_ms)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await loops.abandon_lines()
    await engine.dispatcher.give_back()
    await storage.close()
    identity.close()
    return lags, cpu


def sync_ms(directory: Path) -> float:
    """What one small append and sync takes on that disk, at the median: FULL pays it twice before a start."""
    took = []
    with Path(directory, "probe").open("wb", buffering=0) as probe:
        for _ in range(30):
            probe.write(bytes(4096))
            began = time.perf_counter()
            os.fdatasync(probe.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def idle(jobs: int, seconds: float) -> float:
    """The share of one core that an idle runner with that many jobs uses, in percent."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "jobs.json")
        hour = (time.gmtime().tm_hour + 12) % 24
        declared = [
            {"name": f"job-{number}", "schedule": f"{number % 60} {hour} * * *", "command": "true"} for number in range(jobs)
        ]
        path.write_text(json.dumps({"jobs": declared}))
        runner = subprocess.Popen(
            [sys.executable, "-m", "cronpad_core.cli.main", "run", str(path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert runner.stderr is not None
        for line in runner.stderr:
            if '"active"' in line:
                break
        time.sleep(2)
        before = _cpu(runner.pid)
        time.sleep(seconds)
        used = _cpu(runner.pid) - before
        runner.terminate()
        runner.wait()
        return used / seconds * 100


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=15)
    options.add_argument("--jobs", type=int, nargs="*", default=[1, 200, 500])
    options.add_argument("--no-idle", action="store_true")
    given = options.parse_args()
    columns = f"{'p50 ms':>7}  {'p99 ms':>7}  {'max ms':>7}  {'CPU ms/fire':>11}  {'a sync, ms':>10}"
    print(f"{'jobs':>5}  {'durability':<10}  {'starts':>7}  {columns}")
    for jobs in given.jobs:
        for durable in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                sync = sync_ms(Path(folder))
                lags, cpu = asyncio.run(measure(jobs, given.seconds, durable, Path(folder, "state")))
            lags.sort()
            p99 = lags[min(len(lags) - 1, int(len(lags) * 0.99))]
            name = "FULL" if durable else "NORMAL"
            print(
                f"{jobs:>5}  {name:<10}  {len(lags):>7}  {statistics.median(lags):>7.2f}  {p99:>7.2f}  {lags[-1]:>7.2f}"
                f"  {cpu / len(lags) * 1000:>11.3f}  {sync:>10.2f}",
                flush=True,
            )
    if not given.no_idle:
        print(f"idle with 1,000 jobs: {idle(1_000, given.seconds):.2f} % of a core")


if __name__ == "__main__":
    main()
