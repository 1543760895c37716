"""A small file system fills up under a runner, again and again: it waits, says so, and goes on when there is room."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from place import Course, Row
from preload import Unavailable

__all__ = ["full_disks"]


@contextmanager
def _small(place: Path, size: str) -> Iterator[None]:
    """A file system of its own at this place. Raises ``Unavailable``."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        raise Unavailable("a small file system needs root")
    place.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def full_disks(course: Course, count: int, *, seed: int, jobs: int = 10) -> Row:
    """Fills the state's file system so many times."""
    rng = random.Random(seed)
    course.fill(jobs)
    filler = course.state / "filler"
    with _small(course.state, "24m"):
        runner = course.start().active()
        for number in range(1, count + 1):
            runner.finished("job-1", count=len(runner.attempts("job-1")) + rng.randint(1, 2))
            _fill(filler)
            runner.says("store_failed", times=len(runner.messages("store_failed")) + 1, within=60)
            time.sleep(rng.uniform(0.5, 4))  # how long it is full
            filler.unlink()
            runner.says("store_recovered", times=number)
        course.come_to_rest(runner)
        return course.reckon("full disk", count)


def _fill(filler: Path) -> None:
    """Takes all the room that is left."""
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return
