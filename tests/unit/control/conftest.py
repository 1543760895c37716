"""A state on disk for the tests of the audit: filled as the engine fills it, and opened by hand where it is to be tampered with."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cronpad_core.builtin.misfire import All, Earliest, Latest, Skip
from cronpad_core.control.apply import Declared, apply
from cronpad_core.control.audit import audit
from cronpad_core.control.audit_version import JobAudit
from cronpad_core.domain.admission import OpenRequest
from cronpad_core.domain.dispatch import TermRecord
from cronpad_core.domain.ids import job_id_for
from cronpad_core.domain.job import Job, JobSpec, ScheduleSpec, SinkSpec
from cronpad_core.domain.ledger import RangeKind, SlotRange
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.engine.catchup import missed_window
from cronpad_core.ports.catalog import Move
from cronpad_core.ports.history import RangeRequest
from cronpad_core.ports.storage import Storage, StorageOptions
from cronpad_core.runtime.schedules import ScheduleBook

sys.path.insert(0, str(Path(__file__).parent))  # the office is importable whatever import mode pytest runs in

T0 = 1_767_225_600_000
FILE = "/etc/jobs.toml"
HANDLING = 40_000
POLICIES = {policy.name: policy for policy in (Latest, Earliest, All, Skip)}


class Books:
    """A state on disk, filled as the engine fills it, and opened by hand where it is to be tampered with."""

    def __init__(self, directory: Path, build: Callable[[StorageOptions], Storage]) -> None:
        self._build = build
        self.directory = directory
        self.now = T0
        self.schedules = ScheduleBook()
        self._fence = 1 << 32

        async def begin(storage: Storage) -> None:
            await storage.prepare()
            for store in (storage.catalog, storage.history):
                assert await store.swap_term(TermRecord(), TermRecord(term=1, holder="us"))

        self.do(begin)

    def do(self, work: Callable[[Storage], Awaitable[Any]], *, read_only: bool = False) -> Any:
        """Opens the state for one piece of work."""

        async def doing() -> Any:
            options = StorageOptions(url=f"sqlite://{self.directory}", wall_ms=lambda: self.now, read_only=read_only)
            storage = self._build(options)
            await storage.open()
            try:
                return await work(storage)
            finally:
                await storage.close()

        return asyncio.run(doing())

    def apply(self, *texts: str, name: str = "a", timezone: str = "UTC", **rest: Any) -> None:
        """Declares one job; without texts, none."""
        schedule = ScheduleSpec(texts=texts, timezone=timezone)
        overlap = OverlapRule(policy=OverlapPolicy.ALLOW, max=10_000)
        spec = JobSpec(name=name, schedule=schedule, sink=SinkSpec(type="command"), overlap=overlap, **rest)
        declared = [Declared(spec=spec, origin=FILE)] if texts else []

        async def applying(storage: Storage) -> None:
            await apply(
                declared,
                origins=[FILE],
                prune=not texts,
                catalog=storage.catalog,
                history=storage.history,
                schedules=self.schedules,
                now=lambda: self.now,
                term=1,
            )

        self.do(applying)

    def job(self, name: str = "a") -> Job:
        """The job as stored."""
        found: Job = self.do(lambda storage: storage.catalog.job(job_id_for(FILE, name)))
        return found

    def run_until(self, until_ms: int, name: str = "a") -> None:
        """Opens every slot from the job's next run to ``until_ms``, advances the job, and sets the clock there."""
        job = self.job(name)
        schedule, slots, at_ms = self.schedules(job.id, job.version, job.spec.schedule), [], job.next_run_at_ms
        while at_ms is not None and at_ms <= until_ms:
            slots.append(at_ms)
            at_ms = schedule.next_after_ms(at_ms)
        self.open(job, slots)
        self.move(job, at_ms)
        self.now = until_ms

    def open(self, job: Job, slots: Sequence[int]) -> None:
        """Opens runs at these instants."""
        requests = []
        for at_ms in slots:
            self._fence += 1
            requests.append(
                OpenRequest(
                    occurrence=job.slot(at_ms),
                    spec=job.spec,
                    fence=self._fence,
                    now_ms=at_ms,
                    due_at_ms=at_ms,
                    claimed_at_ms=at_ms,
                )
            )
        if requests:
            self.do(lambda storage: storage.history.open_runs(requests))

    def move(self, job: Job, to_ms: int | None) -> None:
        """Advances a job."""
        assert job.next_run_at_ms is not None
        move = Move(
            job_id=job.id,
            version=job.version,
            clock_epoch=job.clock_epoch,
            from_ms=job.next_run_at_ms,
            to_ms=to_ms,
            replay=None,
            term=1,
        )
        self.do(lambda storage: storage.catalog.move([move]))

    def cover(self, job: Job, kind: RangeKind, first_ms: int, last_ms: int) -> None:
        """Writes a range row, as the engine does."""
        schedule = self.schedules(job.id, job.version, job.spec.schedule)
        row = SlotRange(job_id=job.id, version=job.version, kind=kind, first_ms=first_ms, last_ms=last_ms, count=0)
        request = RangeRequest(range=row, slots=lambda a, b: schedule.count_between_ms(a - 1, b))
        self.do(lambda storage: storage.history.add_ranges([request], term=1))

    def drop(self) -> None:
        """Writes what ended versions left open, as the reconciler does."""
        for version in self.do(lambda storage: storage.catalog.ended_versions(limit=10)):
            job = replace(self.job(version.spec.name), version=version.version, spec=version.spec)
            self.cover(job, RangeKind.DROPPED, version.open_from_ms, version.valid_until_ms)
            self.do(lambda storage, version=version: storage.catalog.mark_ledgered([version]))

    def decide(self, name: str = "a") -> None:
        """Decides over overdue slots by the job's policy, runs what it chose, and moves on."""
        job = self.job(name)
        assert job.next_run_at_ms is not None
        schedule = self.schedules(job.id, job.version, job.spec.schedule)
        window = missed_window(job, job.next_run_at_ms, self.now, schedule)
        plan = POLICIES[job.spec.misfire.policy]().decide(window)
        if plan.first_ms is not None and plan.until_ms is not None:
            slots, at_ms = [], plan.first_ms
            while at_ms is not None and at_ms <= plan.until_ms:
                slots.append(at_ms)
                at_ms = schedule.next_after_ms(at_ms)
            self.open(job, slots)
        self.cover(job, RangeKind.MISSED, window.first_ms, window.newest_ms)
        self.move(job, schedule.next_after_ms(window.newest_ms))

    def edit(self, statement: str, *values: object, file: str = "history.db") -> None:
        """Tampers with a file."""
        with closing(sqlite3.connect(self.directory / file)) as db, db:
            assert db.execute(statement, values).rowcount

    def audit(self, since_ms: int | None = None) -> list[JobAudit]:
        """What the audit says."""

        async def auditing(storage: Storage) -> list[JobAudit]:
            found = audit(storage, schedules=ScheduleBook(), now_ms=self.now, handling_ms=HANDLING, since_ms=since_ms)
            return [one async for one in found]

        found: list[JobAudit] = self.do(auditing, read_only=True)
        return found

    def findings(self, since_ms: int | None = None) -> list[tuple[str, int, int, int]]:
        """What is wrong: kind, first and last instant in seconds after the beginning, number of slots."""
        return [
            (one.kind.value, (one.first_ms - T0) // 1000, (one.last_ms - T0) // 1000, one.slots)
            for job in self.audit(since_ms)
            for one in job.findings
        ]

    def clean(self) -> JobAudit:
        """The audit of the only job, which finds nothing."""
        [found] = self.audit()
        assert found.findings == []
        return found


@pytest.fixture
def books(tmp_path: Path) -> Books:
    """An empty state."""
    return Books(tmp_path / "state", pytest.importorskip("cronpad_sql.storage").SqliteStorage)


@pytest.fixture
def office() -> object:
    """A desk over an empty state in memory."""
    from office import Office

    return Office()
