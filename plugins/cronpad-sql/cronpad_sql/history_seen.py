"""What a batch of openings sees of history: read with a few statements, then kept true while the batch decides."""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cronpad_core.api import (
    ConcurrencyRule,
    Millis,
    OpenRequest,
    OpenSnapshot,
    Run,
    RunKey,
    RunStatus,
    Trigger,
    month_of,
    scopes_of,
)
from cronpad_sql import history_rows as sql
from cronpad_sql.history_ranges import COVERED

__all__ = ["COUNT_USED", "USED", "Seen", "Stored", "look"]

USED = "SELECT runs FROM usage WHERE workspace = ? AND month = ?"
COUNT_USED = (
    "INSERT INTO usage (workspace, month, runs) VALUES (?, ?, ?) "
    "ON CONFLICT (workspace, month) DO UPDATE SET runs = runs + excluded.runs"
)
_NO_SCOPES: Mapping[str, int] = {}


@dataclass(slots=True)
class Stored:
    """A run as it is in this transaction; ``fresh`` while it is not in the table, ``touched`` while the table has it otherwise."""

    seq: int
    spec_id: int
    run: Run
    fresh: bool = False
    touched: bool = False


@dataclass(slots=True)
class Seen:
    """``running`` counts by job; ``waiting`` has creation and id in order, of jobs where runs wait; ``scopes`` counts the running
    rows of what limits name; ``used`` is what workspaces with a quota opened in a month; ``covered`` indexes requests.
    """

    runs: dict[RunKey, Stored]
    running: dict[str, int]
    covered: set[int]
    last_seq: int
    waiting: dict[str, list[tuple[Millis, str]]] = field(default_factory=dict)
    scopes: dict[str, int] = field(default_factory=dict)
    used: dict[tuple[str, str], int] = field(default_factory=dict)

    def snapshot(self, request: OpenRequest, run: Run | None, *, covered: bool) -> OpenSnapshot:
        """What ``decide_open`` is shown of this request."""
        job_id = request.occurrence.job_id
        running = run is not None and run.status is RunStatus.RUNNING
        waiting = self.waiting.get(job_id)
        before, after = (0, 0) if not waiting else _around(waiting, run)
        return OpenSnapshot(
            run=run,
            running_others=self.running[job_id] - running,
            covered=covered,
            waiting_before=before,
            waiting_after=after,
            running_in=self._running_in(run if running else None) if request.limits else _NO_SCOPES,
            used=0 if request.quota is None else self.used[_month(request, run)],
        )

    def _running_in(self, running: Run | None) -> Mapping[str, int]:
        if running is None:
            return self.scopes
        own = _scopes(running)
        return {scope: count - (scope in own) for scope, count in self.scopes.items()}

    def moved(self, was: RunStatus | None, run: Run) -> None:
        """Counts a run that had the status ``was`` as what it is now."""
        if was is run.status:
            return
        job_id = run.key.job_id
        step = (run.status is RunStatus.RUNNING) - (was is RunStatus.RUNNING)
        if step:
            self.running[job_id] += step
            for scope in _scopes(run) if self.scopes else ():
                if scope in self.scopes:
                    self.scopes[scope] += step
        if was is RunStatus.WAITING:
            self.waiting[job_id].remove((run.created_at_ms, run.id))
        elif run.status is RunStatus.WAITING:
            insort(self.waiting.setdefault(job_id, []), (run.created_at_ms, run.id))

    def count(self, workspace: str, now_ms: Millis) -> None:
        """Another opening of the workspace was counted."""
        if self.used:
            of = (workspace, month_of(now_ms))
            if of in self.used:
                self.used[of] += 1

    def asked_to_end(self, by: Run) -> None:
        """All other running runs of the job were asked to end."""
        for stored in self.runs.values():
            run = stored.run
            if run.key.job_id == by.key.job_id and run.id != by.id and run.status is RunStatus.RUNNING:
                stored.run = replace(run, cancel_requested=True)


def look(db: sqlite3.Connection, requests: Sequence[OpenRequest], keys: Sequence[RunKey]) -> Seen:
    """Reads what these openings need: four statements, and further ones only where runs wait, or limits or quotas are named."""
    rows = db.execute(sql.RUNS_BY_KEYS, (sql.keys_json(keys),)).fetchall()
    found = [Stored(row[0], row[1], sql.run_of(row)) for row in rows]
    jobs = json.dumps(list({request.occurrence.job_id for request in requests}))
    slots = [
        (request.occurrence.job_id, request.occurrence.job_version, request.occurrence.scheduled_at_ms)
        if request.occurrence.trigger is Trigger.SCHEDULED
        else ("", 0, 0)
        for request in requests
    ]
    standing = db.execute(sql.STANDING_BY_JOBS, (jobs,)).fetchall()
    seen = Seen(
        runs={stored.run.key: stored for stored in found},
        running={job_id: running for job_id, running, _ in standing},
        covered={row[0] for row in db.execute(COVERED, (json.dumps(slots),)).fetchall()},
        last_seq=db.execute(sql.LAST_SEQ).fetchone()[0],
        scopes={limit.scope: 0 for request in requests for limit in request.limits},
    )
    queues = [job_id for job_id, _, waiting in standing if waiting]
    if queues:
        seen.waiting = _waiting(db, queues)
    if seen.scopes:
        _count_scopes(db, seen.scopes)
    months = {month_of(request.now_ms) for request in requests if request.quota is not None}
    if months:
        # A run may be of another workspace than its job is now, and may have been opened earlier in this very batch.
        workspaces = {request.spec.workspace for request in requests} | {one.run.spec.workspace for one in found}
        seen.used = _read_used(db, [(workspace, month) for workspace in workspaces for month in months])
    return seen


def _waiting(db: sqlite3.Connection, job_ids: Sequence[str]) -> dict[str, list[tuple[Millis, str]]]:
    waiting: defaultdict[str, list[tuple[Millis, str]]] = defaultdict(list)
    for job_id, created_at_ms, run_id in db.execute(sql.WAITING_OF_JOBS, (json.dumps(job_ids),)).fetchall():
        waiting[job_id].append((created_at_ms, run_id))
    return waiting


def _count_scopes(db: sqlite3.Connection, scopes: dict[str, int]) -> None:
    for job_id, workspace, key, count in db.execute(sql.RUNNING_BY_SCOPE).fetchall():
        for scope in scopes_of(job_id, workspace, None if key is None else ConcurrencyRule(max=1, key=key)):
            if scope in scopes:
                scopes[scope] += count


def _read_used(db: sqlite3.Connection, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """One statement for each workspace and month, of which a batch has few."""
    rows = {of: db.execute(USED, of).fetchone() for of in wanted}
    return {of: 0 if row is None else row[0] for of, row in rows.items()}


def _month(request: OpenRequest, run: Run | None) -> tuple[str, str]:
    spec = request.spec if run is None else run.spec
    return spec.workspace, month_of(request.now_ms)


def _around(waiting: list[tuple[Millis, str]], run: Run | None) -> tuple[int, int]:
    """How many others wait that were created before this run, and how many after it."""
    if run is None:
        return len(waiting), 0
    age = (run.created_at_ms, run.id)
    return bisect_left(waiting, age), len(waiting) - bisect_right(waiting, age)


def _scopes(run: Run) -> tuple[str, ...]:
    return scopes_of(run.key.job_id, run.spec.workspace, run.spec.concurrency)
