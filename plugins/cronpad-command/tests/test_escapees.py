"""Processes that leave the session of their command, forget their origin, or come in storms: all go with the run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cronpad_core.api import Cancelled, Delivered


@pytest.fixture
def nap(bench):
    """So many seconds as nobody else sleeps on this machine: what forgot its origin is looked for by its command line."""
    return f"9{int(bench.marker[:7], 16)}"


def _asleep(nap):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if line.startswith(b"sleep\0" + nap.encode()):
            found.append(line)
    return found


@pytest.mark.parametrize(
    "escape",
    [
        "setsid sleep {nap} & exit 0",
        "(setsid sh -c 'setsid sleep {nap} & exit 0' &) ; exit 0",
        "env -i setsid -f sleep {nap}; sleep 0.1; exit 0",
        "env -i setsid -f sh -c 'trap \"\" TERM; sleep {nap}; sleep {nap}'; sleep 0.1; exit 0",
        "trap '' TERM; (trap '' TERM; setsid sh -c 'sleep {nap}; sleep {nap}' &) ; exit 0",
    ],
    ids=["setsid", "double fork", "no environment", "no environment, no TERM", "no TERM"],
)
def test_whoever_left_the_session_goes_with_the_run(bench, nap, escape):
    """F069: a new session, a double fork, an emptied environment and deaf ears hide nobody."""
    assert isinstance(bench.run(escape.format(nap=nap), settings={"output_linger": 0}), Delivered)
    assert _asleep(nap) == []


def test_an_escapee_without_a_name_goes_with_the_last_run_that_could_be_its_own(bench, nap, tmp_path):
    """Two runs at once: a process that tells nothing of its origin outlives neither both nor the other's command."""

    async def scenario():
        sink = bench.sink()
        go = tmp_path / "go"
        other = asyncio.create_task(sink.deliver(bench.delivery(f"while ! [ -e {go} ]; do sleep 0.01; done; echo fine")))
        await bench.until(lambda: bench.alive())
        assert isinstance(await sink.deliver(bench.delivery(f"env -i setsid -f sleep {nap}; sleep 0.1")), Delivered)
        assert not other.done()
        go.touch()
        assert isinstance(await other, Delivered)
        assert _asleep(nap) == []

    asyncio.run(scenario())


def test_three_hundred_detached_shells_go_with_their_run(bench):
    """F071: a storm of sessions is stopped, killed and reaped; another command starts meanwhile."""

    async def scenario():
        sink = bench.sink()
        storm = "i=0; while [ $i -lt 300 ]; do setsid sh -c 'sleep 900; true' & i=$((i+1)); done; wait"
        delivery = bench.delivery(storm)
        task = asyncio.create_task(sink.deliver(delivery))
        await bench.until(lambda: len(bench.alive()) > 100)
        assert isinstance(await sink.deliver(bench.delivery("true")), Delivered)
        delivery.cancel.ask("kill", "enough")
        assert isinstance(await task, Cancelled)
        assert bench.alive() == []

    asyncio.run(scenario())
