"""Two runners on one state, and the one that dispatches is stopped (SIGSTOP) for longer than its lock and its leases live.

The other takes over; the first is continued, and must notice before it does anything.
"""

from __future__ import annotations

import random
import signal
import time

from place import SETTINGS, Course, Row
from stage import Running, quick, wait_until

__all__ = ["freezes"]

_SCALED = SETTINGS | quick(lock_ttl="1s", lease_duration="3s")


def freezes(course: Course, count: int, *, jobs: int = 20, seed: int) -> Row:
    """Freezes whoever dispatches, so many times, then lets all catch up and reckons."""
    moments = random.Random(seed)
    course.fill(jobs)
    runners = [course.start(env=_SCALED), course.start(env=_SCALED)]
    taken = 0
    for _ in range(count):
        active = wait_until(lambda: _active(runners), "one of both dispatches", within=60)
        other = runners[1 - runners.index(active)]
        time.sleep(moments.uniform(0.2, 1.2))  # the moment is what varies
        before = len(other.messages("dispatcher", state="active"))
        active.send(signal.SIGSTOP)
        time.sleep(moments.uniform(3.2, 5.0))  # longer than lock and lease
        taken += len(other.messages("dispatcher", state="active")) > before
        active.send(signal.SIGCONT)
        for runner in runners:
            runner.require_alive()
    active = wait_until(lambda: _active(runners), "one of both dispatches", within=60)
    runners[1 - runners.index(active)].stop()
    course.come_to_rest(active)
    row = course.reckon("SIGSTOP past lock and lease", count, in_turn=False)
    row.notes["freezes during which the other took over"] = taken
    if not taken:
        row.findings.append("nobody ever took over from a frozen runner")
    return row


def _active(runners: list[Running]) -> Running | None:
    """The one that says that it dispatches, where the other does not."""
    states = [(runner.messages("dispatcher") or [{"state": ""}])[-1]["state"] for runner in runners]
    return runners[states.index("active")] if states.count("active") == 1 else None
