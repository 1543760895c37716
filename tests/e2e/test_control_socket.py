"""Who is asked: the process that is active, or the state itself; and what its socket puts up with."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from asking import NEVER, called, document, ends, in_order
from stage import Stage, quick, wait_until

# ----------------------------------------------------------------------------------------------------- who is there to ask


def test_a_stopped_state_takes_orders_for_the_next_start(stage: Stage) -> None:
    """What is asked of a state that nobody runs is stored, said to be so, and done by the next start."""
    stage.declare(stage.job("job", NEVER), stage.job("each"))
    stage.start().active().stop()
    asked = called(stage, "trigger", "job")
    assert "no runner is active" in asked.err
    waited = called(stage, "trigger", "job", "--wait", code=3)
    assert "nobody runs it yet" in waited.err
    dropped = called(stage, "trigger", "job").out.strip()
    assert document(stage, "runs", "cancel", dropped)["status"] == "cancelled"
    assert document(stage, "jobs", "pause", "each")["status"] == "paused"
    assert stage.call("jobs", "resume", "each", "--state", stage.state).code == 0
    assert document(stage, "jobs", "pause", "each", "--reason", "later")["status"] == "paused"
    assert stage.rows(stage.control, "SELECT released FROM term") == [(1,)]
    count = len(stage.witness("each"))
    runner = stage.start().active()
    for run_id in (asked.out.strip(), waited.out.strip()):
        assert ends(stage, run_id) == "succeeded"
    assert len(stage.witness("each")) == count
    called(stage, "jobs", "resume", "each")
    stage.sees("each", count=count + 1)
    assert stage.statuses()[dropped] == "cancelled"
    assert len(stage.witness("job")) == 2
    in_order(stage, runner)


def test_orders_for_a_stopped_state_take_turns(stage: Stage) -> None:
    """Several commands at once on a state that nobody runs are all carried out, one after the other."""
    stage.declare(stage.job("job", NEVER))
    stage.start().active().stop()
    calls = [
        subprocess.Popen(
            stage.command("trigger", "job", "--state", stage.state),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=stage.root,
            env=stage.environment(),
        )
        for _ in range(4)
    ]
    answers = [(one.communicate(timeout=60), one.returncode) for one in calls]
    assert [code for _, code in answers] == [0] * 4, answers
    assert {out.strip() for (out, _), _ in answers} == set(stage.statuses())
    assert len(stage.statuses()) == 4


def test_the_active_process_answers_beside_a_standby(stage: Stage) -> None:
    """With two runners the active one answers; when it is killed, the other does, and who waits for a run is told its end."""
    flag = stage.root / "flag"
    stage.declare(stage.job("job", NEVER, command=f"{stage.line('job')}; while ! test -e {flag}; do sleep 0.05; done"))
    first = stage.start(env=quick()).active()
    second = stage.start(env=quick()).standing_by()
    run_id = called(stage, "trigger", "job").out.strip()
    [line] = stage.sees("job", run_id=run_id)
    assert line.runner == first.number
    waiting = subprocess.Popen(
        stage.command("trigger", "job", "--token", "w", "--wait", "--state", stage.state, "--payload", "1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=stage.root,
        env=stage.environment(),
    )
    stage.sees("job", count=2)
    first.kill()
    flag.touch()
    second.active()
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out.splitlines()[1:]) == (0, ["succeeded"]), err
    called(stage, "trigger", "job", "--wait")
    assert stage.sees("job", runner=second.number)
    in_order(stage, second)


def test_a_killed_runner_leaves_a_socket_that_is_in_nobodys_way(stage: Stage) -> None:
    """After kill -9 commands go to the state itself; the next start takes the socket's place."""
    stage.declare(stage.job("job", NEVER))
    path = stage.state / "control.sock"
    first = stage.start().active()
    wait_until(path.exists, "the socket is there")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first.kill()
    assert path.is_socket()
    run_id = called(stage, "trigger", "job").out.strip()
    second = stage.start().active()
    assert ends(stage, run_id) == "succeeded"
    called(stage, "trigger", "job", "--wait")
    second.stop()
    assert not path.exists()
    assert sorted(one.name for one in stage.state.iterdir() if ".sock" in one.name) == []


