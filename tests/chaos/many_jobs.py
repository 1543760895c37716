"""1,000 jobs with every overlap rule and every kind of cap, failing at random, for some minutes; then everything comes to rest.

Checked from history alone: no cap and no overlap rule was ever exceeded, every open run has ended, on-time work of a workspace
without limits was not starved, and nothing leaked.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator
from itertools import product

from place import Course, Row, last_words
from stage import Running, wait_until

__all__ = ["many_jobs"]

_OVERLAPS: tuple[object, ...] = (
    "skip",
    {"policy": "allow", "max": 2},
    "queue_one",
    {"policy": "queue_all", "max": 3},
    "cancel_running",
    "kill_running",
)
_CAPS: tuple[object, ...] = (None, {"max": 1}, {"max": 2, "key": "tight"}, {"max": 6, "key": "wide"})
_WORKSPACES = {"free": None, "narrow": 4, "broad": 20}
_AT_RANDOM = "r=$(od -An -N1 -tu1 /dev/urandom); test $((r % 4)) != 0 || sleep $((r % 40)); test $((r % 5)) != 0"
_WORKERS = {"CRONPAD_WORKERS__COUNT": "400"}
_QUIET = 20


def many_jobs(course: Course, minutes: float, *, jobs: int = 1_000, every_s: int = 30) -> Row:
    """Runs them that long on this course."""
    kinds = list(product(_OVERLAPS, _CAPS, _WORKSPACES))
    declared = [_job(course, number, *kinds[number % len(kinds)], every_s) for number in range(jobs - _QUIET)]
    quiet = [course.job(f"quiet-{number}", f"{number % 5}/5 * * * * *", workspace="quiet") for number in range(_QUIET)]
    course.declare(*quiet)
    runner = course.start(env=_WORKERS).active(within=60)
    for name, most in _WORKSPACES.items():
        if most is not None:
            done = course.call("--state", course.state, "workspace", "set", name, "--concurrency", most)
            assert done.code == 0, done.err
    course.declare(*declared, *quiet)
    assert course.call("--state", course.state, "reload").code == 0
    before = runner.descriptors()
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        runner.require_alive()
        time.sleep(1)
    course.declare(*(job | {"schedule": "0 0 1 1 *"} for job in (*declared, *quiet)))
    assert course.call("--state", course.state, "reload").code == 0
    open_runs = "SELECT count(*) FROM runs WHERE ended = 0"
    wait_until(
        lambda: course.rows(course.history, open_runs) == [(0,)],
        lambda: f"no run is open: {course.rows(course.history, open_runs)}\n{last_words(runner)}",
        within=300,
    )
    row = Row(f"{jobs} jobs for {minutes:g} min")
    row.notes["descriptors more"] = max(0, runner.descriptors() - before)
    row.notes["kB of memory"] = runner.resident_kb()
    if course.leftovers():
        row.findings.append(f"processes are left: {course.leftovers()}")
    if row.notes["descriptors more"] > 20:
        row.findings.append(f"{row.notes['descriptors more']} descriptors more than at the start")
    row.findings += exceeded(course)
    _lags(runner, row)
    runner.stop(within=60)
    reckoned = course.reckon(row.fault, 0)
    row.expected, row.lost, row.repeated = reckoned.expected, reckoned.lost, reckoned.repeated
    row.findings += reckoned.findings
    for status, count in course.rows(course.history, "SELECT status, count(*) FROM runs GROUP BY status"):
        row.notes[f"runs {status}"] = count
    return row


def _job(course: Course, number: int, overlap: object, cap: object, workspace: str, every_s: int) -> dict[str, object]:
    command = f"{course.line(f'many-{number}')}; {_AT_RANDOM}"
    more: dict[str, object] = {"overlap": overlap, "workspace": workspace, "command": command}
    if cap is not None:
        more["concurrency"] = cap
    if number % 3 == 0:
        more["retry"] = {"max": 2, "base": "300ms"}
    return course.job(f"many-{number}", f"{number % every_s}/{every_s} * * * * *", **more)


def _lags(runner: Running, row: Row) -> None:
    lags = sorted(one["lag_ms"] for one in runner.attempts() if one["job"].startswith("quiet"))
    if not lags:
        row.findings.append("the workspace without limits was starved")
        return
    row.notes["quiet starts"] = len(lags)
    row.notes["quiet lag p50 ms"], row.notes["quiet lag p99 ms"] = lags[len(lags) // 2], lags[len(lags) * 99 // 100]


def exceeded(course: Course) -> list[str]:
    """Every cap that was ever exceeded, by the rows of attempts: from the row that opened one to its answer it was running."""
    rows = course.rows(
        course.history,
        "SELECT a.opened_at, a.finished_at, r.job_id, r.workspace, r.scope_key, s.spec ->> '$.overlap.policy', "
        "s.spec ->> '$.overlap.max', s.spec ->> '$.concurrency.max' FROM attempts a JOIN runs r ON r.seq = a.run_seq "
        "JOIN specs s ON s.id = r.spec_id WHERE a.finished_at IS NOT NULL AND a.status <> 'stale' ORDER BY a.opened_at",
    )
    spans: dict[str, list[tuple[int, int]]] = {}
    limits: dict[str, int] = {f"workspace {name}": most for name, most in _WORKSPACES.items() if most is not None}
    for opened, finished, job, workspace, key, policy, most, cap in rows:
        by_overlap, by_cap = f"overlap of {job}", f"key {key}" if key else f"cap of {job}"
        limits[by_overlap] = int(most) if policy == "allow" else 1
        if cap is not None:
            limits[by_cap] = int(cap)
        for name in (by_overlap, by_cap, f"workspace {workspace}"):
            spans.setdefault(name, []).append((opened, finished))
    return [
        f"{name}: {most} at once, {limits[name]} allowed"
        for name, times in spans.items()
        if name in limits and (most := max(_at_once(times))) > limits[name]
    ]


def _at_once(spans: Iterable[tuple[int, int]]) -> Iterator[int]:
    """How many are under way as each begins; one that ends in the millisecond in which another begins has ended."""
    ends: list[int] = []
    for opened, finished in spans:
        while ends and ends[0] <= opened:
            heapq.heappop(ends)
        heapq.heappush(ends, finished)
        yield len(ends)
