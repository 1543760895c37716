"""A tripwire fires where it was told to, and nowhere else."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from cronpad_core.api import CommitUnknownError, Entry, Storage, StorageOptions, StoreBusyError
from cronpad_core.builtin.memory import MemoryStorage
from cronpad_testkit.clock import VirtualClock, run_virtual
from cronpad_testkit.suites.queue_steps import take_lock
from cronpad_testkit.tripwire import STEPS, Call, Trip, Tripwire, freezes, raises, sleeps


async def _open(wire: Tripwire) -> Storage:
    storage = wire.storage(MemoryStorage(StorageOptions(url="memory://", wall_ms=lambda: 0)))
    await storage.open()
    await storage.queue.open()
    await take_lock(storage.queue)
    return storage


def test_steps_are_read_off_the_ports() -> None:
    """Every asynchronous method of every port is a step."""
    assert {"queue.claim", "queue.look", "history.open_runs", "catalog.move", "catalog.swap_term", "storage.check"} <= set(STEPS)
    assert {"history.add_pending", "history.prune", "history.ledger_from", "catalog.set_workspace"} <= set(STEPS)
    assert {"sink.deliver", "sink.close"} <= set(STEPS)
    assert "queue.present" not in STEPS
    assert len(STEPS) == len(set(STEPS))


def test_before_nothing_was_applied_and_after_it_was() -> None:
    """An error before a call leaves no trace; one after it hides that it was applied."""

    async def main() -> None:
        wire = Tripwire(
            (
                Trip("queue.put", raises(StoreBusyError("full"))),
                Trip("queue.put", raises(CommitUnknownError("who knows")), number=3, after=True),
            )
        )
        storage = await _open(wire)
        with pytest.raises(StoreBusyError):
            await storage.queue.put([Entry(member="a", at_ms=1)], term=1)
        assert await storage.queue.contains(["a"]) == frozenset()
        await storage.queue.put([Entry(member="b", at_ms=1)], term=1)
        with pytest.raises(CommitUnknownError):
            await storage.queue.put([Entry(member="c", at_ms=1)], term=1)
        assert await storage.queue.contains(["b", "c"]) == frozenset({"b", "c"})
        assert wire.fired == [Call("queue.put", 1, after=False), Call("queue.put", 3, after=True)]
        assert wire.calls["queue.put"] == 3
        assert storage.queue.present()
        assert storage.directory is None

    asyncio.run(main())


def test_a_call_can_be_slow_or_never_come_back() -> None:
    """Sleeping and freezing take the loop's time; others go on meanwhile."""

    async def main(clock: VirtualClock) -> None:
        thaw = asyncio.Event()
        wire = Tripwire(
            (Trip("queue.counts", sleeps(5_000)), Trip("queue.earliest", freezes(thaw), after=True)),
            between=lambda: asyncio.sleep(0),
        )
        storage = await _open(wire)
        start_ms = clock.boot_ms()
        frozen = asyncio.create_task(storage.queue.earliest())
        await storage.queue.counts()
        assert clock.boot_ms() - start_ms == 5_000
        assert not frozen.done()
        thaw.set()
        assert await frozen is None

    run_virtual(main, seed=5)


def test_a_plan_decides_over_every_call() -> None:
    """A plan sees both sides of each call in order."""

    async def main() -> None:
        seen: list[Call] = []
        wire = Tripwire(plan=lambda call: seen.append(call))
        storage = await _open(wire)
        await storage.check()
        assert seen[:2] == [Call("storage.open", 1, after=False), Call("storage.open", 1, after=True)]
        assert seen[-1] == Call("storage.check", 1, after=True)

    asyncio.run(main())


@pytest.mark.parametrize(
    "text", ["queue.claim", "queue.claim#1/between/kill", "queue.claim/before/explode", "queue.x/after/kill"]
)
def test_what_is_no_trip_is_refused(text: str) -> None:
    """A misspelt trip is an error, not a test that never fires."""
    with pytest.raises(ValueError, match="no"):
        Trip.parse(text)


def test_a_trip_kills_the_process_at_its_step() -> None:
    """The process dies by SIGKILL at the named call and not before."""
    program = (
        "import asyncio\n"
        "from cronpad_core.api import StorageOptions\n"
        "from cronpad_core.builtin.memory import MemoryStorage\n"
        "from cronpad_testkit.tripwire import Trip, Tripwire\n"
        "wire = Tripwire((Trip.parse('queue.counts#2/after/kill'),))\n"
        "storage = wire.storage(MemoryStorage(StorageOptions(url='memory://', wall_ms=lambda: 0)))\n"
        "async def main():\n"
        "    for number in range(3):\n"
        "        await storage.queue.counts()\n"
        "        print(number, flush=True)\n"
        "asyncio.run(main())\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "0\n"), done.stderr
