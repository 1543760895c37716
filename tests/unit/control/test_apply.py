"""Applying declared jobs: what changes, what keeps, and how versions end and begin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cronpad_core.builtin.memory import MemoryStorage
from cronpad_core.control.apply import Applied, Change, ChangeKind, Declared, apply, plan
from cronpad_core.domain.dispatch import TermRecord
from cronpad_core.domain.errors import TermRefusedError
from cronpad_core.domain.ids import job_id_for
from cronpad_core.domain.job import Job, JobSpec, JobStatus, JobVersion, ScheduleSpec, SinkSpec
from cronpad_core.domain.ledger import RangeKind, SlotRange
from cronpad_core.domain.timing import Millis
from cronpad_core.ports.catalog import JobWrite, Move
from cronpad_core.ports.history import RangeRequest
from cronpad_core.ports.storage import StorageOptions
from cronpad_core.runtime.schedules import ScheduleBook

T0: Millis = 1_767_225_600_000
FILE, OTHER = "/etc/jobs.toml", "/etc/others.toml"


def declared(name: str = "a", text: str = "every 10s", *, origin: str = FILE, id: str | None = None, **rest: Any) -> Declared:
    """A job of a file."""
    spec = JobSpec(name=name, schedule=ScheduleSpec(texts=(text,)), sink=SinkSpec(type="command"), **rest)
    return Declared(spec=spec, origin=origin, id=id)


class Desk:
    """A memory state and the time on its clock."""

    def __init__(self) -> None:
        self.storage = MemoryStorage(StorageOptions(url="memory://", wall_ms=lambda: self.now))
        self.schedules = ScheduleBook()
        self.now = T0 + 400
        self.run(self.storage.catalog.swap_term(TermRecord(), TermRecord(term=1, holder="us")))
        self.run(self.storage.history.swap_term(TermRecord(), TermRecord(term=1, holder="us")))

    def run(self, work: Any) -> Any:
        """Waits for it."""
        return asyncio.run(_wait(work))

    def apply(self, *jobs: Declared, origins: Collection[str] = (FILE,), prune: bool = True, term: int | None = 1) -> Applied:
        """Applies these as the whole of ``origins``."""
        return self.run(
            apply(
                jobs,
                origins=origins,
                prune=prune,
                catalog=self.storage.catalog,
                history=self.storage.history,
                schedules=self.schedules,
                now=lambda: self.now,
                term=term,
            )
        )

    def job(self, name: str = "a", origin: str = FILE) -> Job:
        """The job as stored."""
        found = self.run(self.storage.catalog.job(job_id_for(origin, name)))
        assert found is not None
        return found

    def versions(self, name: str = "a") -> list[JobVersion]:
        """Its versions."""
        return self.run(self.storage.catalog.versions(job_id_for(FILE, name)))

    def move(self, to_ms: Millis | None, name: str = "a") -> None:
        """Advances a job as the line does."""
        job = self.job(name)
        assert job.next_run_at_ms is not None
        move = Move(
            job_id=job.id,
            version=job.version,
            clock_epoch=job.clock_epoch,
            from_ms=job.next_run_at_ms,
            to_ms=to_ms,
            replay=job.replay,
            term=1,
        )
        self.run(self.storage.catalog.move([move]))

    def change(self, change: Callable[[Job], Job], name: str = "a", ends: JobVersion | None = None) -> None:
        """Stores the job as something else made it."""
        job = self.job(name)
        self.run(self.storage.catalog.write([JobWrite(job=change(job), expected=job, ends=ends)], term=1))

    def pause(self, name: str = "a") -> None:
        """Pauses it, ending its version."""
        job = self.job(name)
        ends = replace(self.versions(name)[-1], valid_until_ms=self.now, open_from_ms=job.next_run_at_ms)
        self.change(lambda job: replace(job, status=JobStatus.PAUSED, next_run_at_ms=None, paused_reason="holidays"), name, ends)


async def _wait(work: Any) -> Any:
    return await work


@pytest.fixture
def desk() -> Desk:
    """An empty state at 0.4 s past the hour."""
    return Desk()


def kinds(changes: Sequence[Change]) -> list[str]:
    """What was done, in order."""
    return [change.kind.value for change in changes]


def test_a_new_job_fires_next_after_now_and_never_at_once(desk: Desk) -> None:
    """A new job has missed nothing: its first slot is after now, counted from the second it was stored."""
    applied = desk.apply(declared())
    job = desk.job()
    assert kinds(applied.changes) == ["add"]
    assert (job.version, job.status, job.next_run_at_ms, job.valid_from_ms) == (1, JobStatus.ACTIVE, T0 + 10_000, T0 + 400)
    assert job.spec.schedule.anchor_ms == T0
    assert [(one.version, one.valid_from_ms, one.valid_until_ms) for one in desk.versions()] == [(1, T0 + 400, None)]


def test_an_unchanged_job_keeps_everything(desk: Desk) -> None:
    """Applying the same file again changes no row, whatever the job's next run is by then."""
    desk.apply(declared())
    desk.move(T0 + 20_000)
    before = desk.job()
    desk.now += 12_345
    assert kinds(desk.apply(declared()).changes) == ["keep"]
    assert desk.job() == before
    assert len(desk.versions()) == 1


