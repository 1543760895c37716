"""The nursery: nothing of a run survives the run, or the runner's death, and no two copies of a run meet."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cronpad_command import nursery_spawner
from cronpad_command.nursery.wire import MARK
from cronpad_command.nursery_spawner import NurserySpawner
from cronpad_core.api import Delivered, Failed, SpawnError, SpawnRequest

SECONDS_AFTER_A_KILL = 15
DEAF = "trap '' TERM HUP INT; echo $$ >{pid}; while :; do sleep 0.1; done"

RUNNER = """
import asyncio, json, os, signal, sys
from cronpad_command.nursery_spawner import NurserySpawner
from cronpad_core.api import SpawnRequest

signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)

async def main():
    spawner = NurserySpawner(os.environ)
    async def one(run, command):
        child = await spawner.spawn(SpawnRequest(argv=["/bin/sh", "-c", command], env={**os.environ, "CRONPAD_RUN_ID": run}))
        print(child.pid, spawner._link.pid, flush=True)
        ended = await child.wait()
        print("ended", ended.exit_code, flush=True)
    await asyncio.gather(*(one(run, command) for run, command in json.loads(sys.argv[1])))

asyncio.run(main())
"""


class Runner:
    """Another runner, in a process and a group of its own, with commands in its nursery."""

    def __init__(self, bench, orders):
        env = {**bench.environ, "CRONPAD_TEST_MARKER": bench.marker, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, json.dumps(orders)],
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )
        self.pids = []
        for _ in orders:
            pid, nursery = self.process.stdout.readline().split()
            self.pids.append(int(pid))
            self.nursery = int(nursery)

    def line(self):
        """What it says next."""
        return self.process.stdout.readline().strip()

    def kill(self):
        """As the kernel does when there is no memory left."""
        self.process.kill()
        self.close()

    def close(self):
        """Takes its exit status and closes the pipe."""
        self.process.wait()
        self.process.stdout.close()


def _exists(pid):
    return os.path.exists(f"/proc/{pid}")


def _until(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_death_of_the_runner_is_the_end_of_all_commands(bench):
    """F007: kill -9 amid 50 commands, each with a child and a setsid grandchild: within 15 s there is none of them."""
    command = "setsid sh -c 'sleep 900 & exec sleep 901' & (setsid setsid sleep 902 &) ; sleep 903"
    runner = Runner(bench, [(f"{bench.marker}-{number}", command) for number in range(50)])
    _until(lambda: sum("sleep 90" in line and "sh" not in line for line in bench.alive()) >= 200)
    runner.kill()
    _until(lambda: not bench.alive(), SECONDS_AFTER_A_KILL)
    _until(lambda: not _exists(runner.nursery), SECONDS_AFTER_A_KILL)


def test_a_redelivery_waits_for_the_end_of_the_old_copy(bench, tmp_path, output_of):
    """F007: the copy of a dead runner ignores TERM; the next delivery of the run starts when it is gone, and not before."""
    run = f"{bench.marker}-again"
    runner = Runner(bench, [(run, DEAF.format(pid=tmp_path / "pid"))])
    old = runner.pids[0]
    _until((tmp_path / "pid").exists)
    runner.kill()
    assert _exists(old)
    outcome = bench.run(f"if [ -e /proc/{old} ]; then echo both; else echo alone; fi", run_id=run)
    assert isinstance(outcome, Delivered)
    assert output_of(outcome) == "alone\n"


def test_a_run_that_another_runner_holds_is_refused_after_a_while(bench, monkeypatch, tmp_path):
    """While the old copy is there the new one is not started, and the answer says why and that trying again can help."""
    monkeypatch.setattr(nursery_spawner, "_PREVIOUS_GONE_WITHIN", 200)
    run = f"{bench.marker}-held"
    runner = Runner(bench, [(run, "sleep 900")])
    outcome = bench.run(f"touch {tmp_path}/ran", run_id=run)
    assert isinstance(outcome, Failed)
    assert outcome.facts == {"reason": "previous_run_in_progress"}
    assert (outcome.retryable, outcome.undelivered) == (True, True)
    assert not (tmp_path / "ran").exists()
    assert isinstance(bench.run("true", run_id=f"{run}-another"), Delivered)
    runner.kill()
    _until(lambda: not bench.alive())
    assert isinstance(bench.run("true", run_id=run), Delivered)


def test_two_copies_of_a_run_in_one_nursery_follow_each_other(bench, tmp_path):
    """The lock is for the run, whoever asks."""

    async def scenario():
        sink = bench.sink()
        command = f"mkdir {tmp_path}/here && sleep 0.2 && rmdir {tmp_path}/here"
        return await asyncio.gather(*(sink.deliver(bench.delivery(command, run_id=bench.marker)) for _ in range(3)))

    assert {type(outcome) for outcome in asyncio.run(scenario())} == {Delivered}


def test_what_a_dead_nursery_left_is_ended_before_its_run_starts_again(bench, tmp_path, output_of):
    """Runner and nursery killed at once leave orphans that nobody looks after: a redelivery of their run ends them first."""
    run = f"{bench.marker}-orphan"
    runner = Runner(bench, [(run, DEAF.format(pid=tmp_path / "pid"))])
    _until((tmp_path / "pid").exists)
    # Stopped, so that it cannot see the death of its nursery.
    runner.process.send_signal(signal.SIGSTOP)
    os.kill(runner.nursery, signal.SIGKILL)
    runner.kill()
    assert bench.alive() != []
    # Their new parent may take its time to reap them.
    outcome = bench.run(f"grep -s '^State:' /proc/{runner.pids[0]}/status || echo alone", run_id=run)
    assert output_of(outcome) in ("alone\n", "State:\tZ (zombie)\n")


def test_the_death_of_the_nursery_is_an_infrastructure_failure_and_the_next_run_has_a_new_one(bench, descriptors):
    """Its commands end with it, their output is kept, a retry is sensible, and nothing of them meets the retry."""

    async def scenario():
        spawner = NurserySpawner(bench.environ)
        sink = bench.sink(spawner)
        await sink.deliver(bench.delivery("true"))
        before = len(descriptors())
        first = spawner._link.pid
        tasks = [asyncio.create_task(sink.deliver(bench.delivery("echo up; setsid sleep 900 & sleep 901"))) for _ in range(5)]
        await bench.until(lambda: sum(line.startswith("sleep") for line in bench.alive()) == 10)
        os.kill(first, signal.SIGKILL)
        for outcome in await asyncio.gather(*tasks):
            assert isinstance(outcome, Failed)
            assert (outcome.facts, outcome.retryable, outcome.undelivered) == ({"error": "infrastructure"}, True, False)
            assert outcome.output[0].head + outcome.output[0].tail == b"up\n"
        assert bench.alive() == []
        assert isinstance(await sink.deliver(bench.delivery("true")), Delivered)
        assert spawner._link.pid != first
        assert len(descriptors()) == before

    asyncio.run(scenario())


def test_signals_to_the_runners_group_do_not_reach_the_nursery(bench):
    """Ctrl-C, and TERM from a supervisor that sends it to everybody: the runner decides, the nursery stays, commands finish."""
    runner = Runner(bench, [(bench.marker, "sleep 0.5; exit 7")])
    for number in (signal.SIGINT, signal.SIGTERM):
        os.killpg(runner.process.pid, number)
        os.kill(runner.nursery, number)
    assert runner.line() == "ended 7"
    runner.close()
    assert runner.process.returncode == 0
    assert not _exists(runner.nursery)


def test_a_command_inherits_no_ignored_signal_and_no_core_file(bench, output_of):
    """What the nursery does about signals is its own affair; a core file would hold a command's secrets."""
    outcome = bench.run("trap 'exit 5' INT; kill -INT $$; exit 6")
    assert outcome.exit_code == 5
    ignored = output_of(bench.run(["grep", "SigIgn", "/proc/self/status"])).split()[1]
    assert int(ignored, 16) == 0
    assert output_of(bench.run("ulimit -c")) == "0\n"


