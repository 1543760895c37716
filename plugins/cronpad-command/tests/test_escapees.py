"""Processes that leave the session of their command, forget their origin, or come in storms: all go with the run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cronpad_core.api import Delivered


@pytest.mark.parametrize(
    "escape",
    [
        "setsid sleep 900 & exit 0",
        "(setsid sh -c 'setsid sleep 900 & exit 0' &) ; exit 0",
        "env -i setsid -f sleep 900; sleep 0.1; exit 0",
        "env -i setsid -f sh -c 'trap \"\" TERM; sleep 900; sleep 901'; sleep 0.1; exit 0",
        "trap '' TERM; (trap '' TERM; setsid sh -c 'sleep 900; sleep 901' &) ; exit 0",
    ],
    ids=["setsid", "double fork", "no environment", "no environment, no TERM", "no TERM"],
)
def test_whoever_left_the_session_goes_with_the_run(bench, escape):
    """F069: a new session, a double fork, an emptied environment and deaf ears hide nobody (looked for by command line)."""
    assert isinstance(bench.run(f"{escape} # {bench.marker}", settings={"output_linger": 0}), Delivered)
    lines = [path.read_bytes() for path in _lines()]
    assert not [line for line in lines if line.startswith((b"sleep\x00900", b"sleep\x00901"))]


def _lines():
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]


def test_an_escapee_without_a_name_goes_with_the_last_run_that_could_be_its_own(bench):
    """Two runs at once: a process that tells nothing of its origin outlives neither both nor the other's command."""

    async def scenario():
        sink = bench.sink()
        other = asyncio.create_task(sink.deliver(bench.delivery("sleep 1; echo fine")))
        await bench.until(lambda: any(line.startswith("sleep 1") for line in bench.alive()))
        await sink.deliver(bench.delivery("env -i setsid -f sleep 77777; sleep 0.1"))
        outcome = await other
        assert isinstance(outcome, Delivered)
        assert not [path for path in _lines() if path.read_bytes().startswith(b"sleep\x0077777")]

    asyncio.run(scenario())


def test_three_hundred_detached_shells_go_with_their_run(bench):
    """F071: a storm of sessions is stopped, killed and reaped; another command starts meanwhile."""

    async def scenario():
        sink = bench.sink()
        storm = "i=0; while [ $i -lt 300 ]; do setsid sh -c 'sleep 900; true' & i=$((i+1)); done; wait"
        task = asyncio.create_task(sink.deliver(bench.delivery(storm, timeout_ms=3_000, kill_grace_ms=100)))
        await bench.until(lambda: len(bench.alive()) > 100)
        assert isinstance(await sink.deliver(bench.delivery("true")), Delivered)
        await task
        assert bench.alive() == []

    asyncio.run(scenario())
