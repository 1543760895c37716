"""Who a process is, and when another one is provably gone; and the pulse that a health check reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cronpad_core.runtime.clock import SystemClock
from cronpad_core.runtime.health import FILE, Pulse, read_pulse, write_pulse
from cronpad_core.runtime.identity import ProcessIdentity

_HOLDER = """
import sys
from pathlib import Path
from cronpad_core.runtime.clock import SystemClock
from cronpad_core.runtime.identity import ProcessIdentity
identity = ProcessIdentity(Path(sys.argv[1]), SystemClock(), "other")
print(identity.me(), flush=True)
sys.stdin.read()
"""


def test_a_living_process_is_not_dead_and_a_killed_one_is(tmp_path: Path) -> None:
    """A holder counts as gone only once its process is; that it was stopped says nothing."""
    here = ProcessIdentity(tmp_path, SystemClock(), "me")
    with subprocess.Popen([sys.executable, "-c", _HOLDER, str(tmp_path)], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        said = other.stdout.readline()
        assert json.loads(said)["flock"] is True
        assert not here.dead(said)
        other.kill()
        other.wait()
    assert here.dead(said)


def test_the_file_lock_is_evidence_where_the_process_cannot_be_seen(tmp_path: Path) -> None:
    """From another namespace, or after another boot, a free lock proves the death of a holder that had it, and of no other."""
    here = ProcessIdentity(tmp_path, SystemClock(), "me")
    with subprocess.Popen([sys.executable, "-c", _HOLDER, str(tmp_path)], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        said = json.loads(other.stdout.readline())
        elsewhere = json.dumps({**said, "ns": "pid:[1]"})
        assert not here.dead(elsewhere)
        assert json.loads(here.me())["flock"] is False
        other.kill()
        other.wait()
    assert here.dead(elsewhere)
    assert not here.dead(json.dumps({**said, "ns": "pid:[1]", "flock": False}))
    assert not here.dead(json.dumps({**said, "boot": "another", "flock": False}))


def test_a_reused_pid_is_another_process(tmp_path: Path) -> None:
    """The same pid with another start time is not the holder any more."""
    here = ProcessIdentity(tmp_path, SystemClock(), "me")
    me = json.loads(here.me())
    assert me["pid"] == os.getpid()
    assert not ProcessIdentity(tmp_path, SystemClock(), "x").dead(json.dumps(me))
    assert here.dead(json.dumps({**me, "start": "1"}))
    here.close()


@pytest.mark.parametrize("said", ["", "{}", "nonsense", '{"boot": 1}', "[]"])
def test_what_cannot_be_read_is_not_dead(tmp_path: Path, said: str) -> None:
    """Evidence that nobody understands proves nothing."""
    assert not ProcessIdentity(tmp_path, SystemClock(), "me").dead(said)


def test_a_pulse_is_read_back_and_grows_stale(tmp_path: Path) -> None:
    """A fresh one of an active dispatcher is well; an old one, one of another boot, and one with failing stores are not."""
    clock = SystemClock()
    pulse = Pulse(
        dispatcher="active", pid=1, term=3, boot_id=clock.boot_id(), beat_boot_ms=clock.boot_ms(), fresh_for_ms=60_000, running=2
    )
    assert read_pulse(tmp_path) is None
    write_pulse(tmp_path, pulse)
    assert read_pulse(tmp_path) == pulse
    assert pulse.problems(clock) == ()
    beat = pulse.beat_boot_ms
    unwell = [
        replace(pulse, beat_boot_ms=beat - 61_000),
        replace(pulse, boot_id="another"),
        replace(pulse, dispatcher="standby"),
        replace(pulse, failing=("queue",)),
    ]
    assert all(one.problems(clock) for one in unwell)
    (tmp_path / FILE).write_text("{")
    assert read_pulse(tmp_path) is None
