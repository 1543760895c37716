"""Output: counted in full, kept at both ends, never in the way of the command."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest

from cronpad_command.capture import Capture
from cronpad_core.api import Delivered, TimedOut

MIB = 1_048_576

MEASURED_RUN = """
import asyncio, json, sys, re, pathlib
from cronpad_command.settings import Settings
from cronpad_command.sink import CommandSink
from cronpad_core.api import CancelSignal, Delivery, SinkContext, Trigger
import os

def memory(key):
    return int(re.search(rf"{key}:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024

async def run(command, timeout_ms=100_000):
    sink = CommandSink(SinkContext(settings={}, environ=dict(os.environ), secret=str))
    return await sink.deliver(Delivery(
        job_id="j", job_name="j", workspace="w", run_id=os.urandom(8).hex(), occurrence="o", trigger=Trigger.SCHEDULED,
        attempt=0, redelivery=0,
        slot_at_ms=0, scheduled_at_ms=0, timezone="UTC", fence="f", timeout_ms=timeout_ms,
        kill_grace_ms=1000, deadline_boot_ms=0,
        settings=Settings(command=command), cancel=CancelSignal(), still_ours=lambda: True))

async def main():
    await run("true")
    before = memory("VmRSS")
    outcome = await run(sys.argv[1], int(sys.argv[2]))
    stdout = outcome.output[0]
    print(json.dumps({
        "kind": type(outcome).__name__, "code": outcome.exit_code, "grown": memory("VmHWM") - before, "total": stdout.total,
        "truncated": stdout.truncated, "head": len(stdout.head), "tail": len(stdout.tail)}))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("command", "timeout_ms", "kind", "total"),
    [
        ("yes | head -c 500000000", 100_000, "Delivered", 500_000_000),
        ("head -c 5000000 /dev/zero", 100_000, "Delivered", 5_000_000),
        ("yes", 1_000, "TimedOut", None),
    ],
)
def test_a_flood_is_counted_and_costs_no_memory(command, timeout_ms, kind, total):
    """B095: the runner grows by less than 30 MiB, the command is never blocked for good, and its exit code is right."""
    run = subprocess.run(
        [sys.executable, "-c", MEASURED_RUN, command, str(timeout_ms)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    seen = json.loads(run.stdout)
    assert seen["kind"] == kind
    assert seen["grown"] < 30 * MIB
    assert (seen["head"], seen["tail"], seen["truncated"]) == (65_536, 65_536, True)
    if total is None:
        assert seen["total"] > MIB
    else:
        assert (seen["total"], seen["code"]) == (total, 0)


def test_any_bytes_survive(bench, bytes_of):
    """NUL, bytes that are no UTF-8, and terminal sequences are kept as they are."""
    every = bytes(range(256)) + b"\xff\xfe\x00\x1b]0;title\x07\xc3("
    program = f"import sys; sys.stdout.buffer.write({every!r}); sys.stderr.buffer.write({every[::-1]!r})"
    outcome = bench.run([sys.executable, "-c", program])
    assert isinstance(outcome, Delivered)
    assert bytes_of(outcome) == every
    assert bytes_of(outcome, "stderr") == every[::-1]


def test_a_long_line_is_no_problem(bench, bytes_of):
    """200 KB without a newline: the ends are kept, the rest is counted."""
    outcome = bench.run("head -c 200000 /dev/zero | tr '\\0' a; printf END")
    stdout = outcome.output[0]
    assert (stdout.total, stdout.truncated) == (200_003, True)
    assert stdout.tail.endswith(b"aEND")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_full_pipe_of_either_stream_does_not_block(bench, stream):
    """A megabyte on one stream while the other is silent goes through."""
    redirected = ">&2" if stream == "stderr" else ""
    outcome = bench.run(f"head -c {MIB} /dev/zero {redirected}")
    assert isinstance(outcome, Delivered)
    assert {part.name: part.total for part in outcome.output}[stream] == MIB


def test_a_command_may_close_its_output(bench):
    """The end of both streams is not the end of the command."""
    assert bench.run("exec >&- 2>&-; sleep 0.3; exit 4").exit_code == 4


def test_the_output_of_a_timeout_is_kept(bench, output_of):
    """What a command said before it ran out of time is in the record."""
    outcome = bench.run("echo begun; sleep 600", timeout_ms=2_000)
    assert isinstance(outcome, TimedOut)
    assert output_of(outcome) == "begun\n"


@pytest.mark.parametrize(("head", "tail"), [(0, 0), (0, 7), (7, 0), (5, 5), (64, 3), (1_000, 1_000)])
def test_a_capture_keeps_both_ends_of_any_stream(head, tail):
    """However a stream is cut into pieces, its first and last bytes are kept once and all are counted."""
    chance = random.Random(f"{head}/{tail}")
    for _ in range(200):
        stream = chance.randbytes(chance.randrange(0, 300))
        capture = Capture("stdout", keep_head=head, keep_tail=tail)
        at = 0
        while at < len(stream):
            step = chance.randrange(1, 40)
            capture.feed(stream[at : at + step])
            at += step
        kept = capture.result()
        rest = stream[head:]
        assert kept.total == len(stream)
        assert kept.head == stream[:head]
        assert kept.tail == (rest[-tail:] if tail else b"")
        assert kept.truncated == (len(stream) > head + tail)


def test_a_capture_of_single_bytes_stays_small():
    """A million one-byte pieces need the memory of the kept ends."""
    capture = Capture("stdout", keep_head=10, keep_tail=100)
    for _ in range(1_000_000):
        capture.feed(b"x")
        assert len(capture._tail) <= 201
    assert capture.result().total == 1_000_000
