"""The wall clock of a real runner is set an hour forward, back again, and drifts: no slot is lost, no ended run repeated.

After a step back jobs run again within a minute, not when the old time returns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from place import Course, Row, last_words
from preload import library, set_offset
from stage import Running, wait_until

__all__ = ["STEPS", "clock_steps"]

_HOUR = 3_600_000


def _step(by_ms: int) -> Iterator[int]:
    yield by_ms


def _ramp(by_ms: int) -> Iterator[int]:
    """Two parts in a hundred too fast: 20 ms more after each second, as a clock that is being slewed."""
    for part in range(1, 11):
        time.sleep(0.25)  # what makes it slow
        yield by_ms * part // 10


STEPS = {
    "forward an hour": (_step, _HOUR),
    "back an hour": (_step, -_HOUR),
    "slow ramp": (_ramp, 50),
    "back 5 s": (_step, -5_000),
}


def clock_steps(course: Course, steps: list[str], *, jobs: int = 6) -> Row:
    """Plays these steps, one after the other, on one runner. Raises ``Unavailable`` without a compiler."""
    clock = course.root / "clock"
    set_offset(clock, 0)
    course.fill(jobs)
    course.clock = {"LD_PRELOAD": str(library("clock", course.root)), "CLOCK_OFFSET": str(clock)}
    runner = course.start(env=course.clock).active()
    runner.finished("job-1", count=2)
    trouble = []
    for name in steps:
        move, by_ms = STEPS[name]
        before = course.offset_ms
        course.set_back |= by_ms < 0
        for more_ms in move(by_ms):
            course.offset_ms = before + more_ms
            set_offset(clock, course.offset_ms)
        try:
            _goes_on(course, runner, within=75)
        except AssertionError as error:
            trouble.append(f"after {name}: {str(error)[:300]}")
            break
    if trouble:
        runner.kill()
        return Row("wall clock: " + ", ".join(steps), len(steps), findings=trouble)
    course.come_to_rest(runner, within=90)
    row = course.reckon("wall clock: " + ", ".join(steps), len(steps))
    row.findings = trouble + row.findings
    return row


def _goes_on(course: Course, runner: Running, within: float) -> None:
    """Every job runs twice more, in slots about the new now."""
    since_ms = course.now_ms()

    def fresh() -> bool:
        runner.require_alive()
        tags = [line.tag for line in course.witness() if since_ms <= line.slot_ms < course.now_ms() + 2_000]
        return all(tags.count(job) >= 2 for job in {line.tag for line in course.witness()})

    wait_until(fresh, lambda: f"jobs run in the new time:\n{last_words(runner)}", within=within)
