"""Timeouts, stop signals and cancellation: the whole group ends, and in good order where it can."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from cronpad_core.api import Cancelled, Delivered, TimedOut

FAMILY = "sleep 600 & sleep 601; true"
PATIENT_GRACE = 30_000
pytestmark = pytest.mark.parametrize("bench", ["nursery", "plain"], indirect=True)

STUBBORN = "trap '' TERM; echo up; while :; do sleep 1; done"
POLITE = 'trap "echo bye; exit 0" TERM; echo up; sleep 600 & wait'


def test_a_timeout_ends_the_whole_group(bench):
    """B089: neither the shell nor what it started outlives the timeout, and the next run can start."""
    outcome = bench.run(FAMILY, timeout_ms=2_000, kill_grace_ms=1_000)
    assert bench.alive() == []
    assert isinstance(outcome, TimedOut)
    assert (outcome.reason, outcome.exit_code, outcome.facts["signal"]) == ("timed out after 2 s", 143, 15)
    assert isinstance(bench.run("true"), Delivered)


def test_a_command_that_ignores_term_is_killed(bench):
    """After the grace, KILL ends what TERM did not."""
    outcome = bench.run(STUBBORN, timeout_ms=2_000, kill_grace_ms=300)
    assert isinstance(outcome, TimedOut)
    assert (outcome.reason, outcome.exit_code, outcome.facts["signal"]) == ("timed out after 2 s (killed)", 137, 9)


def test_a_timeout_leaves_time_to_clean_up(bench, output_of):
    """A command that handles TERM finishes in its own way; it is a timeout all the same."""
    outcome = bench.run(POLITE, timeout_ms=2_000)
    assert isinstance(outcome, TimedOut)
    assert (outcome.exit_code, output_of(outcome)) == (0, "up\nbye\n")


@pytest.mark.parametrize("timeout_ms", [20, 60, 150])
def test_a_command_that_keeps_forking_is_ended_whole(bench, timeout_ms):
    """KILL to the group at any moment of a storm of forks leaves none of them (checked by the bench)."""
    storm = "i=0; while [ $i -lt 300 ]; do sleep 600 & i=$((i+1)); done; wait"
    assert isinstance(bench.run(storm, timeout_ms=timeout_ms, kill_grace_ms=0), TimedOut)


def test_a_stopped_command_is_ended_too(bench):
    """A process that SIGSTOP holds takes its TERM."""
    outcome = bench.run("kill -STOP $$; exit 5", timeout_ms=300, kill_grace_ms=PATIENT_GRACE)
    assert isinstance(outcome, TimedOut)
    assert outcome.facts["signal"] == 15


def _running(bench, command, asked, **changes):
    """Starts a delivery, waits until its shell is at its sleep, does what is asked, and answers with the outcome."""

    async def scenario():
        delivery = bench.delivery(command, **changes)
        task = asyncio.create_task(bench.sink().deliver(delivery))
        await bench.until(lambda: any(line.startswith("sleep") for line in bench.alive()))
        await asked(delivery.cancel, task)
        return await task

    return asyncio.run(scenario())


def test_a_stop_signal_lets_the_command_finish(bench, output_of):
    """B094: TERM first, and the answer carries what was said at the end."""

    async def stop(cancel, task):
        cancel.ask("stop", "shutting down")

    outcome = _running(bench, POLITE, stop)
    assert isinstance(outcome, Cancelled)
    assert (outcome.reason, output_of(outcome)) == ("shutting down", "up\nbye\n")


def test_a_stop_signal_that_is_ignored_becomes_a_kill(bench):
    """B094: KILL after the grace."""

    async def stop(cancel, task):
        cancel.ask("stop", "shutting down")

    outcome = _running(bench, STUBBORN, stop, kill_grace_ms=300)
    assert isinstance(outcome, Cancelled)
    assert (outcome.reason, outcome.facts["signal"]) == ("shutting down (killed)", 9)


def _deaf(termed):
    """A command that notes each TERM and goes on."""
    return f"trap 'echo x >{termed}' TERM; while :; do sleep 1; done"


def test_a_kill_signal_cuts_the_grace_short(bench, tmp_path):
    """Stage ``kill`` does not wait for the end of a long grace."""

    async def stop_then_kill(cancel, task):
        cancel.ask("stop", "shutting down")
        await bench.until(termed.exists)
        assert not task.done()
        cancel.ask("kill", "no time left")

    termed = tmp_path / "termed"
    outcome = _running(bench, _deaf(termed), stop_then_kill, kill_grace_ms=3_600_000)
    assert isinstance(outcome, Cancelled)
    assert (outcome.reason, outcome.facts["signal"]) == ("no time left (killed)", 9)


def test_a_kill_signal_cuts_the_grace_of_a_timeout_short(bench, tmp_path):
    """A stop that comes during the ladder changes its speed and not its cause."""

    async def scenario():
        termed = tmp_path / "termed"
        delivery = bench.delivery(_deaf(termed), timeout_ms=1_000, kill_grace_ms=3_600_000)
        task = asyncio.create_task(bench.sink().deliver(delivery))
        await bench.until(termed.exists)
        delivery.cancel.ask("stop", "shutting down")
        await asyncio.sleep(0)
        delivery.cancel.ask("kill", "no time left")
        return await task

    assert isinstance(asyncio.run(scenario()), TimedOut)


def test_a_kill_signal_needs_no_term(bench, output_of):
    """Stage ``kill`` at once gives no chance to clean up."""

    async def kill(cancel, task):
        cancel.ask("kill", "disk is gone")

    outcome = _running(bench, POLITE, kill)
    assert isinstance(outcome, Cancelled)
    assert (outcome.facts["signal"], output_of(outcome)) == (9, "up\n")


def test_what_is_cancelled_before_its_start_is_not_started(bench, tmp_path):
    """A delivery that is asked to stop already starts nothing."""

    async def scenario():
        delivery = bench.delivery(f"touch {tmp_path}/ran")
        delivery.cancel.ask("stop", "shutting down")
        return await bench.sink().deliver(delivery)

    assert isinstance(asyncio.run(scenario()), Cancelled)
    assert not (tmp_path / "ran").exists()


def test_a_cancelled_task_leaves_nothing(bench, descriptors, children):
    """Cancellation kills at once, waits for that, and is passed on."""

    async def scenario():
        sink = bench.sink()
        await sink.deliver(bench.delivery("true"))
        before = len(descriptors())
        task = asyncio.create_task(sink.deliver(bench.delivery(FAMILY)))
        await bench.until(lambda: len([line for line in bench.alive() if "sleep 60" in line]) >= 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bench.alive() == []
        assert children() == []
        assert len(descriptors()) == before

    asyncio.run(scenario())


def test_a_task_that_is_cancelled_twice_leaves_nothing(bench, descriptors, children):
    """An impatient second cancellation gives up the waiting, not the cleaning up."""

    async def scenario():
        sink = bench.sink()
        await sink.deliver(bench.delivery("true"))
        before = len(descriptors())
        task = asyncio.create_task(sink.deliver(bench.delivery(FAMILY)))
        await bench.until(lambda: any("sleep" in line for line in bench.alive()))
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await bench.until(lambda: not bench.alive() and not children() and len(descriptors()) == before)

    asyncio.run(scenario())


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_the_end_of_the_loop_leaves_nothing(bench, steps):
    """A loop that ends at any moment after the start takes its commands with it (checked by the bench)."""

    async def scenario():
        delivering = asyncio.create_task(bench.sink().deliver(bench.delivery(STUBBORN)))
        for _ in range(steps):
            await asyncio.sleep(0)
        return delivering

    assert asyncio.run(scenario()).cancelled()


@pytest.mark.parametrize("silent", [False, True])
def test_a_background_process_does_not_hold_the_run(bench, output_of, silent):
    """B091: the leader's end is the end, after a short linger for a held pipe; what it left behind is killed."""
    redirected = ">/dev/null 2>&1" if silent else ""
    began = time.monotonic()
    outcome = bench.run(f"echo hi; sleep 300 {redirected} & exit 0")
    assert time.monotonic() - began < 30
    assert bench.alive() == []
    assert isinstance(outcome, Delivered)
    assert output_of(outcome) == "hi\n"


