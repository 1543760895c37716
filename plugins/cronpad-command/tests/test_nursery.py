"""The nursery: nothing of a run survives the run, or the runner's death, and no two copies of a run meet."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cronpad_command.nursery.wire import MARK
from cronpad_command.spawn import AsyncioSpawner
from cronpad_core.api import Delivered, Failed, SpawnError, SpawnRequest

WITHIN_AFTER_A_KILL = 15
_OF_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}  # which the interpreter ignores itself
DEAF = "trap '' TERM HUP INT; echo $$ >{pid}; while :; do sleep 0.1; done"

RUNNER = """
import asyncio, json, os, signal, sys
from cronpad_command.nursery_spawner import NurserySpawner
from cronpad_core.api import SpawnRequest

signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)

async def main():
    spawner = NurserySpawner(state=sys.argv[1])
    async def one(run, command):
        child = await spawner.spawn(SpawnRequest(argv=["/bin/sh", "-c", command], env={**os.environ, "CRONPAD_RUN_ID": run}))
        print(child.pid, spawner._link.pid, flush=True)
        ended = await child.wait()
        print("ended", ended.exit_code, flush=True)
    await asyncio.gather(*(one(run, command) for run, command in json.loads(sys.argv[2])))

asyncio.run(main())
"""


class Runner:
    """Another runner of the bench's state, in a process and a group of its own, with commands in its nursery."""

    def __init__(self, bench, orders):
        env = {**bench.environ, "CRONPAD_TEST_MARKER": bench.marker, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, bench.state, json.dumps(orders)],
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )
        self.pids = []
        self.nursery = None
        self._count = len(orders)

    def started(self):
        """Waits until all its commands run."""
        for _ in range(self._count):
            pid, nursery = self.process.stdout.readline().split()
            self.pids.append(int(pid))
            self.nursery = int(nursery)
        return self

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

    def gone(self):
        """Whether neither it nor its nursery is there."""
        return self.process.poll() is not None and (self.nursery is None or not _exists(self.nursery))


@pytest.fixture
def runner(bench):
    """Starts other runners; whatever becomes of the test, they and their nurseries are gone before the next."""
    made = []

    def start(*orders):
        made.append(Runner(bench, orders))
        return made[-1].started()

    yield start
    for one in made:
        one.kill()
    bench.wait_until(lambda: all(one.gone() for one in made) and not bench.alive())


def _exists(pid):
    return os.path.exists(f"/proc/{pid}")


def test_the_death_of_the_runner_is_the_end_of_all_commands(bench, runner):
    """F007: kill -9 amid 50 commands, each with a child and a setsid grandchild: within 15 s there is none of them."""
    command = "setsid sh -c 'sleep 900 & exec sleep 901' & (setsid setsid sleep 902 &) ; sleep 903"
    killed = runner(*((f"run-{number}", command) for number in range(50)))
    bench.wait_until(lambda: sum("sleep 90" in line and "sh" not in line for line in bench.alive()) >= 200)
    killed.kill()
    bench.wait_until(lambda: not bench.alive(), WITHIN_AFTER_A_KILL)
    bench.wait_until(killed.gone)


def test_a_redelivery_waits_for_the_end_of_the_old_copy(bench, runner, tmp_path, output_of):
    """F007: the copy of a dead runner ignores TERM; the next delivery of the run starts when it is gone, and not before."""
    killed = runner(("run-again", DEAF.format(pid=tmp_path / "pid")))
    [old] = killed.pids
    bench.wait_until((tmp_path / "pid").exists)
    killed.kill()
    outcome = bench.run(f"if [ -e /proc/{old} ]; then echo both; else echo alone; fi", run_id="run-again")
    assert isinstance(outcome, Delivered)
    assert output_of(outcome) == "alone\n"


