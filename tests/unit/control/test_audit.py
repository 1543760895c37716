"""The audit: silent over sound books, whatever happened to them, and naming everything that was tampered with."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cronpad_core.builtin.misfire import All, Earliest, Latest, Skip
from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.main import cli
from cronpad_core.control.apply import Declared, apply
from cronpad_core.control.audit import audit
from cronpad_core.control.audit_version import FINDINGS_KEPT, FindingKind, JobAudit
from cronpad_core.domain.admission import OpenRequest
from cronpad_core.domain.dispatch import TermRecord
from cronpad_core.domain.ids import job_id_for
from cronpad_core.domain.job import Job, JobSpec, JobStatus, ScheduleSpec, SinkSpec
from cronpad_core.domain.ledger import RangeKind, SlotRange
from cronpad_core.domain.misfire import MisfireRule
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.timing import DAY, HOUR, MINUTE, to_ms
from cronpad_core.engine.catchup import missed_window
from cronpad_core.ports.catalog import JobWrite, Move
from cronpad_core.ports.history import RangeRequest
from cronpad_core.ports.storage import Storage, StorageOptions
from cronpad_core.runtime.schedules import ScheduleBook

sql = pytest.importorskip("cronpad_sql.storage")

T0 = 1_767_225_600_000
FILE = "/etc/jobs.toml"
HANDLING = 40_000
POLICIES = {policy.name: policy for policy in (Latest, Earliest, All, Skip)}


class Books:
    """A state on disk, filled as the engine fills it, and opened by hand where it is to be tampered with."""

    def __init__(self, directory: Path) -> None:
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
            storage = sql.SqliteStorage(options)
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
                now_ms=self.now,
                term=1,
            )

        self.do(applying)

    def job(self, name: str = "a") -> Job:
        """The job as stored."""
        found: Job = self.do(lambda storage: storage.catalog.job(job_id_for(FILE, name)))
        return found

    def change(self, job: Job, **changes: Any) -> None:
        """Stores a job as something else made it."""
        changed = replace(job, **changes)
        self.do(lambda storage: storage.catalog.write([JobWrite(job=changed, expected=job)], term=1))

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
    return Books(tmp_path / "state")


def test_an_undisturbed_job_is_clean(books: Books) -> None:
    """Every slot has its run; those still to be handled are open."""
    books.apply("every 10s")
    books.run_until(T0 + 600_000)
    found = books.clean()
    assert (found.slots, found.open) == (60, 0)
    books.now += 95_000
    found = books.clean()
    assert (found.slots, found.open) == (60, 9)


def test_an_empty_state_is_clean(books: Books) -> None:
    """No job, nothing to find."""
    assert books.audit() == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("away", [5 * MINUTE, 3 * DAY])
def test_downtime_is_clean_under_each_policy(books: Books, policy: str, away: int) -> None:
    """What was decided over an absence is in the books, whatever the policy chose."""
    settings = {"max": 50} if policy == "all" else {}
    books.apply("*/10 * * * * *", misfire=MisfireRule(policy=policy, settings=settings))
    books.run_until(T0 + 60_000)
    books.now += away
    if away > HOUR:
        assert [kind for kind, *_ in books.findings()] == ["undecided"]
    books.decide()
    assert books.clean().slots == 6 + away // 10_000
    books.run_until(books.now + 60_000)
    assert books.clean().slots == 12 + away // 10_000


def test_1_200_000_missed_slots_take_no_longer_than_ten(books: Books) -> None:
    """Two weeks of seconds that were missed are judged by arithmetic, missing and there."""
    books.apply("* * * * * *", misfire=MisfireRule(policy="skip"))
    books.now += 14 * DAY
    books.decide()
    began = time.perf_counter()
    assert books.clean().slots == 14 * 86_400
    assert time.perf_counter() - began < 2
    books.edit("DELETE FROM ranges")
    began = time.perf_counter()
    assert books.findings() == [("no outcome", 1, 14 * 86_400 - 100, 14 * 86_400 - 100)]
    assert time.perf_counter() - began < 2


def test_a_year_of_clock_changes_is_clean(books: Books) -> None:
    """A job in a gap and a fold has the slots that its schedule says, not one more."""
    books.now = to_ms(datetime(2026, 1, 1, tzinfo=UTC))
    books.apply("30 1,2 * * *", timezone="Europe/Madrid")
    books.run_until(books.now + 365 * DAY)
    found = books.clean()
    assert found.slots > 720
    day = to_ms(datetime(2026, 10, 25, tzinfo=UTC))
    books.edit("DELETE FROM runs WHERE scheduled_at BETWEEN ? AND ?", day, day + HOUR)
    [finding] = books.audit()[0].findings
    assert (finding.kind, finding.slots) == (FindingKind.NO_OUTCOME, 1)


def test_edits_pauses_and_removals_are_clean(books: Books) -> None:
    """Versions that ended left dropped slots; a removed time has no slots; a version begins where it is applied."""
    books.apply("every 10s")
    books.run_until(T0 + 300_000)
    books.now += 25_000
    books.apply("every 7s")
    books.now += HOUR
    books.run_until(books.now)
    books.apply()
    books.now += DAY
    assert [kind for kind, *_ in books.findings()] == ["undecided"]
    books.drop()
    assert books.clean().slots == 32 + HOUR // 7_000
    books.apply("@hourly")
    books.run_until(books.now + DAY)
    assert books.clean().slots == 32 + HOUR // 7_000 + 24


def test_a_version_that_ended_just_now_is_still_open(books: Books) -> None:
    """However old its open slots are: the reconciler has not had the time to write them."""
    books.apply("every 10s")
    books.now += DAY
    books.apply()
    found = books.clean()
    assert (found.slots, found.open) == (0, 8640)


def test_a_pause_ends_with_its_version(books: Books) -> None:
    """A paused job has no slots, however long ago that was."""
    books.apply("every 10s")
    books.run_until(T0 + 100_000)
    job = books.job()
    [version] = books.do(lambda storage: storage.catalog.versions(job.id))
    paused = replace(job, status=JobStatus.PAUSED, next_run_at_ms=None)
    ends = replace(version, valid_until_ms=books.now, open_from_ms=job.next_run_at_ms)
    books.do(lambda storage: storage.catalog.write([JobWrite(job=paused, expected=job, ends=ends)], term=1))
    books.now += DAY
    assert books.clean().slots == 10


def test_a_slot_without_an_outcome(books: Books) -> None:
    """A run that is gone leaves its slot, and neighbours are one finding."""
    books.apply("every 10s")
    books.run_until(T0 + 1_000_000)
    books.edit("DELETE FROM runs WHERE scheduled_at IN (?, ?, ?)", T0 + 50_000, T0 + 60_000, T0 + 200_000)
    assert books.findings() == [("no outcome", 50, 60, 2), ("no outcome", 200, 200, 1)]
    books.edit("DELETE FROM runs WHERE scheduled_at > ?", T0 + 900_000)
    assert len(books.findings()) == 2, "younger than what a lost entry takes to be found"


def test_slots_with_two_outcomes(books: Books) -> None:
    """A range over a run, and a range over a range."""
    books.apply("every 10s")
    books.run_until(T0 + 1_000_000)
    row = "INSERT INTO ranges (job_id, version, first_at, last_at, kind, slots, reason) VALUES (?, 1, ?, ?, 'missed', ?, '')"
    books.edit(row, books.job().id, T0 + 100_000, T0 + 120_000, 3)
    assert books.findings() == [("two outcomes", 100, 120, 3)]
    books.edit("DELETE FROM runs WHERE scheduled_at BETWEEN ? AND ?", T0 + 100_000, T0 + 130_000)
    books.edit(row, books.job().id, T0 + 120_000, T0 + 130_000, 2)
    assert books.findings() == [("two outcomes", 120, 120, 1)]


def test_a_run_off_the_schedule(books: Books) -> None:
    """A run where its own schedule does not fire is no outcome; its own slot has none."""
    books.apply("every 10s")
    books.run_until(T0 + 1_000_000)
    books.edit("UPDATE runs SET scheduled_at = scheduled_at + 3000 WHERE scheduled_at = ?", T0 + 50_000)
    assert books.findings() == [("no outcome", 50, 50, 1), ("no slot", 53, 53, 0)]


def test_a_run_outside_its_version(books: Books) -> None:
    """On its schedule, but before its version began, or of a version that never was."""
    books.apply("every 10s")
    books.now += 1_000
    books.run_until(T0 + 1_000_000)
    books.edit("UPDATE job_versions SET valid_from = ?", T0 + 25_000, file="cronpad.db")
    assert books.findings() == [("no slot", 10, 10, 0), ("no slot", 20, 20, 0)]
    books.edit("UPDATE jobs SET clock_epoch = 1", file="cronpad.db")
    assert books.findings() == [], "a clock that was set back cut the bounds"
    books.edit("UPDATE runs SET job_version = 7 WHERE scheduled_at = ?", T0 + 30_000)
    assert books.findings() == [("no slot", 30, 30, 0)]


def test_ranges_without_slots(books: Books) -> None:
    """A range between slots, one with another number, one of no version, one after its version."""
    books.apply("every 10s", misfire=MisfireRule(policy="skip"))
    books.run_until(T0 + 100_000)
    books.now += HOUR
    books.decide()
    row = "INSERT INTO ranges (job_id, version, first_at, last_at, kind, slots, reason) VALUES (?, ?, ?, ?, 'missed', ?, '')"
    books.edit(row, books.job().id, 1, T0 + 51_000, T0 + 52_000, 1)
    assert books.findings() == [("no slot", 51, 52, 0)]
    books.edit("DELETE FROM ranges WHERE first_at = ?", T0 + 51_000)
    books.edit("UPDATE ranges SET slots = slots + 1")
    assert books.findings() == [("miscounted", 110, 3700, 360)]
    books.edit("UPDATE ranges SET slots = slots - 1")
    books.edit(row, books.job().id, 9, T0 + 10_000, T0 + 20_000, 2)
    assert books.findings() == [("no slot", 10, 20, 0)]


def test_a_schedule_that_cannot_be_read_any_more(books: Books) -> None:
    """Nothing can be said of its slots, and that is said."""
    books.apply("every 10s")
    books.run_until(T0 + 100_000)
    books.edit("UPDATE job_versions SET spec = replace(spec, 'UTC', 'Mars/Base')", file="cronpad.db")
    assert [kind for kind, *_ in books.findings()] == ["unreadable"]


def test_since_leaves_older_slots_out(books: Books) -> None:
    """Findings before it are none; those after it stay."""
    books.apply("every 10s")
    books.run_until(T0 + 1_000_000)
    books.edit("DELETE FROM runs WHERE scheduled_at IN (?, ?)", T0 + 50_000, T0 + 500_000)
    assert books.findings(T0 + 50_000) == [("no outcome", 500, 500, 1)]
    assert books.audit(T0 + 400_000)[0].slots == 60


def test_slots_that_are_chosen_to_be_caught_up_are_open(books: Books) -> None:
    """A replay is a decision: its slots wait for their turn, however old they are."""
    books.apply("every 10s")
    books.now += DAY
    job = books.job()
    books.edit("UPDATE jobs SET replay_until = ?, replay_then = ?", books.now - HOUR, books.now + 10_000, file="cronpad.db")
    assert [kind for kind, *_ in books.findings()] == ["undecided"]
    assert books.audit()[0].open == 8640 - 360 + 10
    books.edit("UPDATE jobs SET replay_until = ?", books.now, file="cronpad.db")
    assert books.clean().open == 8640
    assert job.next_run_at_ms == T0 + 10_000


def test_a_job_that_a_limit_keeps_waiting_is_open(books: Books) -> None:
    """A hold is no decision and no loss."""
    books.apply("every 10s")
    books.now += DAY
    member = books.job().slot(T0 + 10_000).member

    async def hold(storage: Storage) -> None:
        await storage.queue.open()

    books.do(hold)
    books.edit(
        "INSERT INTO due (member, at, held_since) VALUES (?, ?, ?)", member, books.now, T0 + 10_000, file="cronpad-queue.db"
    )
    assert books.clean().open == 8640
    books.edit("UPDATE due SET held_since = NULL", file="cronpad-queue.db")
    assert [kind for kind, *_ in books.findings()] == ["undecided"]


def test_a_job_that_moves_while_it_is_read_is_read_again(books: Books) -> None:
    """What a dispatcher writes between two reads is no finding."""
    books.apply("every 10s")
    books.now += DAY

    class Between(ScheduleBook):
        def __call__(self, *arguments: Any) -> Any:
            if not self.asked:
                self.asked = True
                books.edit("UPDATE jobs SET replay_until = ?, replay_then = 0", books.now, file="cronpad.db")
            return super().__call__(*arguments)

        asked = False

    async def auditing(storage: Storage) -> list[JobAudit]:
        return [one async for one in audit(storage, schedules=Between(), now_ms=books.now, handling_ms=HANDLING)]

    [found] = books.do(auditing, read_only=True)
    assert (found.findings, found.open) == ([], 8640)


def test_countless_findings_are_counted(books: Books) -> None:
    """A job tells so many, and how many more there are."""
    books.apply("every 1s")
    books.run_until(T0 + 2_500_000)
    books.edit("DELETE FROM runs WHERE scheduled_at / 1000 % 2 = 0")
    [found] = books.audit()
    assert len(found.findings) == FINDINGS_KEPT
    assert found.unlisted == 1200 - FINDINGS_KEPT


def test_the_command_tells_and_ends_with_1(books: Books) -> None:
    """Exit 0 with a closing line; exit 1 with a table, or a document for programs."""
    books.apply("every 10s")
    books.run_until(T0 + 1_000_000)

    def call(*arguments: str) -> Any:
        invocation = Invocation(environ={}, fixed_now_ms=books.now)
        return CliRunner().invoke(cli, ["audit", "--state", str(books.directory), *arguments], obj=invocation)

    good = call()
    assert (good.exit_code, good.stdout) == (0, "audited 1 job, 100 slots: 0 findings\n")
    books.edit("DELETE FROM runs WHERE scheduled_at IN (?, ?)", T0 + 50_000, T0 + 60_000)
    bad = call()
    assert bad.exit_code == 1
    assert "2026-01-01T00:00:50Z to 2026-01-01T00:01:00Z (2)  no outcome" in bad.stdout
    assert bad.stdout.endswith("audited 1 job, 100 slots: 1 finding\n")
    document = json.loads(call("--json", "--since", "1h").stdout)
    assert (document["schema"], document["findings"], document["slots"]) == ("cronpad.audit/1", 1, 100)
    assert document["items"][0] | {"job_id": "", "detail": ""} == {
        "job": "a",
        "job_id": "",
        "version": 1,
        "what": "no_outcome",
        "slot": "2026-01-01T00:00:50Z",
        "last_slot": "2026-01-01T00:01:00Z",
        "slots": 2,
        "detail": "",
    }
    assert call("--since", "2026-01-01T00:10:00Z").exit_code == 0
    assert call("--since", "soon").exit_code == 2
    assert call("--state", str(books.directory / "none")).exit_code == 4