def test_a_runner_that_ignores_term_has_commands_that_do_not(bench):
    """TERM is how a command is asked to end, whatever the runner was started with."""
    runner = Runner(bench, [(bench.marker, "kill -TERM $$; exit 7")])
    assert runner.line() == "ended None"
    runner.close()


def test_a_closed_sink_leaves_nobody_waiting(bench):
    """A delivery that is still going when the sink is closed is ended and answered."""

    async def scenario():
        sink = bench.sink()
        task = asyncio.create_task(sink.deliver(bench.delivery("setsid sleep 900 & sleep 901")))
        await bench.until(lambda: sum(line.startswith("sleep") for line in bench.alive()) == 2)
        await sink.close()
        assert bench.alive() == []
        outcome = await task
        assert isinstance(outcome, Failed)
        assert outcome.facts == {"error": "infrastructure"}

    asyncio.run(scenario())


def _nursery_state(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sorted(os.listdir(f"/proc/{pid}/fd")), children


def test_a_nursery_stays_what_it_was(bench):
    """Runs that succeed, fail, cannot start, time out and leave orphans: no descriptor more in the nursery, and no zombie."""

    async def scenario():
        spawner = NurserySpawner(bench.environ)
        sink = bench.sink(spawner)
        await sink.deliver(bench.delivery("true"))
        before = _nursery_state(spawner._link.pid)
        commands = ("true", "exit 3", ["no_such_cmd_xyz"], "(setsid sleep 0 &)", "setsid sleep 900 &", ["/tmp"])
        for _ in range(10):
            await asyncio.gather(
                *(sink.deliver(bench.delivery(command, settings={"output_linger": 0})) for command in commands),
                sink.deliver(bench.delivery("sleep 900", timeout_ms=50)),
            )
        await bench.until(lambda: _nursery_state(spawner._link.pid) == before)
        assert before[1] == []
        await sink.close()

    asyncio.run(scenario())


def test_a_long_order_goes_through(bench, output_of):
    """An environment larger than a packet arrives whole."""
    env = {f"V{number}": "x" * 50_000 for number in range(20)}
    assert output_of(bench.run("echo ${#V0} ${#V19}", settings={"env": env})) == "50000 50000\n"


def test_without_a_nursery_commands_are_started_all_the_same(bench, monkeypatch, caplog):
    """A machine that has no room for one is told of it once, with what is lost."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    async def scenario():
        sink = bench.sink()
        return [await sink.deliver(bench.delivery("exit 4")) for _ in range(3)]

    with caplog.at_level(logging.WARNING):
        assert [outcome.exit_code for outcome in asyncio.run(scenario())] == [4, 4, 4]
    (note,) = caplog.messages
    assert "no nursery" in note and "No such file" in note


def test_a_cancelled_start_starts_nothing_that_stays(bench, descriptors):
    """Cancelled while its nursery starts, or waits for an older copy, a spawn leaves no process and no descriptor."""

    async def scenario():
        spawner = NurserySpawner(bench.environ)
        env = {**bench.environ, "CRONPAD_TEST_MARKER": bench.marker, "CRONPAD_RUN_ID": bench.marker}
        request = SpawnRequest(argv=["/bin/sleep", "900"], env=env)
        held = await spawner.spawn(request)
        before = len(descriptors())
        task = asyncio.create_task(spawner.spawn(request))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await bench.until(lambda: len(descriptors()) == before)
        held.kill()
        await held.wait()
        assert bench.alive() == []
        with pytest.raises(SpawnError):
            await spawner.spawn(SpawnRequest(argv=["/no/such/program"], env={}))

    asyncio.run(scenario())


def test_a_start_that_is_cancelled_before_its_answer_leaves_nothing(bench):
    """The command runs, the runner has not heard of it yet, and is told to stop: cancellation is passed on when all is gone."""

    async def scenario():
        sink = bench.sink()
        await sink.deliver(bench.delivery("true"))
        task = asyncio.create_task(sink.deliver(bench.delivery("sleep 900 & sleep 901; true")))
        await asyncio.sleep(0)
        # The loop stands still, so the answer stays unheard.
        _until(lambda: sum(line.startswith("sleep") for line in bench.alive()) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bench.alive() == []

    asyncio.run(scenario())


def test_a_nursery_is_known_among_processes(bench):
    """Its mark is an argument of its own, so that a person who looks at processes knows it."""

    async def scenario():
        spawner = NurserySpawner(bench.environ)
        await bench.sink(spawner).deliver(bench.delivery("true"))
        assert MARK in Path(f"/proc/{spawner._link.pid}/cmdline").read_text().split("\0")

    asyncio.run(scenario())
