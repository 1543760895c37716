"""The short form of ``nox -s chaos``: each kind of fault a few times on real runners, and the same reckoning at the end."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stage import Stage

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "chaos"))

from clock_steps import clock_steps  # needs the path
from damage import WAYS, damages
from failing_calls import failing_calls
from freezing import freezes
from full_disk import full_disks
from kill_loop import kills
from place import Course, Row
from power_cuts import power_cuts
from preload import Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def _comes_to_nothing(part: Callable[[int], Row]) -> Row:
    """Plays a part with a seed of its own; nothing may be lost and nothing found."""
    seed = random.SystemRandom().randrange(1 << 32)
    try:
        row = part(seed)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert (row.lost, row.findings) == (0, []), f"seed {seed}"
    assert row.expected > 0
    return row


def test_kills(stage: Stage) -> None:
    """Five kills at random moments lose no slot, and repeat no more than what was running at a kill."""
    with Course(stage.root / "course") as course:
        row = _comes_to_nothing(lambda seed: kills(course, 5, jobs=12, seed=seed))
    assert row.injected == 5


def test_a_freeze(stage: Stage) -> None:
    """A runner that is stopped for longer than its lock and its leases live costs no slot, and two runners share none."""
    with Course(stage.root / "course") as course:
        _comes_to_nothing(lambda seed: freezes(course, 1, jobs=5, seed=seed))


def test_power_cuts(stage: Stage) -> None:
    """On a disk as a power cut may leave it every acknowledged result is there, and no slot is lost, whatever was torn."""
    row = _comes_to_nothing(lambda seed: power_cuts(stage.root / "power", 3, jobs=3, for_s=3, seed=seed))
    assert row.injected == 3
    assert row.notes["acknowledged results"] > 0


@pytest.mark.parametrize(("call", "first"), [("write", 60), ("fsync", 12)])
def test_a_failing_call(stage: Stage, call: str, first: int) -> None:
    """A call that fails on a file of the state ends the runner in order or not at all, and costs nothing."""
    place = stage.root / "calls"
    row = _comes_to_nothing(lambda seed: failing_calls(place, 1, call=call, seed=seed, first=first + seed % first))
    assert row.injected > 0


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_queue_file(stage: Stage, way: str) -> None:
    """A queue file that was damaged anywhere costs no slot and repeats no ended run."""
    _comes_to_nothing(lambda seed: damages(stage.root / "damage", 1, way=way, seed=seed, jobs=3))


def test_a_file_system_that_is_full(stage: Stage) -> None:
    """A small file system that fills up is waited for."""
    with Course(stage.root / "course") as course:
        _comes_to_nothing(lambda seed: full_disks(course, 1, jobs=3, seed=seed))


def test_the_clock_goes_forward(stage: Stage) -> None:
    """An hour that the clock jumps over is decided by the policies, and a slow drift is not even noticed."""
    with Course(stage.root / "course") as course:
        _comes_to_nothing(lambda seed: clock_steps(course, ["forward an hour", "slow ramp"], jobs=3))


def test_the_clock_goes_back(stage: Stage) -> None:
    """After a step back of an hour jobs run again within a minute, and no slot runs twice (B054)."""
    with Course(stage.root / "course") as course:
        _comes_to_nothing(lambda seed: clock_steps(course, ["back an hour"], jobs=3))
