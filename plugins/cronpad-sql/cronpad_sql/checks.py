"""Everything in a state read once, and what cannot be right in it named. Nothing is written, and no writer is kept waiting."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from cronpad_core.api import AttemptStatus, JobStatus, RangeKind, RunStatus, StateProblem, StoreBusyError
from cronpad_sql.connections import connect_read
from cronpad_sql.faults import is_busy, is_damage, is_unopened
from cronpad_sql.files import FileKind, exists, versions_of
from cronpad_sql.migrate import HEAD
from cronpad_sql.places import Places
from cronpad_sql.queue_file import QUEUE_SCHEMA
from cronpad_sql.specs import spec_of

__all__ = ["check", "found_version", "known_version"]

_BUSY_MS = 5_000
_TOLD = 20
"""So many rows of one kind are told one by one; the rest is counted."""

_ENDED = tuple(one.value for one in RunStatus if one.terminal)

_Find = Callable[[str, str], None]
_Rows = tuple[tuple[str, str, str], ...]


def _words(values: object) -> str:
    return ", ".join(f"'{value}'" for value in values)  # type: ignore[attr-defined]  # any iterable of our own words


_CONTROL: _Rows = (
    (
        "orphan",
        "job {} has no row for its version {}",
        "SELECT id, version FROM jobs WHERE NOT EXISTS "
        "(SELECT 1 FROM job_versions WHERE job_id = jobs.id AND version = jobs.version)",
    ),
    (
        "orphan",
        "version {1} of job {0}, which is not there",
        "SELECT job_id, version FROM job_versions WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE id = job_id)",
    ),
    (
        "impossible",
        "version {1} of job {0} is above the job's own",
        "SELECT job_id, job_versions.version FROM job_versions JOIN jobs ON id = job_id WHERE job_versions.version > jobs.version",
    ),
    (
        "impossible",
        "job {} has status {}",
        f"SELECT id, status FROM jobs WHERE status NOT IN ({_words(JobStatus)})",
    ),
    (
        "impossible",
        "version {1} of job {0} ends before it begins",
        "SELECT job_id, version FROM job_versions WHERE valid_until < valid_from",
    ),
)

_HISTORY: _Rows = (
    (
        "orphan",
        "attempt {1} of a run that is not there ({0})",
        "SELECT run_seq, attempt FROM attempts WHERE NOT EXISTS (SELECT 1 FROM runs WHERE seq = run_seq)",
    ),
    (
        "orphan",
        "output of an attempt that is not there (run {}, attempt {})",
        "SELECT run_seq, attempt FROM outputs AS o WHERE NOT EXISTS "
        "(SELECT 1 FROM attempts AS a WHERE a.run_seq = o.run_seq AND a.attempt = o.attempt AND a.fence = o.fence)",
    ),
    (
        "orphan",
        "run {} without its settings",
        "SELECT id FROM runs WHERE NOT EXISTS (SELECT 1 FROM specs WHERE specs.id = spec_id)",
    ),
    (
        "impossible",
        "run {} has status {}",
        f"SELECT id, status FROM runs WHERE status NOT IN ({_words(RunStatus)})",
    ),
    (
        "impossible",
        "run {} is {} and says of itself that it has {}ended",
        "SELECT id, status, CASE ended WHEN 1 THEN '' ELSE 'not ' END FROM runs "
        f"WHERE (status IN ({_words(_ENDED)})) <> (ended = 1)",
    ),
    (
        "impossible",
        "run {} counts {} redeliveries and is at attempt {}",
        "SELECT id, redeliveries, attempt FROM runs WHERE redeliveries < 0 OR attempt < 0",
    ),
    (
        "impossible",
        "attempt {1} of run {0} is above the run's own",
        "SELECT runs.id, attempts.attempt FROM attempts JOIN runs ON seq = run_seq WHERE attempts.attempt > runs.attempt",
    ),
    (
        "impossible",
        "attempt {} of run {} has status {}",
        f"SELECT attempt, run_seq, status FROM attempts WHERE status NOT IN ({_words(AttemptStatus)})",
    ),
    (
        "impossible",
        "{} of run {} is said to have {} bytes, and more are kept",
        "SELECT name, run_seq, total FROM outputs WHERE total < length(head) + length(tail)",
    ),
    (
        "impossible",
        "a range of job {}, version {}, from {} to {} with {} slots",
        "SELECT job_id, version, first_at, last_at, slots FROM ranges WHERE last_at < first_at OR slots < 1 "
        f"OR kind NOT IN ({_words(RangeKind)})",
    ),
)


def check(places: Places) -> list[StateProblem]:
    """All problems of control, history and queue. History is read first: control is always at least as old as what it names."""
    problems: list[StateProblem] = []
    named: set[str] = set()
    known: set[str] = set()
    for path, kind, read in (
        (places.history, FileKind.HISTORY, lambda db, find: named.update(_history(db, find))),
        (places.control, FileKind.CONTROL, lambda db, find: known.update(_control(db, find))),
        (places.queue, FileKind.QUEUE, lambda db, find: None),
    ):
        _check_file(path, kind, read, problems)
    if known or not any(one.file == "control" for one in problems):
        strange = sorted(named - known)
        _tell("history", "orphan", (f"rows of job {one}, which control does not know" for one in strange), problems)
    order = {"control": 0, "history": 1, "queue": 2}
    return sorted(problems, key=lambda one: order[one.file])


def found_version(path: Path, kind: FileKind) -> int | None:
    """The schema version of a file of ours; ``None`` for anything else."""
    try:
        with closing(connect_read(path, _BUSY_MS)) as db:
            mark, version, _ = versions_of(db)
    except sqlite3.Error:
        return None
    return version if mark == kind.value else None


def known_version(kind: FileKind) -> int:
    """The schema version of such a file that this package reads and writes."""
    return QUEUE_SCHEMA if kind is FileKind.QUEUE else HEAD[kind]


def _check_file(
    path: Path, kind: FileKind, read: Callable[[sqlite3.Connection, _Find], None], problems: list[StateProblem]
) -> None:
    name = kind.name.lower()

    def find(what: str, detail: str) -> None:
        problems.append(StateProblem(file=name, what=what, detail=detail))

    if not exists(path):
        if kind is not FileKind.QUEUE:  # the next start makes a new queue
            find("missing", f"{path} is missing")
        return
    try:
        with closing(connect_read(path, _BUSY_MS)) as db:
            if _is_ours(db, path, kind, find) and _is_sound(db, find) and versions_of(db)[1] == known_version(kind):
                read(db, find)
    except sqlite3.Error as error:
        if is_busy(error):
            raise StoreBusyError(f"{path}: {error}") from error
        if is_unopened(error) and not os.access(path, os.R_OK):
            raise StoreBusyError(f"{path} cannot be read: permission denied") from error
        if not is_damage(error):
            raise StoreBusyError(f"{path} cannot be read: {error}") from error
        find("damaged", str(error))


def _is_ours(db: sqlite3.Connection, path: Path, kind: FileKind, find: _Find) -> bool:
    mark, version, empty = versions_of(db)
    if mark == kind.value and version > known_version(kind):
        find("newer", f"schema {version}; this cronpad knows schemas up to {known_version(kind)}")
        return False
    if mark == kind.value:
        return True
    if empty:
        find("damaged", "the file is empty")
    else:
        find("foreign", f"{path} is a database, but no {kind.name.lower()} file of cronpad")
    return False


def _is_sound(db: sqlite3.Connection, find: _Find) -> bool:
    said = [row[0] for row in db.execute("PRAGMA integrity_check(20)").fetchall()]
    if said == ["ok"]:
        return True
    for one in said:
        find("damaged", str(one))
    return False


def _control(db: sqlite3.Connection, find: _Find) -> set[str]:
    """The jobs that there are."""
    _check_rows(db, _CONTROL, find)
    _check_specs(db, "SELECT id, version, spec FROM jobs", find)
    _check_specs(db, "SELECT job_id, version, spec FROM job_versions", find)
    return {row[0] for row in db.execute("SELECT id FROM jobs")}


def _history(db: sqlite3.Connection, find: _Find) -> set[str]:
    """The jobs that runs and ranges are of, as far as the ledger answers for them."""
    _check_rows(db, _HISTORY, find)
    _check_specs(db, "SELECT job_id, version, spec FROM specs", find)
    begins = dict(db.execute("SELECT job_id, from_at FROM ledger").fetchall()) if _has_ledger(db) else {}
    everywhere = begins.get("*", -1)
    found = set()
    for job_id, newest in db.execute(
        "SELECT job_id, max(at) FROM (SELECT job_id, scheduled_at AS at FROM runs "
        "UNION ALL SELECT job_id, last_at FROM ranges) GROUP BY job_id"
    ):
        # What a backup has beyond its control, the ledger that was begun after its restore does not answer for.
        if newest >= max(everywhere, begins.get(job_id, -1)):
            found.add(job_id)
    return found


def _has_ledger(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'ledger'").fetchone() is not None


def _check_rows(db: sqlite3.Connection, statements: _Rows, find: _Find) -> None:
    for what, text, statement in statements:
        count = 0
        for count, row in enumerate(db.execute(statement), 1):
            if count <= _TOLD:
                find(what, text.format(*row))
        if count > _TOLD:
            find(what, f"{count - _TOLD:,} more rows like these")


def _check_specs(db: sqlite3.Connection, statement: str, find: _Find) -> None:
    for job_id, version, text in db.execute(statement):
        try:
            spec_of(text)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            find("unreadable", f"the settings of job {job_id}, version {version}: {type(error).__name__}: {error}")


def _tell(file: str, what: str, details: Iterator[str], problems: list[StateProblem]) -> None:
    for count, detail in enumerate(details, 1):
        if count <= _TOLD:
            problems.append(StateProblem(file=file, what=what, detail=detail))
