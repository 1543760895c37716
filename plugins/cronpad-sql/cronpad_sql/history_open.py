"""Opening runs: read what many openings need at once, decide one after another, write at once."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from cronpad_core.api import Millis, OpenDecision, OpenKind, OpenRequest, Run, RunStatus, case_of_opening, decide_open, month_of
from cronpad_sql import history_attempts as attempts_sql
from cronpad_sql import history_rows as sql
from cronpad_sql.alert_rows import tell
from cronpad_sql.history_rows import Row
from cronpad_sql.history_seen import COUNT_USED, Seen, Stored, look
from cronpad_sql.history_specs import SpecBatch, SpecRows

__all__ = ["Opener"]

_OPEN_ATTEMPT = (  # without the NULL, as ADD_STARTED
    "INSERT INTO attempts (run_seq, attempt, fence, status, due_at, claimed_at, opened_at, reason) "
    "VALUES (?, ?, ?, 'running', ?, ?, ?, '') ON CONFLICT DO NOTHING"
)
_NEVER_OPENED = frozenset({RunStatus.PENDING, RunStatus.WAITING})


@dataclass(slots=True)
class _Work:
    """What one call read, and what it is going to write; ``counted`` by workspace and instant: most are of one instant.

    ``held`` are the attempts of entries that had been held, ``attempts`` the others.
    """

    seen: Seen
    specs: SpecBatch
    touched: list[Stored] = field(default_factory=list)
    interrupts: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    held: list[Row] = field(default_factory=list)
    counted: Counter[tuple[str, Millis]] = field(default_factory=Counter)

    def write(self, db: sqlite3.Connection) -> None:
        """Writes what was decided so far."""
        self.specs.write(db)
        started: list[Row] = []
        added: list[Row] = []
        changed: list[Row] = []
        for one in self.touched:
            one.touched = False
            if not one.fresh:
                changed.append(sql.run_change(one.seq, one.run))
                continue
            one.fresh = False
            row = sql.started_row(one.seq, one.spec_id, one.run)
            if row is None:
                added.append(sql.run_row(one.seq, one.spec_id, one.run))
            else:
                started.append(row)
        for statement, rows in (
            (sql.ADD_STARTED, started),
            (sql.ADD_RUN, added),
            (sql.SET_RUN, changed),
            (attempts_sql.INTERRUPT, self.interrupts),
            (_OPEN_ATTEMPT, self.attempts),
            (attempts_sql.OPEN_ATTEMPT, self.held),
        ):
            if rows:
                db.executemany(statement, rows)
        self.touched.clear()
        self.interrupts.clear()
        self.attempts.clear()
        self.held.clear()

    def count(self, db: sqlite3.Connection) -> None:
        """Adds what was counted to what was used."""
        used: Counter[tuple[str, str]] = Counter()
        for (workspace, now_ms), count in self.counted.items():
            used[workspace, month_of(now_ms)] += count
        if used:
            db.executemany(COUNT_USED, [(*of, count) for of, count in used.items()])


class Opener:
    """Opens runs in the lane of history."""

    def __init__(self, specs: SpecRows) -> None:
        self._specs = specs

    def open_all(self, db: sqlite3.Connection, requests: Sequence[OpenRequest]) -> list[OpenDecision]:
        """Opens runs in order, each as ``decide_open`` says of what those before it left. (H1, H2, H6)"""
        keys = [request.occurrence.key for request in requests]
        seen = look(db, requests, keys)
        wanted = [(one.occurrence.job_id, one.occurrence.job_version, one.spec) for one in requests]
        work = _Work(seen, self._specs.find(db, wanted))
        answers, covered = [], seen.covered
        for index, (request, key) in enumerate(zip(requests, keys, strict=True)):
            stored = seen.runs.get(key)
            if stored is not None and stored.touched:
                work.write(db)
            decision = _open(work, request, stored, covered=index in covered)
            if decision.replaces is not None and decision.run is not None:
                work.write(db)
                db.execute(sql.ASK_OTHERS_TO_END, (key.job_id, decision.run.id))
                seen.asked_to_end(decision.run)
            answers.append(decision)
        work.write(db)
        work.count(db)
        told = [case_of_opening(*one) for one in zip(requests, answers, strict=True) if one[0].alerts]
        if told:
            tell(db, told)
        return answers


def _open(work: _Work, request: OpenRequest, stored: Stored | None, *, covered: bool) -> OpenDecision:
    seen = work.seen
    before = None if stored is None else stored.run
    decision = decide_open(request, seen.snapshot(request, before, covered=covered))
    run = decision.write
    if run is not None:
        stored = _put(work, request, stored, run)
        seen.moved(None if before is None else before.status, run)
    if decision.kind is OpenKind.OPENED and stored is not None:
        attempt = (
            stored.seq,
            request.occurrence.attempt,
            request.fence,
            request.due_at_ms,
            request.claimed_at_ms,
            request.now_ms,
        )
        if request.held_since_ms is None:
            work.attempts.append(attempt)
        else:
            work.held.append((*attempt, request.held_since_ms))
    if decision.counted and decision.run is not None:
        workspace = decision.run.spec.workspace
        work.counted[workspace, request.now_ms] += 1
        seen.count(workspace, request.now_ms)
    return decision


def _put(work: _Work, request: OpenRequest, stored: Stored | None, run: Run) -> Stored:
    seen = work.seen
    if stored is None:
        seen.last_seq += 1
        spec_id = work.specs.id_of(run.key.job_id, run.job_version, run.spec)
        stored = seen.runs[run.key] = Stored(seen.last_seq, spec_id, run, fresh=True)
    else:
        if stored.run.status not in _NEVER_OPENED:
            work.interrupts.append((request.now_ms, stored.seq, request.fence))
        stored.run = run
    if not stored.touched:
        stored.touched = True
        work.touched.append(stored)
    return stored