def test_a_run_that_another_runner_holds_is_refused_after_a_while(bench, runner, tmp_path):
    """While the old copy is there the new one is not started, and the answer says why and that trying again can help."""
    other = runner(("run-held", "sleep 900"))
    outcome = bench.run(f"touch {tmp_path}/ran", run_id="run-held", timeout_ms=200)
    assert isinstance(outcome, Failed)
    assert outcome.facts == {"reason": "previous_run_in_progress"}
    assert (outcome.retryable, outcome.undelivered) == (True, True)
    assert not (tmp_path / "ran").exists()
    assert isinstance(bench.run("true", run_id="run-another"), Delivered)
    other.kill()
    assert isinstance(bench.run("true", run_id="run-held"), Delivered)


def test_the_same_run_of_another_state_is_another_run(bench, runner, output_of):
    """Two states with the same jobs file have the same run ids, and nothing to do with each other."""
    runner(("run-same", "sleep 900"))

    async def scenario(state):
        return await bench.sink(bench.spawner(state)).deliver(bench.delivery("echo fine", run_id="run-same", timeout_ms=5_000))

    for state in ("sqlite:///another/state", "memory://", ""):
        assert output_of(asyncio.run(scenario(state))) == "fine\n"


def test_leftovers_of_another_state_are_left_alone(bench, output_of):
    """A command that another runner started itself has no nursery above it: a run of that id elsewhere does not end it."""

    async def scenario():
        plain = AsyncioSpawner()
        env = {**bench.environ, "CRONPAD_TEST_MARKER": bench.marker, "CRONPAD_RUN_ID": "run-same"}
        other = await plain.spawn(SpawnRequest(argv=["/bin/sleep", "900"], env=env))
        assert isinstance(await bench.sink().deliver(bench.delivery("true", run_id="run-same")), Delivered)
        assert not other.leader_ended
        other.kill()
        await other.wait()

    asyncio.run(scenario())


def test_two_copies_of_a_run_in_one_nursery_follow_each_other(bench, tmp_path):
    """The lock is for the run, whoever asks."""

    async def scenario():
        sink = bench.sink()
        command = f"mkdir {tmp_path}/here && sleep 0.2 && rmdir {tmp_path}/here"
        return await asyncio.gather(*(sink.deliver(bench.delivery(command, run_id=bench.marker)) for _ in range(3)))

    assert {type(outcome) for outcome in asyncio.run(scenario())} == {Delivered}


def test_what_a_dead_nursery_left_is_ended_before_its_run_starts_again(bench, runner, tmp_path, output_of):
    """Runner and nursery killed at once leave orphans that nobody looks after: a redelivery of their run ends them first."""
    killed = runner(("run-orphan", DEAF.format(pid=tmp_path / "pid")))
    bench.wait_until((tmp_path / "pid").exists)
    # Stopped, so that it cannot see the death of its nursery.
    killed.process.send_signal(signal.SIGSTOP)
    os.kill(killed.nursery, signal.SIGKILL)
    killed.kill()
    assert bench.alive() != []
    # Their new parent may take its time to reap them.
    outcome = bench.run(f"grep -s '^State:' /proc/{killed.pids[0]}/status || echo alone", run_id="run-orphan")
    assert output_of(outcome) in ("alone\n", "State:\tZ (zombie)\n")


def test_the_death_of_the_nursery_is_an_infrastructure_failure_and_the_next_run_has_a_new_one(bench, descriptors):
    """Its commands end with it, their output is kept, a retry is sensible, and nothing of them meets the retry."""

    async def scenario():
        spawner = bench.spawner()
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


def test_signals_to_the_runners_group_do_not_reach_the_nursery(bench, runner, tmp_path):
    """Ctrl-C, and TERM from a supervisor that sends it to everybody: the runner decides, the nursery stays, commands finish."""
    signalled = runner(("run-1", f"while ! [ -e {tmp_path}/go ]; do sleep 0.01; done; exit 7"))
    for number in (signal.SIGINT, signal.SIGTERM):
        os.killpg(signalled.process.pid, number)
        os.kill(signalled.nursery, number)
    (tmp_path / "go").touch()
    assert signalled.line() == "ended 7"
    signalled.close()
    assert signalled.process.returncode == 0
    bench.wait_until(signalled.gone)


