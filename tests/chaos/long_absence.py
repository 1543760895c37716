"""A runner comes back after a minute, a day, two weeks without it: a job a second with each policy, beside jobs that are on time.

The first runner's clock is that long behind, by a preloaded library; the second one's is right. What is proved: the stated slots
run, all others are in ranges, and the figures say how long the start took, what memory it needed, and how late on-time jobs
began while slots were being caught up with.
"""

from __future__ import annotations

import time

from place import Course, Row, last_words
from preload import library, set_offset
from stage import Running, wait_until

__all__ = ["ABSENCES", "long_absences"]

ABSENCES = {"a minute": 60, "a day": 86_400, "two weeks": 14 * 86_400}
_POLICIES = {
    "latest": {"policy": "latest"},
    "earliest": {"policy": "earliest", "window": "400d"},
    "all": {"policy": "all", "window": "400d", "max": 300},
    "skip": {"policy": "skip"},
}
_CAUGHT_UP = {"latest": 1, "earliest": 1, "all": 300, "skip": 0}
_ON_TIME = 10


def long_absences(course: Course, absence: str) -> Row:
    """One absence on this course. Raises ``Unavailable`` without a compiler."""
    away_s = ABSENCES[absence]
    clock = course.root / "clock"
    course.offset_ms = -away_s * 1_000
    set_offset(clock, course.offset_ms)
    late = [course.job(f"late-{name}", misfire=rule, grace="2s") for name, rule in _POLICIES.items()]
    course.declare(*late)
    env = {"LD_PRELOAD": str(library("clock", course.root)), "CLOCK_OFFSET": str(clock)}
    first = course.start(env=env).active()
    first.finished("late-all", count=2)
    first.stop()

    course.offset_ms = 0
    course.declare(*late, *(course.job(f"on-time-{number}") for number in range(_ON_TIME)))
    began = time.monotonic()
    second = course.start().active(within=60)
    active_s = time.monotonic() - began
    memory_kb = second.resident_kb()
    chosen = min(_CAUGHT_UP["all"], away_s)
    wait_until(
        lambda: _replays(course) == 0 and len(course.witness("late-all")) > chosen // 2,
        lambda: f"the absence is caught up with:\n{last_words(second)}",
        within=240,
    )
    grown_kb = second.resident_kb() - memory_kb
    row = _judge(course, second, absence)
    course.come_to_rest(second, job="on-time-0")
    row.findings += course.own_audit()
    row.expected, row.lost = _counted(course)
    row.notes["ms until it dispatched"] = round(active_s * 1_000)
    row.notes["kB of memory"], row.notes["kB more after it"] = memory_kb, grown_kb
    return row


def _counted(course: Course) -> tuple[int, int]:
    """How many slots there were from each late job's first to its last, one a second, and how many of them nothing has."""
    rows = course.rows(
        course.history,
        "SELECT min(first), max(last), sum(slots) FROM ("
        "SELECT job_id, scheduled_at AS first, scheduled_at AS last, 1 AS slots FROM runs "
        "UNION ALL SELECT job_id, first_at, last_at, slots FROM ranges) GROUP BY job_id",
    )
    expected = sum(last // 1_000 - -(-first // 1_000) + 1 for first, last, _ in rows)
    return expected, expected - sum(slots for _, _, slots in rows)


def _replays(course: Course) -> int:
    rows = course.rows(course.control, "SELECT count(*) FROM jobs WHERE replay_until IS NOT NULL")
    return int(rows[0][0])


def _judge(course: Course, runner: Running, absence: str) -> Row:
    row = Row(f"absence of {absence}", injected=1)
    for name, most in _CAUGHT_UP.items():
        told = runner.messages("missed", job=f"late-{name}")
        if not told or abs(told[0]["chosen"] - min(most, ABSENCES[absence])) > (2 if most > ABSENCES[absence] else 0):
            row.findings.append(f"{name}: the policy was to choose {most}: {told}")
        row.notes[f"slots that {name} left out"] = sum(one["missed"] for one in told)
    ranges = course.rows(course.history, "SELECT coalesce(sum(slots), 0), count(*) FROM ranges WHERE kind = 'missed'")
    row.notes["slots in ranges"], row.notes["ranges"] = ranges[0]
    lags = sorted(one["lag_ms"] for one in runner.attempts() if one["job"].startswith("on-time") and one["attempt"] == 0)
    if not lags:
        row.findings.append("no on-time job ran")
        return row
    row.notes["on-time starts"] = len(lags)
    row.notes["on-time lag p50 ms"], row.notes["on-time lag p99 ms"] = lags[len(lags) // 2], lags[len(lags) * 99 // 100]
    return row
