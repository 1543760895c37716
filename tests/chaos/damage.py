"""The queue's file is damaged in many ways while nobody uses it: bits flipped, cut short at every sector, garbage over a part.

It is an index: whatever is left of it, the next start loses no slot, repeats no ended run, and says no traceback.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from place import Course, Row, last_words

__all__ = ["WAYS", "damages"]

_SECTOR = 512


def _flip(content: bytearray, rng: random.Random, number: int) -> str:
    bit = rng.randrange(len(content) * 8)
    content[bit // 8] ^= 1 << bit % 8
    return f"bit {bit} flipped"


def _cut(content: bytearray, rng: random.Random, number: int) -> str:
    length = number * _SECTOR % len(content)
    del content[length:]
    return f"cut to {length}"


def _garbage(content: bytearray, rng: random.Random, number: int) -> str:
    at, length = rng.randrange(len(content)), rng.choice([16, _SECTOR, 4096])
    content[at : at + length] = rng.randbytes(min(length, len(content) - at))
    return f"{length} bytes of garbage at {at}"


WAYS: dict[str, Callable[[bytearray, random.Random, int], str]] = {"bit flips": _flip, "cut short": _cut, "garbage": _garbage}


def damages(root: Path, count: int, *, way: str, seed: int, jobs: int = 10) -> Row:
    """Damages copies of one state, so many times, and starts on each."""
    rng = random.Random(seed)
    with Course(root / "sound") as course:
        course.fill(jobs)
        runner = course.start().active()
        runner.finished("job-1", count=3)
        runner.kill()
        with closing(sqlite3.connect(course.queue)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # or the log would hide the damage
        row = Row(f"queue file, {way}")
        for number in range(count):
            place = root / f"{way.replace(' ', '-')}-{number}"
            shutil.copytree(course.root, place, ignore=shutil.ignore_patterns("*.sock"))
            row.add(_start_on(course, place, WAYS[way], rng, number))
    return row


def _start_on(
    course: Course, place: Path, way: Callable[[bytearray, random.Random, int], str], rng: random.Random, number: int
) -> Row:
    with Course(place) as after:
        content = bytearray(after.queue.read_bytes())
        done = way(content, rng, number)
        after.queue.write_bytes(content)
        runner = after.start(file=course.file, env={"E2E_RUNNER": "1"}).active()
        runner.finished("job-1", count=2)
        after.come_to_rest(runner, within=90)
        row = after.reckon("damage", 1, in_turn=False)
        row.findings += after.of_reported(course.runners[0].attempts(), 1)
        if "Traceback" in runner.stderr:
            row.findings.append(last_words(runner))
        row.findings = [f"{place.name}, {done}: {one}" for one in row.findings]
        row.notes.clear()
        row.notes["queues rebuilt"] = len(runner.messages("queue_rebuilt"))
    if not row.findings:
        shutil.rmtree(place)
    return row