def test_an_edit_ends_the_version_with_its_open_slot(desk: Desk) -> None:
    """The ended version says where it stood, the new one begins where it ended and fires next after that."""
    desk.apply(declared())
    desk.now = T0 + 25_000
    assert kinds(desk.apply(declared(text="every 7s")).changes) == ["change"]
    first, second = desk.versions()
    assert (first.valid_from_ms, first.valid_until_ms, first.open_from_ms) == (T0 + 400, T0 + 25_000, T0 + 10_000)
    assert (second.version, second.valid_from_ms, second.valid_until_ms) == (2, T0 + 25_000, None)
    assert desk.job().next_run_at_ms == T0 + 28_000
    assert desk.run(desk.storage.catalog.ended_versions(limit=5)) == [first]


def test_edits_do_not_shift_an_interval(desk: Desk) -> None:
    """The anchor of ``every`` is kept over edits, removal and adding again."""
    desk.apply(declared())
    for number in range(1, 4):
        desk.now += 3_333
        desk.apply(declared(timeout_ms=number))
        assert desk.job().spec.schedule.anchor_ms == T0
        desk.apply()
        desk.apply(declared())
        assert desk.job().spec.schedule.anchor_ms == T0


def test_a_pause_is_kept_over_an_edit(desk: Desk) -> None:
    """A paused job stays paused when its file changes; the version that begins meanwhile covers no slot."""
    desk.apply(declared())
    desk.now = T0 + 12_000
    desk.pause()
    desk.now = T0 + 33_000
    desk.apply(declared(timeout_ms=5))
    job = desk.job()
    assert (job.status, job.next_run_at_ms, job.paused_reason, job.version) == (JobStatus.PAUSED, None, "holidays", 2)
    first, second = desk.versions()
    assert (first.valid_until_ms, first.open_from_ms) == (T0 + 12_000, T0 + 10_000)
    assert (second.valid_from_ms, second.valid_until_ms, second.open_from_ms) == (T0 + 33_000, T0 + 33_000, None)


def test_a_removed_job_is_kept_for_its_history(desk: Desk) -> None:
    """A job that its file declares no more is deleted, with its version ended; applying again does nothing more."""
    desk.apply(declared())
    desk.now = T0 + 12_000
    applied = desk.apply()
    assert kinds(applied.changes) == ["remove"]
    assert [job.spec.name for job in applied.of(ChangeKind.REMOVE)] == ["a"]
    job = desk.job()
    assert (job.status, job.next_run_at_ms, job.version) == (JobStatus.DELETED, None, 1)
    assert (desk.versions()[0].valid_until_ms, desk.versions()[0].open_from_ms) == (T0 + 12_000, T0 + 10_000)
    assert kinds(desk.apply().changes) == []


def test_a_job_that_is_added_again_gets_a_higher_version(desk: Desk) -> None:
    """Adding a removed job again begins a new version, even with the same spec, and misses nothing meanwhile."""
    desk.apply(declared())
    desk.apply()
    desk.now = T0 + 47_000
    assert kinds(desk.apply(declared()).changes) == ["add"]
    job = desk.job()
    assert (job.version, job.status, job.next_run_at_ms) == (2, JobStatus.ACTIVE, T0 + 50_000)