def test_a_process_that_left_the_session_does_not_hold_the_run(bench, output_of, tmp_path):
    """A daemon with our pipe in its hands costs the linger and no more; only a nursery can end it."""
    pid = tmp_path / "pid"
    daemon = f"setsid sh -c 'echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 900'"
    outcome = bench.run(f"echo hi; {daemon} & while ! [ -e {pid} ]; do sleep 0.01; done; exit 0")
    if bench.plain:
        assert len(bench.alive()) == 1
        os.kill(int(pid.read_text()), signal.SIGKILL)
    else:
        assert bench.alive() == []
    assert isinstance(outcome, Delivered)
    assert output_of(outcome) == "hi\n"


def test_a_timeout_during_the_linger_does_not_change_the_result(bench):
    """A command that ended in time was delivered, even when its output is still waited for at its deadline."""
    outcome = bench.run("sleep 300 & exit 0", timeout_ms=2_000, settings={"output_linger": "3s"})
    assert isinstance(outcome, Delivered)


def test_output_is_complete_without_any_linger(bench, output_of):
    """What was written before the end is read, with a linger of nothing and a held pipe."""
    outcome = bench.run("sleep 300 & head -c 60000 /dev/zero | tr '\\0' x; exit 0", settings={"output_linger": 0})
    assert isinstance(outcome, Delivered)
    assert output_of(outcome) == "x" * 60_000
