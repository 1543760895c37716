"""The n-th write, sync, truncation or opening of a file of the state fails, with EIO or as on a full disk.

The runner goes on, or ends with a documented code and a word about it; started again it has lost nothing.
"""

from __future__ import annotations

import errno
import random
import shutil
from pathlib import Path

from place import CODES, Course, Row, last_words
from preload import library
from stage import Running, wait_until

__all__ = ["CALLS", "failing_calls"]

CALLS = {"write": (errno.EIO, errno.ENOSPC), "fsync": (errno.EIO,), "ftruncate": (errno.EIO,), "open": (errno.EIO, errno.EMFILE)}
_TIMES = (1, 3, 40)


def failing_calls(root: Path, count: int, *, call: str, seed: int, jobs: int = 4, first: int = 1) -> Row:
    """Fails one call after the other, from this one on in growing steps, until one does not come any more."""
    rng = random.Random(seed)
    root.mkdir(parents=True)
    shim = library("failing", root)
    row = Row(f"failing {call}")
    at = first
    for number in range(count):
        place = root / f"{call}-{number}"
        with Course(place) as course:
            fired, one = _play(course, shim, call, at, rng, jobs)
        if not one.findings:
            shutil.rmtree(place)
        row.add(one)
        if not fired:
            break
        at += rng.randint(1, max(1, at // 3))
    row.notes["courses"] = number + 1
    row.notes["number of the last call that failed"] = at
    return row


def _play(course: Course, shim: Path, call: str, at: int, rng: random.Random, jobs: int) -> tuple[bool, Row]:
    log = course.root / "failed"
    number, times = rng.choice(CALLS[call]), rng.choice(_TIMES)
    env = {"LD_PRELOAD": str(shim), "FAIL_ROOT": str(course.state), "FAIL_CALL": call, "FAIL_LOG": str(log)}
    env |= {"FAIL_AT": str(at), "FAIL_TIMES": str(times), "FAIL_ERRNO": str(number)}
    course.fill(jobs)
    runner = course.start(env=env)
    wait_until(lambda: _seen_through(runner, log), lambda: f"it goes on:\n{last_words(runner)}", within=90)
    code = runner.process.poll()
    fired = log.exists() and log.stat().st_size > 0
    trouble = []
    if code is None:
        runner.kill()
    elif code not in CODES - {0} or "error: " not in runner.stderr:
        trouble.append(f"ended with {code}: {last_words(runner)}")
    if "Traceback" in runner.stderr:
        trouble.append(f"a traceback: {last_words(runner)}")
    last = course.start().active(within=60)
    last.finished("job-1", count=2)
    course.come_to_rest(last)
    row = course.reckon(call, log.stat().st_size if fired else 0)
    row.findings = [f"{call} {at} × {times}, {errno.errorcode[number]}: {one}" for one in trouble + row.findings]
    row.notes.clear()
    row.notes["ended with a documented code" if code is not None else "went on"] += 1
    return fired, row


def _seen_through(runner: Running, log: Path) -> bool:
    """Ended, or a few runs after the failures are over, or after it is clear that the call does not come."""
    if runner.process.poll() is not None:
        return True
    done = len(runner.attempts("job-1"))
    return done >= (3 if log.exists() and log.stat().st_size else 4)