def test_a_long_path_has_a_socket_too(stage: Stage) -> None:
    """A state whose path is longer than the address of a Unix socket can be asked all the same."""
    stage.state = stage.root / ("d" * 120) / ("e" * 120)
    stage.declare(stage.job("job", NEVER))
    runner = stage.start().active()
    assert document(stage, "trigger", "job", "--wait")["end"]["status"] == "succeeded"
    assert (stage.state / "control.sock").is_socket()
    assert runner.messages("note") == []
    runner.stop()


def test_a_socket_that_is_taken_away_comes_back(stage: Stage) -> None:
    """The file of the socket deleted under a runner, commands reach it again after a while."""
    stage.declare(stage.job("job", NEVER))
    runner = stage.start().active()
    path = stage.state / "control.sock"
    wait_until(path.exists, "the socket is there")
    path.unlink()
    assert document(stage, "trigger", "job", "--wait")["end"]["status"] == "succeeded"
    runner.stop()


def test_a_runner_that_cannot_be_reached_is_not_worked_around(stage: Stage) -> None:
    """Where a live runner has no socket, it says so and runs its jobs, and a command is refused with 75 and changes nothing."""
    stage.declare(stage.job("each"))
    (stage.state / "control.sock").mkdir(parents=True)
    stage.state.chmod(0o700)
    runner = stage.start(env=quick()).active()
    assert "no control socket" in runner.says("note")["message"]
    refused = called(stage, "jobs", "pause", "each", code=75)
    assert f"process {runner.pid} holds the state" in refused.err
    assert "hint:" in refused.err
    assert len(runner.messages("note")) == 1
    runner.finished("each", count=len(runner.attempts("each")) + 1)
    assert stage.rows(stage.control, "SELECT term FROM term") == [(1,)]
    in_order(stage, runner)


def test_a_state_that_is_not_there_or_not_sound(stage: Stage) -> None:
    """A missing state is 4 and nothing is created, a damaged one 78 and left as it is, an unknown job or run 4, no runner 3."""
    stage.declare(stage.job("job", NEVER))
    asked = (["trigger", "job"], ["jobs", "pause", "job"], ["runs", "cancel", "run_x"], ["workspace", "set", "w", "--suspend"])
    for words in (*asked, ["reload"]):
        called(stage, *words, code=4)
        assert stage.call(*words, "--state", ":memory:").code == 4
    assert [one.name for one in stage.root.iterdir()] == ["jobs.json"]
    stage.start().active().stop()
    for words in (
        ["trigger", "nobody"],
        ["jobs", "resume", "nobody"],
        ["runs", "retry", "run_x"],
        ["backfill", "--cancel", "bf_x"],
    ):
        called(stage, *words, code=4)
    called(stage, "reload", code=3)
    for path in (stage.control, stage.history):
        sound = path.read_bytes()
        path.write_bytes(b"no database" * 1000)
        called(stage, "trigger", "job", code=78)
        assert path.read_bytes() == b"no database" * 1000
        path.write_bytes(sound)
    called(stage, "trigger", "job")


# ---------------------------------------------------------------------------------------------------------- on the socket


_IMPATIENT = """
import asyncio, sys
from pathlib import Path
from cronpad_core.domain.errors import NotRunningError
from cronpad_core.runtime.control_client import ControlClient

async def go():
    async with await ControlClient.connect(Path(sys.argv[1])) as client:
        await client.ask("ping", {}, within_ms=500)

try:
    asyncio.run(go())
except NotRunningError as error:
    print(error.message)
"""

_NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
connection = socket.socket(socket.AF_UNIX)
os.fchdir(int(sys.argv[1]))
connection.connect("control.sock")
try:
    connection.sendall(b'{"op": "trigger", "arguments": {"job": "job"}}\\n')