def test_a_command_inherits_no_ignored_signal_and_no_core_file(bench, output_of):
    """What the runner and the nursery do about signals is their own affair; a core file would hold a command's secrets."""
    given = {number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN} - _OF_PYTHON
    outcome = bench.run("trap 'exit 5' INT; kill -INT $$; exit 6")
    assert outcome.exit_code == (6 if signal.SIGINT in given else 5)
    ignored = output_of(bench.run(["grep", "SigIgn", "/proc/self/status"])).split()[1]
    assert int(ignored, 16) == sum(1 << number - 1 for number in given), "nohup's, and whatever else the tests were started with"
    assert output_of(bench.run("ulimit -c")) == "0\n"


def test_a_runner_that_ignores_term_has_commands_that_do_not(runner):
    """TERM is how a command is asked to end, whatever the runner was started with."""
    assert runner(("run-1", "kill -TERM $$; exit 7")).line() == "ended None"


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


def test_closing_does_not_hold_up_the_event_loop(bench, children):
    """A nursery that takes its time to go is waited for while the loop does other things."""

    async def scenario():
        spawner = bench.spawner()
        sink = bench.sink(spawner)
        await sink.deliver(bench.delivery("true"))
        nursery = spawner._link.pid
        os.kill(nursery, signal.SIGSTOP)
        closing = asyncio.create_task(sink.close())
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert not closing.done()
        os.kill(nursery, signal.SIGCONT)
        await closing
        assert not _exists(nursery)
        assert children() == []

    asyncio.run(scenario())


def test_background_processes_of_a_long_command_are_taken_notice_of(bench, tmp_path):
    """What a command detaches ends long before the command does: no zombie waits for that."""

    async def scenario():
        spawner = bench.spawner()
        sink = bench.sink(spawner)
        command = "for i in 1 2 3 4 5 6 7 8; do (setsid true &) ; done; exec sleep 900"
        delivery = bench.delivery(command)
        task = asyncio.create_task(sink.deliver(delivery))
        await bench.until(lambda: any(line.startswith("sleep 900") for line in bench.alive()))
        await bench.until(lambda: len(_nursery_state(spawner._link.pid)[1]) == 1)
        delivery.cancel.ask("kill", "enough")
        await task

    asyncio.run(scenario())


def _nursery_state(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sorted(os.listdir(f"/proc/{pid}/fd")), children


def test_a_nursery_stays_what_it_was(bench):
    """Runs that succeed, fail, cannot start, time out and leave orphans: no descriptor more in the nursery, and no zombie."""

    async def scenario():
        spawner = bench.spawner()
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
        spawner = bench.spawner()
        env = {**bench.environ, "CRONPAD_TEST_MARKER": bench.marker, "CRONPAD_RUN_ID": bench.marker}
        request = SpawnRequest(argv=["/bin/sleep", "900"], env=env)
        held = await spawner.spawn(request)
        before = len(descriptors())
        task = asyncio.create_task(spawner.spawn(request))
        await bench.until(lambda: len(descriptors()) > before)
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
        bench.wait_until(lambda: sum(line.startswith("sleep") for line in bench.alive()) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bench.alive() == []

    asyncio.run(scenario())


def test_a_nursery_is_known_among_processes(bench):
    """Its mark is an argument of its own, so that a person who looks at processes knows it."""

    async def scenario():
        spawner = bench.spawner()
        await bench.sink(spawner).deliver(bench.delivery("true"))
        assert MARK in Path(f"/proc/{spawner._link.pid}/cmdline").read_text().split("\0")

    asyncio.run(scenario())