def test_only_jobs_of_the_read_origins_are_pruned(desk: Desk) -> None:
    """Jobs of other files are never touched, and nothing is pruned unless asked for."""
    desk.apply(declared("a"), declared("b"))
    desk.apply(declared("c", origin=OTHER), origins=(OTHER,))
    assert kinds(desk.apply(declared("a"), prune=False).changes) == ["keep"]
    assert desk.job("b").status is JobStatus.ACTIVE
    assert kinds(desk.apply(declared("a")).changes) == ["keep", "remove"]
    assert desk.job("b").status is JobStatus.DELETED
    assert desk.job("c", OTHER).status is JobStatus.ACTIVE


def test_pruning_goes_through_all_pages(desk: Desk) -> None:
    """More jobs than one page holds are all pruned."""
    desk.apply(*(declared(f"job{number}") for number in range(1_203)))
    assert len(desk.apply(declared("job7")).of(ChangeKind.REMOVE)) == 1_202


def test_a_spent_one_shot_stays_completed(desk: Desk) -> None:
    """A one-shot whose time is past, or which has run, is completed and stays so when it is applied again."""
    desk.apply(declared("past", "at 2025-12-31T00:00:00Z"), declared("soon", "at 2026-01-01T00:01:00Z"))
    assert (desk.job("past").status, desk.job("past").next_run_at_ms) == (JobStatus.COMPLETED, None)
    desk.move(None, "soon")
    desk.now = T0 + 90_000
    for _ in range(2):
        applied = desk.apply(declared("past", "at 2025-12-31T00:00:00Z"), declared("soon", "at 2026-01-01T00:01:00Z"))
        assert kinds(applied.changes) == ["keep", "keep"]
        assert desk.job("soon").status is JobStatus.COMPLETED
    desk.apply(declared("past", "at 2025-12-31T00:00:00Z"), declared("soon", "at 2026-01-01T00:05:00Z"))
    assert (desk.job("soon").status, desk.job("soon").next_run_at_ms) == (JobStatus.ACTIVE, T0 + 300_000)


def test_a_version_never_ends_before_a_slot_that_it_decided(desk: Desk) -> None:
    """An edit that read its clock before the job moved on, or whose clock went back, does not open decided slots again."""
    desk.apply(declared())
    desk.move(T0 + 20_000)
    desk.move(T0 + 30_000)
    desk.now = T0 + 15_000
    desk.apply(declared(timeout_ms=5))
    first, second = desk.versions()
    assert (first.valid_until_ms, first.open_from_ms) == (T0 + 20_000, T0 + 30_000)
    assert second.valid_from_ms == T0 + 20_000
    assert desk.job().next_run_at_ms == T0 + 30_000


def test_a_version_never_ends_inside_a_decided_window(desk: Desk) -> None:
    """While a catch-up runs, the slots behind it are decided too."""
    from cronpad_core.domain.job import Replay

    desk.apply(declared())
    desk.change(lambda job: replace(job, next_run_at_ms=T0 + 40_000, replay=Replay(until_ms=T0 + 40_000, then_ms=T0 + 90_000)))
    desk.now = T0 + 50_000
    desk.apply()
    [only] = desk.versions()
    assert (only.valid_until_ms, only.open_from_ms) == (T0 + 80_000, T0 + 40_000)


def test_versions_never_overlap(desk: Desk) -> None:
    """A version begins no earlier than the last one began or ended, whatever the clock says."""
    desk.apply(declared())
    desk.now = T0 + 60_000
    desk.apply(declared(timeout_ms=5))
    desk.now = T0 + 20_000
    desk.apply(declared(timeout_ms=6))
    ends = [(one.valid_from_ms, one.valid_until_ms) for one in desk.versions()]
    assert ends == [(T0 + 400, T0 + 60_000), (T0 + 60_000, T0 + 60_000), (T0 + 60_000, None)]


