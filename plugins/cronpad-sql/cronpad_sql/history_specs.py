"""The settings that runs started with: each is a row once, however many runs have it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias

from cronpad_core.api import JobSpec
from cronpad_sql.specs import spec_text

__all__ = ["LATEST_VERSION", "SpecBatch", "SpecRows"]

_KEPT = 100_000
_FIND = (
    "SELECT s.job_id, s.version, s.hash, s.id FROM json_each(?) k CROSS JOIN specs s ON s.job_id = json_extract(k.value, '$[0]') "
    "AND s.version = json_extract(k.value, '$[1]') AND s.hash = json_extract(k.value, '$[2]')"
)
_ADD = "INSERT INTO specs (id, job_id, version, hash, spec) VALUES (?, ?, ?, ?, ?)"
_LAST = "SELECT coalesce(max(id), 0) FROM specs"
LATEST_VERSION = (
    "SELECT max(coalesce((SELECT max(version) FROM specs WHERE job_id = ?1), 0), "
    "coalesce((SELECT max(version) FROM ranges WHERE job_id = ?1), 0))"
)

_Content: TypeAlias = tuple[str, int, str]
_Known: TypeAlias = dict[tuple[str, int], tuple[JobSpec, int]]


@dataclass(slots=True)
class SpecBatch:
    """The rows of the snapshots that one call needs; ``hashes`` has those that were computed to look for them."""

    known: _Known
    found: dict[_Content, int]
    last: int
    hashes: dict[tuple[str, int], tuple[JobSpec, str]]
    new: list[tuple[object, ...]] = field(default_factory=list)

    def id_of(self, job_id: str, version: int, spec: JobSpec) -> int:
        """The row that holds this snapshot; a new one is written by :meth:`write`."""
        known = self.known.get((job_id, version))
        if known is not None and (known[0] is spec or known[0] == spec):
            return known[1]
        hashed = self.hashes.get((job_id, version))
        content = (job_id, version, hashed[1] if hashed is not None and hashed[0] is spec else _hash(spec))
        found = self.found.get(content)
        if found is None:
            self.last += 1
            found = self.found[content] = self.last
            self.new.append((found, *content, spec_text(spec)))
        self.known[job_id, version] = (spec, found)
        return found

    def write(self, db: sqlite3.Connection) -> None:
        """Writes the rows that are new."""
        if self.new:
            db.executemany(_ADD, self.new)
            self.new.clear()


def _hash(spec: JobSpec) -> str:
    return sha256(spec_text(spec).encode()).hexdigest()


class SpecRows:
    """Which snapshot is which row, as far as it is remembered."""

    def __init__(self) -> None:
        self._known: _Known = {}

    def forget(self) -> None:
        """A row that was remembered may never have been committed, or is removed now."""
        self._known.clear()

    def find(self, db: sqlite3.Connection, wanted: Collection[tuple[str, int, JobSpec]]) -> SpecBatch:
        """Reads the rows of those snapshots (job, version, settings) that are not remembered, where there are such."""
        if len(self._known) > _KEPT:
            self._known.clear()
        asked: list[_Content] = []
        hashes: dict[tuple[str, int], tuple[JobSpec, str]] = {}
        for job_id, version, spec in wanted:
            known = self._known.get((job_id, version))
            if known is None or known[0] is not spec:
                asked.append((job_id, version, _hash(spec)))
                hashes[job_id, version] = spec, asked[-1][2]
        if not asked:
            return SpecBatch(self._known, {}, 0, {})
        rows = db.execute(_FIND, (json.dumps(asked),)).fetchall()
        return SpecBatch(self._known, {row[:3]: row[3] for row in rows}, db.execute(_LAST).fetchone()[0], hashes)
