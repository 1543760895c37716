"""Runs that somebody asked for: a row of their own before anybody is told that there is one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from cronpad_core.api import PendingAnswer, PendingRequest, Run, Trigger
from cronpad_sql import history_rows as sql
from cronpad_sql.history_specs import SpecRows
from cronpad_sql.terms import require_term

__all__ = ["add_pending"]


def add_pending(db: sqlite3.Connection, specs: SpecRows, requests: Sequence[PendingRequest], *, term: int) -> list[PendingAnswer]:
    """Inserts runs as pending, in order, each seeing those before it. (H8)"""
    require_term(db, term)
    batch = specs.find(db, [(one.job_id, one.job_version, one.spec) for one in requests])
    seq = db.execute(sql.LAST_SEQ).fetchone()[0]
    answers = []
    for request in requests:
        run = _there(db, request)
        created = run is None
        if run is None:
            free = (request.at_ms, request.job_id, request.trigger.value)
            run = request.run(db.execute(sql.FREE_FROM, free).fetchone()[0])
            seq += 1
            spec_id = batch.id_of(run.key.job_id, run.job_version, run.spec)
            batch.write(db)
            db.execute(sql.ADD_RUN, sql.run_row(seq, spec_id, run))
        answers.append(PendingAnswer(run=run, created=created))
    return answers


def _there(db: sqlite3.Connection, request: PendingRequest) -> Run | None:
    """The run that this asks for, where there is one: by its token, or a backfill of the slot."""
    row = None
    if request.token is not None:
        row = db.execute(sql.RUN_BY_TOKEN, (request.job_id, request.token)).fetchone()
    if row is None and request.trigger is Trigger.BACKFILL:
        row = db.execute(sql.RUN_BY_KEY, (request.job_id, request.at_ms, request.trigger.value)).fetchone()
    return None if row is None else sql.run_of(row)
