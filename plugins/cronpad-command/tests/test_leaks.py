"""Descriptors and processes stay what they were, whatever happens to a run."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource

import pytest

from cronpad_command import nursery_link, spawn
from cronpad_core.api import Delivered, Failed, SpawnError, SpawnRequest, TimedOut

pytestmark = pytest.mark.parametrize("bench", ["nursery", "plain"], indirect=True)


def _many(bench, commands, **changes):
    async def scenario():
        sink = bench.sink()
        return [outcome for command in commands for outcome in [await sink.deliver(bench.delivery(command, **changes))]]

    return asyncio.run(scenario())


def test_two_hundred_runs_leave_nothing(bench, descriptors, children):
    """B088: runs that succeed, fail and cannot start leave the descriptors as they were, and no zombie, in one process."""

    async def scenario():
        sink = bench.sink()
        await sink.deliver(bench.delivery("true"))
        before = descriptors()
        for _ in range(50):
            outcomes = await asyncio.gather(
                *(sink.deliver(bench.delivery(command)) for command in ("true", "exit 3", ["no_such_cmd_xyz"], ["/tmp"]))
            )
            assert [outcome.exit_code for outcome in outcomes] == [0, 3, 127, 126]
            assert children() == []
        assert descriptors() == before

    asyncio.run(scenario())


def test_two_hundred_timeouts_leave_nothing(bench, descriptors, children):
    """B088: the same for runs that are ended, many at a time."""

    async def scenario():
        sink = bench.sink()
        await sink.deliver(bench.delivery("true"))
        before = descriptors()
        for _ in range(4):
            outcomes = await asyncio.gather(
                *(sink.deliver(bench.delivery("sleep 600 & sleep 601; true", timeout_ms=200)) for _ in range(50))
            )
            assert {type(outcome) for outcome in outcomes} == {TimedOut}
            assert children() == []
            assert bench.alive() == []
        assert descriptors() == before

    asyncio.run(scenario())


def _with_free_descriptors(count):
    """Holds all descriptors but a few, under a limit that is lowered for the while."""
    stack = contextlib.ExitStack()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 128), hard))
    stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    held = []
    with contextlib.suppress(OSError):
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    for descriptor in held[count:]:
        stack.callback(os.close, descriptor)
    for descriptor in held[:count]:
        os.close(descriptor)
    return stack


def test_a_lack_of_descriptors_at_any_step_is_a_failure_that_can_be_retried(bench, descriptors):
    """EMFILE at each of the places where one is needed: a run is either done or not started, and nothing leaks."""

    async def scenario():
        sink = bench.sink()
        await sink.deliver(bench.delivery("true"))
        before = descriptors()
        seen = []
        for count in range(12):
            with _with_free_descriptors(count):
                outcome = await sink.deliver(bench.delivery(["/bin/true"]))
            assert descriptors() == before
            seen.append(type(outcome))
            if isinstance(outcome, Failed):
                assert outcome.reason.startswith("resource: EMFILE")
                assert (outcome.exit_code, outcome.retryable, outcome.undelivered) == (None, True, True)
        assert seen[0] is Failed
        assert seen[-1] is Delivered
        assert seen == sorted(seen, key=lambda kind: kind is Delivered)

    asyncio.run(scenario())


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
def test_a_fork_that_fails_is_a_failure_that_can_be_retried(bench, monkeypatch, number):
    """A machine without room for another process may have it later."""

    def refused(*_args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(spawn if bench.plain else nursery_link, "_start", refused)
    outcome = bench.run("true")
    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith(f"resource: {errno.errorcode[number]}")
    assert (outcome.retryable, outcome.undelivered) == (True, True)


@pytest.mark.parametrize("lacking", ["pidfd_open", "waitid"])
def test_a_system_without_pidfds_or_waitid_does_as_well(bench, monkeypatch, lacking):
    """Exit codes, signals and timeouts are the same where only looking now and then is possible."""
    monkeypatch.delattr(os, lacking)
    done, failed, killed = _many(bench, ["true", "exit 3", "kill -9 $$"])
    assert isinstance(done, Delivered)
    assert (failed.exit_code, killed.facts["signal"]) == (3, 9)
    assert isinstance(bench.run("sleep 600 & sleep 601; true", timeout_ms=200), TimedOut)
    assert isinstance(bench.run("sleep 600 >/dev/null 2>&1 & exit 0"), Delivered)


@pytest.mark.parametrize(
    "request_",
    [
        SpawnRequest(argv=[], env={}),
        SpawnRequest(argv=["a\0b"], env={}),
        SpawnRequest(argv=["true"], env={"A=B": "1"}),
        SpawnRequest(argv=["true"], env={"A": "\ud800"}),
    ],
    ids=["nothing", "NUL", "name", "surrogate"],
)
def test_what_cannot_be_a_process_is_a_spawn_error(bench, request_):
    """The port answers every impossible request in the same way."""

    async def scenario():
        with pytest.raises(SpawnError) as refused:
            await bench.spawner().spawn(request_)
        assert (refused.value.code, refused.value.resource) == (126, False)

    asyncio.run(scenario())


def test_no_descriptor_of_ours_reaches_a_command(bench, output_of):
    """A child has its three streams and what it opens itself, an inheritable descriptor of the runner included."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        outcome = bench.run(["ls", "/proc/self/fd"])
    finally:
        os.close(reader)
        os.close(writer)
    assert output_of(outcome).split() == ["0", "1", "2", "3"]


def test_signals_after_the_end_reach_nobody(bench):
    """TERM and KILL to a child that is over are no error, and go nowhere: its number may be another's."""

    async def scenario():
        child = await bench.spawner().spawn(SpawnRequest(argv=["/bin/true"], env={}))
        ended = await child.wait()
        child.terminate()
        child.kill()
        assert await child.wait() == ended
        assert (ended.exit_code, ended.signal) == (0, None)

    asyncio.run(scenario())


def test_a_command_leads_a_session_of_its_own(bench, output_of):
    """A signal to the runner's terminal does not reach its commands."""
    session, group, pid = output_of(bench.run("ps -o sid=,pgid=,pid= -p $$")).split()
    assert session == group == pid
