"""The books, checked from outside: what should have happened by the schedules, what history says, and what the witness saw.

Nothing of cronpad is used for it: tables are read with SQL, and slots are computed by another library than cronpad's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cronsim import CronSim
from stage import Stage

__all__ = ["Books", "audit", "findings_of_runs", "outcomes"]

_ENDS = {"succeeded", "failed", "skipped", "cancelled", "unknown", "poisoned"}
_EDIT_TAKES = 60_000
_FAR = 4_102_444_800_000  # 2100


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """The rows that count."""

    jobs: dict[str, dict[str, Any]]
    versions: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    ranges: list[dict[str, Any]]

    @classmethod
    def of(cls, stage: Stage) -> Books:
        """Reads them."""

        def read(file: Any, table: str, columns: str) -> list[dict[str, Any]]:
            names = columns.split(", ")
            return [dict(zip(names, row, strict=True)) for row in stage.rows(file, f"SELECT {columns} FROM {table}")]

        jobs = read(stage.control, "jobs", "id, name, version, status, next_run_at")
        runs = "id, job_id, scheduled_at, slot_at, trigger, job_version, status, attempt, redeliveries, skip_reason"
        return cls(
            jobs={job["id"]: job for job in jobs},
            versions=read(stage.control, "job_versions", "job_id, version, spec, valid_from, valid_until"),
            runs=read(stage.history, "runs", runs),
            ranges=read(stage.history, "ranges", "job_id, version, first_at, last_at, kind, slots"),
        )


def slots(schedule: dict[str, Any], after_ms: int, until_ms: int) -> list[int]:
    """The fires in (after, until] of a schedule in UTC."""
    assert schedule["timezone"] == "UTC", schedule
    found: set[int] = set()
    for text in schedule["texts"]:
        for slot_ms in _walk(text, schedule["anchor_ms"], after_ms):
            if slot_ms > until_ms:
                break
            found.add(slot_ms)
    return sorted(found)


def _walk(text: str, anchor_ms: int, after_ms: int) -> Iterator[int]:
    kind, _, rest = text.partition(" ")
    if kind == "at":
        slot_ms = _ms(datetime.fromisoformat(rest).replace(tzinfo=UTC))
        yield from [slot_ms] if slot_ms > after_ms else []
    elif kind == "every":
        assert rest.endswith("s"), text
        step_ms = int(rest[:-1]) * 1000
        slot_ms = anchor_ms + max(0, (after_ms - anchor_ms) // step_ms + 1) * step_ms
        while True:
            yield slot_ms
            slot_ms += step_ms
    else:
        start = datetime.fromtimestamp(after_ms / 1000, UTC)
        # It begins after the second that the start lies in.
        yield from (_ms(moment) for moment in CronSim(text, start - timedelta(seconds=1)) if _ms(moment) > after_ms)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def audit(stage: Stage) -> list[str]:
    """What is wrong in the books of a state that nobody dispatches: an empty list is the only passing answer.

    Each slot of each version has exactly one outcome, and no outcome lies where no slot is.
    """
    books = Books.of(stage)
    findings = []
    for version in books.versions:
        job = books.jobs[version["job_id"]]
        if version["valid_until"] is not None:
            until_ms = version["valid_until"]
        elif job["status"] == "completed" or job["next_run_at"] is None:
            until_ms = _FAR
        else:
            until_ms = job["next_run_at"] - 1
        expected = slots(json.loads(version["spec"])["schedule"], version["valid_from"], until_ms)
        findings += _compare(f"{job['name']} v{version['version']}", version, expected, books)
    known = {(version["job_id"], version["version"]) for version in books.versions}
    findings += [f"{run['id']}: of no version" for run in books.runs if (run["job_id"], run["job_version"]) not in known]
    return findings


def _compare(name: str, version: dict[str, Any], expected: list[int], books: Books) -> list[str]:
    key = version["job_id"], version["version"]
    runs = [run for run in books.runs if run["job_id"] == version["job_id"] and run["trigger"] == "s"]
    ranges = [one for one in books.ranges if (one["job_id"], one["version"]) == key]
    outcome = Counter(run["scheduled_at"] for run in runs)
    own = {run["scheduled_at"] for run in runs if run["job_version"] == version["version"]}
    findings = [f"{name} {slot_ms}: a run and no slot" for slot_ms in own - set(expected) if not _while_edited(version, slot_ms)]
    for one in ranges:
        inside = [slot_ms for slot_ms in expected if one["first_at"] <= slot_ms <= one["last_at"]]
        outcome.update(inside)
        if len(inside) != one["slots"]:
            findings.append(f"{name} {one}: says {one['slots']} slots, has {len(inside)}")
    findings += [f"{name} {slot_ms}: {outcome[slot_ms]} outcomes" for slot_ms in expected if outcome[slot_ms] != 1]
    return findings


def _while_edited(version: dict[str, Any], slot_ms: int) -> bool:
    """Whether it is a slot that came up between the time that an edit took and its being written."""
    until_ms = version["valid_until"]
    if until_ms is None or not until_ms < slot_ms <= until_ms + _EDIT_TAKES:
        return False
    return slot_ms in slots(json.loads(version["spec"])["schedule"], slot_ms - 1, slot_ms)


def outcomes(stage: Stage, name: str) -> Counter[str]:
    """How the slots of a job ended: run statuses, kinds of ranges."""
    books = Books.of(stage)
    ids = {job["id"] for job in books.jobs.values() if job["name"] == name}
    found = Counter(run["status"] for run in books.runs if run["job_id"] in ids and run["trigger"] == "s")
    for one in books.ranges:
        if one["job_id"] in ids:
            found[one["kind"]] += one["slots"]
    return found


def findings_of_runs(stage: Stage) -> list[str]:
    """What is wrong between history, the lines of the runners and the witness, when nothing runs any more.

    Every run has ended; what succeeded was seen; nothing was seen more often than faults explain; nothing that a runner had
    reported as finished was started again by one that took over from it.
    """
    books = Books.of(stage)
    runs = {run["id"]: run for run in books.runs}
    findings = [f"{run['id']}: is {run['status']}" for run in books.runs if run["status"] not in _ENDS]
    seen: dict[str, list[Any]] = {}
    for line in stage.witness():
        seen.setdefault(line.run_id, []).append(line)
    findings += [f"{run_id}: was seen and is not in history" for run_id in seen if run_id not in runs]
    for run_id, run in runs.items():
        lines = seen.get(run_id, [])
        if run["status"] == "succeeded" and run["attempt"] not in {line.attempt for line in lines}:
            findings.append(f"{run_id}: succeeded and was not seen")
        if run["status"] == "skipped" and lines:
            findings.append(f"{run_id}: was skipped and seen")
        for attempt, count in Counter((line.tag, line.attempt) for line in lines).items():
            if count > 1 + run["redeliveries"]:
                findings.append(f"{run_id}: {attempt} was seen {count} times, and redelivered {run['redeliveries']} times")
        if {line.slot_ms for line in lines} - {run["slot_at"]}:
            findings.append(f"{run_id}: was told another slot")
    for runner in stage.runners:
        for one in runner.attempts():
            later = [line for line in seen.get(one["run_id"], []) if line.runner > runner.number]
            if one["run_status"] in _ENDS and later:
                findings.append(f"{one['run_id']}: had ended in runner {runner.number}, then {later}")
    return findings
