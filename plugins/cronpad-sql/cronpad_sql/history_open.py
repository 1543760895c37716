"""Opening runs: read what many openings need at once, decide one after another, write at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias

from cronpad_core.api import (
    JobSpec,
    OpenDecision,
    OpenKind,
    OpenRequest,
    OpenSnapshot,
    Run,
    RunKey,
    RunStatus,
    Trigger,
    decide_open,
)
from cronpad_sql import history_rows as sql
from cronpad_sql.specs import spec_text

__all__ = ["Opener"]


_SpecKey: TypeAlias = tuple[str, int, str]


@dataclass(slots=True)
class _Stored:
    """A run as it is in this transaction; ``fresh`` while it is not in the table."""

    seq: int
    spec_id: int
    run: Run
    fresh: bool = False


@dataclass(slots=True)
class _Work:
    """What one call read, and what it is going to write."""

    runs: dict[RunKey, _Stored]
    running: dict[str, int]
    covered: set[int]
    last_seq: int
    specs: dict[_SpecKey, int]
    last_spec: int
    new_specs: list[tuple[object, ...]] = field(default_factory=list)
    touched: dict[RunKey, _Stored] = field(default_factory=dict)
    interrupts: list[tuple[int, int, int]] = field(default_factory=list)
    attempts: list[tuple[object, ...]] = field(default_factory=list)


class Opener:
    """Opens runs in the lane of history. Remembers which spec is which row, until something is rolled back."""

    def __init__(self) -> None:
        self._specs: dict[tuple[str, int], tuple[JobSpec, int]] = {}

    def forget(self) -> None:
        """A row that was remembered may never have been committed."""
        self._specs.clear()

    def open_all(self, db: sqlite3.Connection, requests: Sequence[OpenRequest]) -> list[OpenDecision]:
        """Opens runs in order, each as ``decide_open`` says of what those before it left. (H1, H2, H6)"""
        keys = [request.occurrence.key for request in requests]
        work = self._read(db, requests, keys)
        answers = []
        for index, (request, key) in enumerate(zip(requests, keys, strict=True)):
            if key in work.touched:
                self._write(db, work)
            answers.append(self._open(work, request, key, index in work.covered))
        self._write(db, work)
        return answers

    def _read(self, db: sqlite3.Connection, requests: Sequence[OpenRequest], keys: Sequence[RunKey]) -> _Work:
        rows = db.execute(sql.RUNS_BY_KEYS, (sql.keys_json(keys),)).fetchall()
        found = [_Stored(row[0], row[1], sql.run_of(row)) for row in rows]
        jobs = json.dumps(list({request.occurrence.job_id for request in requests}))
        slots = [
            (request.occurrence.job_id, request.occurrence.job_version, request.occurrence.scheduled_at_ms)
            if request.occurrence.trigger is Trigger.SCHEDULED
            else ("", 0, 0)
            for request in requests
        ]
        specs, last_spec = self._find_specs(db, requests)
        return _Work(
            specs=specs,
            last_spec=last_spec,
            runs={stored.run.key: stored for stored in found},
            running=dict(db.execute(sql.RUNNING_BY_JOBS, (jobs,)).fetchall()),
            covered={row[0] for row in db.execute(sql.COVERED, (json.dumps(slots),)).fetchall()},
            last_seq=db.execute(sql.LAST_SEQ).fetchone()[0],
        )

    def _open(self, work: _Work, request: OpenRequest, key: RunKey, covered: bool) -> OpenDecision:
        occurrence, job_id = request.occurrence, key.job_id
        stored = work.runs.get(key)
        before = None if stored is None else stored.run
        was_running = before is not None and before.status is RunStatus.RUNNING
        decision = decide_open(
            request, OpenSnapshot(run=before, running_others=work.running[job_id] - was_running, covered=covered)
        )
        run = decision.write
        if run is not None:
            if stored is None:
                work.last_seq += 1
                stored = _Stored(work.last_seq, self._spec_id(work, job_id, run.job_version, run.spec), run, fresh=True)
                work.runs[key] = stored
            else:
                work.interrupts.append((request.now_ms, stored.seq, request.fence))
            stored.run = run
            work.touched[key] = stored
            work.running[job_id] += (run.status is RunStatus.RUNNING) - was_running
        if decision.kind is OpenKind.OPENED and stored is not None:
            work.attempts.append(
                (
                    stored.seq,
                    occurrence.attempt,
                    request.fence,
                    request.due_at_ms,
                    request.claimed_at_ms,
                    request.now_ms,
                    request.held_since_ms,
                )
            )
        return decision

    def _write(self, db: sqlite3.Connection, work: _Work) -> None:
        fresh = [one for one in work.touched.values() if one.fresh]
        known = [one for one in work.touched.values() if not one.fresh]
        if work.new_specs:
            db.executemany(sql.ADD_SPEC, work.new_specs)
        if fresh:
            db.executemany(sql.ADD_RUN, [sql.run_row(one.seq, one.spec_id, one.run) for one in fresh])
        if known:
            db.executemany(sql.SET_RUN, [sql.run_change(one.seq, one.run) for one in known])
        if work.interrupts:
            db.executemany(sql.INTERRUPT, work.interrupts)
        if work.attempts:
            db.executemany(sql.OPEN_ATTEMPT, work.attempts)
        for one in fresh:
            one.fresh = False
        work.new_specs.clear()
        work.touched.clear()
        work.interrupts.clear()
        work.attempts.clear()

    def _spec_id(self, work: _Work, job_id: str, version: int, spec: JobSpec) -> int:
        """The row that holds this snapshot: each is stored once, however many runs have it."""
        known = self._specs.get((job_id, version))
        if known is not None and (known[0] is spec or known[0] == spec):
            return known[1]
        text = spec_text(spec)
        row = (job_id, version, sha256(text.encode()).hexdigest())
        found = work.specs.get(row)
        if found is None:
            work.last_spec += 1
            found = work.specs[row] = work.last_spec
            work.new_specs.append((found, *row, text))
        if len(self._specs) > 100_000:
            self._specs.clear()
        self._specs[job_id, version] = (spec, found)
        return found

    def _find_specs(self, db: sqlite3.Connection, requests: Sequence[OpenRequest]) -> tuple[dict[_SpecKey, int], int]:
        """The rows of those snapshots that are not remembered, where there are such, and the last row of all."""
        asked = [
            (request.occurrence.job_id, request.occurrence.job_version, sha256(spec_text(request.spec).encode()).hexdigest())
            for request in requests
            if (request.occurrence.job_id, request.occurrence.job_version) not in self._specs
            or self._specs[request.occurrence.job_id, request.occurrence.job_version][0] is not request.spec
        ]
        if not asked:
            return {}, 0
        found = db.execute(sql.FIND_SPECS, (json.dumps(asked),)).fetchall()
        return {row[:3]: row[3] for row in found}, db.execute(sql.LAST_SPEC).fetchone()[0]