@pytest.mark.parametrize("stored", [False, True])
def test_a_version_is_above_every_one_that_history_knows(desk: Desk, stored: bool) -> None:
    """After control was restored from a backup, a new version takes a number that no row of history has."""
    if stored:
        desk.apply(declared())
    row = SlotRange(job_id=job_id_for(FILE, "a"), version=6, kind=RangeKind.MISSED, first_ms=T0, last_ms=T0 + 1, count=1)
    desk.run(desk.storage.history.add_ranges([RangeRequest(range=row, slots=lambda a, b: 1)], term=1))
    desk.apply(declared(timeout_ms=5))
    assert desk.job().version == 7


@pytest.mark.parametrize("term", [2, None])
def test_nothing_is_written_under_another_term(desk: Desk, term: int | None) -> None:
    """Where somebody else took over, or the lock was lost a moment ago, the whole apply is refused and nothing is stored."""
    with pytest.raises(TermRefusedError):
        desk.apply(declared(), term=term)
    assert desk.run(desk.storage.catalog.jobs()) == []


def test_a_job_that_changed_meanwhile_is_planned_again(desk: Desk) -> None:
    """A line that moves the job between reading and writing makes the apply begin again, from the job as it stands."""
    desk.apply(declared())
    catalog, moved = desk.storage.catalog, []

    class Interrupted:
        """Moves the job once, right before it is written."""

        def __getattr__(self, name: str) -> Any:
            return getattr(catalog, name)

        async def write(self, writes: Sequence[JobWrite], *, term: int | None) -> None:
            if not moved:
                moved.append(True)
                job = await catalog.job(writes[0].job.id)
                assert job is not None
                await catalog.move(
                    [Move(job_id=job.id, version=1, clock_epoch=0, from_ms=T0 + 10_000, to_ms=T0 + 20_000, replay=None, term=1)]
                )
            await catalog.write(writes, term=term)

    desk.storage.catalog = Interrupted()
    desk.now = T0 + 10_001
    desk.apply(declared(timeout_ms=5))
    desk.storage.catalog = catalog
    assert desk.versions()[0].open_from_ms == T0 + 20_000
    assert desk.job().version == 2


def test_a_plan_writes_nothing(desk: Desk) -> None:
    """``plan`` says what ``apply`` would do, and leaves everything as it is."""
    changes = desk.run(
        plan(
            [declared()],
            origins=(FILE,),
            prune=True,
            catalog=desk.storage.catalog,
            history=desk.storage.history,
            schedules=desk.schedules,
            now=lambda: desk.now,
        )
    )
    assert kinds(changes) == ["add"]
    assert desk.run(desk.storage.catalog.jobs()) == []


def test_a_job_may_name_its_own_id(desk: Desk) -> None:
    """A declared id wins over the derived one, and keeps the job over a change of its name."""
    desk.apply(declared(id="job_mine"))
    desk.apply(declared("renamed", id="job_mine"))
    job = desk.run(desk.storage.catalog.job("job_mine"))
    assert (job.spec.name, job.version) == ("renamed", 2)
    assert len(desk.run(desk.storage.catalog.jobs())) == 1


def test_jobs_that_move_on_meanwhile_do_not_keep_an_edit_out() -> None:
    """A busy runner advances some job between any two questions; an apply asks what it must only once, and then writes."""
    desk = Desk()
    names = [f"job-{number}" for number in range(5)]
    desk.apply(*(declared(name) for name in names))
    catalog, asked = desk.storage.catalog, list[str]()
    ask = catalog.versions

    async def versions(job_id: str) -> list[JobVersion]:
        asked.append(job_id)
        job = await catalog.job(job_id_for(FILE, names[len(asked) % 5]))
        assert job is not None and job.next_run_at_ms is not None
        at_ms = job.next_run_at_ms
        move = Move(
            job_id=job.id,
            version=job.version,
            clock_epoch=0,
            from_ms=at_ms,
            to_ms=at_ms + 10_000,
            replay=None,
            term=1,
        )
        await catalog.move([move])
        if len(asked) > 50:
            raise AssertionError("it asks again and again")
        return await ask(job_id)

    catalog.versions = versions  # type: ignore[method-assign]  # the runner that goes on beside it
    applied = desk.apply(*(declared(name, "every 20s") for name in names))
    assert len(applied.of(ChangeKind.CHANGE)) == len(asked) == 5
    assert {desk.job(name).version for name in names} == {2}