except BrokenPipeError:
    pass  # it was sent away before it asked
print(connection.makefile().readline())
"""


def _connection(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect(str(path))
    return connection


def test_bad_lines_do_no_harm(stage: Stage) -> None:
    """Whatever is written into the socket is answered with an error at most, and the runner misses no slot."""
    stage.declare(stage.job("each"))
    runner = stage.start().active()
    path = stage.state / "control.sock"
    wait_until(path.exists, "the socket is there")
    lines = [
        b"\n",
        b"hello\n",
        b"\xff\xfe\x00\n",
        b"[1]\n",
        b'{"op": 3}\n',
        b'{"op": "nothing"}\n',
        b'{"op": "trigger", "arguments": {"job": 7}}\n',
        b'{"op": "trigger", "arguments": [1]}\n',
        b'{"op": "wait", "arguments": {"run_id": "run_x", "timeout_ms": -1}}\n',
        b'{"op": "trigger", "arguments": {"job": "each", "payload": NaN}}\n',
        b"[" * 100_000 + b"\n",
    ]
    with _connection(path) as connection, connection.makefile("rb") as answers:
        for line in lines:
            connection.sendall(line)
            answer = json.loads(answers.readline())
            assert (answer["ok"], set(answer["error"]) >= {"kind", "message", "hint"}) == (False, True), (line[:60], answer)
        connection.sendall(b'{"id": 9, "op": "ping"}\n')
        assert json.loads(answers.readline()) == {"id": 9, "ok": True, "result": {"pid": runner.pid, "term": 1}}
    for rest in (b"x" * 3_000_000, b'{"op": "trigger", "argu', b'{"op": "ping"}\n' * 5_000):
        with _connection(path) as connection:
            try:
                connection.sendall(rest)
            except (BrokenPipeError, ConnectionResetError):
                continue
    held = []
    while True:
        connection = _connection(path)
        held.append(connection)
        with connection.makefile("rb") as answers:
            with suppress(BrokenPipeError):  # it was sent away before it asked
                connection.sendall(b'{"op": "ping"}\n')
            answer = json.loads(answers.readline())
        if not answer["ok"]:
            break
    assert answer["error"]["kind"] == "busy"
    assert len(held) <= 33
    for one in held:
        one.close()
    wait_until(lambda: stage.call("reload", "--state", stage.state).code == 0, "clients are let in again")
    runner.finished("each", count=len(runner.attempts("each")) + 1)
    assert [one for one in runner.messages("note") if "failed" in one["message"]] == []
    in_order(stage, runner)


def test_a_frozen_runner_does_not_hold_a_command_for_ever(stage: Stage) -> None:
    """A runner that is stopped takes no order; the command ends with 3 and says that nothing is known."""
    stage.declare(stage.job("job", NEVER))
    runner = stage.start(env=quick(lock_ttl="10m")).active()
    wait_until((stage.state / "control.sock").exists, "the socket is there")
    runner.send(signal.SIGSTOP)
    try:
        command = [sys.executable, "-c", _IMPATIENT, str(stage.state / "control.sock")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    finally:
        runner.send(signal.SIGCONT)
    assert "has not answered" in done.stdout, done
    runner.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_is_refused(stage: Stage) -> None:
    """Even where the file's mode would let another user in, the runner does not listen to it."""
    stage.declare(stage.job("job", NEVER))
    runner = stage.start().active()
    path = stage.state / "control.sock"
    wait_until(path.exists, "the socket is there")
    path.chmod(0o666)
    descriptor = os.open(stage.state, os.O_PATH)
    stage.state.chmod(0o711)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _NOBODY, str(descriptor)], capture_output=True, text=True, timeout=60, pass_fds=[descriptor]
        )
    finally:
        os.close(descriptor)
    assert json.loads(done.stdout)["error"]["kind"] == "refused", done
    assert stage.statuses() == {}
    runner.stop()
