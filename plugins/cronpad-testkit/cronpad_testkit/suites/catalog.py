"""The promises of a catalog, all together; here C1 to C5."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronpad_core.api import (
    ConcurrencyRule,
    JobStatus,
    JobWrite,
    Move,
    MoveKind,
    OverlapPolicy,
    OverlapRule,
    Replay,
    SlaRule,
    StaleWriteError,
    Storage,
    TermRecord,
    TermRefusedError,
    TermStore,
)
from cronpad_testkit.samples import T0, job, spec, version
from cronpad_testkit.suites.catalog_changes import CatalogChangesSuite
from cronpad_testkit.suites.storage import BuildStorage, on_state, on_storage, opened

__all__ = ["CatalogSuite", "check_terms"]

_HOUR = 3_600_000


async def check_terms(store: TermStore) -> None:
    """C1 for either store that keeps the record of the holder."""
    nobody = await store.read_term()
    assert nobody == TermRecord()
    first = TermRecord(term=1, holder="boot-1/1", released=False)
    assert await store.swap_term(nobody, first)
    assert await store.read_term() == first
    second = TermRecord(term=2, holder="boot-1/2", released=False)
    for other in (nobody, replace(first, holder="boot-1/9"), replace(first, released=True), replace(first, term=2)):
        assert not await store.swap_term(other, second)
        assert await store.read_term() == first
    assert await store.swap_term(first, replace(first, released=True))
    assert await store.swap_term(replace(first, released=True), second)
    assert await store.read_term() == second


async def _add(storage: Storage, *job_ids: str, next_run_at_ms: int | None = T0) -> None:
    writes = [
        JobWrite(job=job(job_id, next_run_at_ms=next_run_at_ms), expected=None, begins=version(job_id)) for job_id in job_ids
    ]
    await storage.catalog.write(writes, term=None)


def _move(job_id: str = "job_a", *, from_ms: int = T0, to_ms: int | None = T0 + _HOUR, term: int = 0) -> Move:
    return Move(job_id=job_id, version=1, clock_epoch=0, from_ms=from_ms, to_ms=to_ms, replay=None, term=term)


class CatalogSuite(CatalogChangesSuite):
    """Adopt with the fixture ``new_state``; see the README of cronpad-testkit."""

    @on_storage
    async def test_c1_the_record_of_the_holder_is_swapped_whole(self, storage: Storage) -> None:
        """C1: the swap is refused unless term, holder and released are all what the caller read."""
        await check_terms(storage.catalog)

    @on_state
    async def test_c1_the_record_can_be_read_before_preparing(self, build: BuildStorage) -> None:
        """C1: the record is there after ``open`` alone, in control and in history, and outlives the process."""
        storage = build()
        await storage.open()
        taken = TermRecord(term=3, holder="h", released=True)
        assert await storage.catalog.swap_term(await storage.catalog.read_term(), taken)
        assert await storage.history.swap_term(await storage.history.read_term(), taken)
        await storage.close()
        async with opened(build) as storage:
            assert await storage.catalog.read_term() == taken
            assert await storage.history.read_term() == taken
            await storage.check()

    @on_state
    async def test_c2_a_job_comes_back_as_it_was_written(self, build: BuildStorage) -> None:
        """C2: every field of job and version survives the process, unusual values included."""
        full = replace(
            job(),
            spec=replace(
                spec("nächtlich", overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=4)),
                jitter_ms=7,
                offset_ms=9,
                grace_ms=61_000,
                alerts=("x",),
                concurrency=ConcurrencyRule(max=2, key="db"),
                sla=SlaRule(start_within_ms=5_000),
            ),
            replay=Replay(until_ms=T0 + 5, then_ms=None),
            clock_epoch=4,
            paused_reason="auto",
            paused_until_ms=T0 + 9,
        )
        async with opened(build) as storage:
            await storage.catalog.write([JobWrite(job=full, expected=None, begins=version())], term=None)
            assert await storage.catalog.job("job_a") == full
        async with opened(build) as storage:
            assert await storage.catalog.job("job_a") == full
            assert await storage.catalog.versions("job_a") == [version()]
            assert await storage.catalog.job("job_b") is None

    @on_storage
    async def test_c2_all_changes_or_none(self, storage: Storage) -> None:
        """C2: one write that is stale, of a job that is there or gone or changed, refuses the whole call."""
        catalog = storage.catalog
        await _add(storage, "job_a", "job_b")
        paused = replace(job("job_a"), status=JobStatus.PAUSED, next_run_at_ms=None)
        fresh = JobWrite(job=job("job_c"), expected=None, begins=version("job_c"))
        for stale in (
            JobWrite(job=job("job_b"), expected=None),
            JobWrite(job=job("job_x"), expected=job("job_x")),
            JobWrite(job=job("job_b"), expected=replace(job("job_b"), clock_epoch=1)),
            JobWrite(job=job("job_b"), expected=replace(job("job_b"), next_run_at_ms=T0 + 1)),
        ):
            good = JobWrite(job=paused, expected=job("job_a"), ends=version(until_ms=T0, open_from_ms=T0))
            with pytest.raises(StaleWriteError):
                await catalog.write([fresh, good, stale], term=None)
            assert await catalog.jobs() == [job("job_a"), job("job_b")]
            assert await catalog.versions("job_a") == [version()]
            assert await catalog.versions("job_c") == []
            assert await catalog.ended_versions(limit=9) == []

    @on_storage
    async def test_c2_a_write_under_another_term_is_refused(self, storage: Storage) -> None:
        """C2: with a term that is not the stored one ``write`` raises ``TermRefusedError`` and applies nothing."""
        catalog = storage.catalog
        await catalog.swap_term(await catalog.read_term(), TermRecord(term=5, holder="h"))
        with pytest.raises(TermRefusedError):
            await catalog.write([JobWrite(job=job(), expected=None)], term=4)
        assert await catalog.job("job_a") is None
        await catalog.write([JobWrite(job=job(), expected=None)], term=5)
        assert await catalog.job("job_a") == job()

    @on_storage
    async def test_c3_a_move_goes_from_what_was_seen(self, storage: Storage) -> None:
        """C3: the next run moves from this instant, version and epoch, once; each answer carries the stored job."""
        catalog = storage.catalog
        await _add(storage, "job_a", "job_b")
        replay = Replay(until_ms=T0 + 9, then_ms=T0 + _HOUR)
        moved, missing = await catalog.move([replace(_move(), replay=replay), _move("job_x")])
        expected = replace(job(), next_run_at_ms=T0 + _HOUR, replay=replay)
        assert (moved.kind, moved.job) == (MoveKind.MOVED, expected)
        assert (missing.kind, missing.job) == (MoveKind.CHANGED, None)
        assert await catalog.job("job_a") == expected
        (again,) = await catalog.move([_move()])
        assert (again.kind, again.job) == (MoveKind.ALREADY, expected)
        changed = [replace(_move("job_b"), version=2), replace(_move("job_b"), clock_epoch=1)]
        assert [(answer.kind, answer.job) for answer in await catalog.move(changed)] == [(MoveKind.CHANGED, job("job_b"))] * 2
        (same,) = await catalog.move([_move("job_b", to_ms=T0)])
        assert (same.kind, same.job) == (MoveKind.MOVED, job("job_b"))

    @on_storage
    async def test_c3_only_an_active_job_moves(self, storage: Storage) -> None:
        """C3: a paused or deleted job answers ``CHANGED`` and stays as it is."""
        catalog = storage.catalog
        for status in (JobStatus.PAUSED, JobStatus.DELETED, JobStatus.COMPLETED):
            still = replace(job(f"job_{status.value}"), status=status)
            await catalog.write([JobWrite(job=still, expected=None)], term=None)
            (answer,) = await catalog.move([_move(still.id)])
            assert (answer.kind, answer.job) == (MoveKind.CHANGED, still)
            assert await catalog.job(still.id) == still

    @on_storage
    async def test_c3_a_move_under_another_term_is_refused(self, storage: Storage) -> None:
        """C3: a term that is not the stored one raises ``TermRefusedError`` and moves nothing."""
        catalog = storage.catalog
        await _add(storage, "job_a")
        await catalog.swap_term(await catalog.read_term(), TermRecord(term=5, holder="h"))
        with pytest.raises(TermRefusedError):
            await catalog.move([_move(term=4)])
        assert await catalog.job("job_a") == job()
        (answer,) = await catalog.move([_move(term=5)])
        assert answer.kind is MoveKind.MOVED

    @on_storage
    async def test_c4_a_job_without_a_next_run_is_completed(self, storage: Storage) -> None:
        """C4: a move to ``None`` completes the job; repeated, it finds the job changed."""
        catalog = storage.catalog
        await _add(storage, "job_a")
        (answer,) = await catalog.move([_move(to_ms=None)])
        completed = replace(job(), next_run_at_ms=None, status=JobStatus.COMPLETED)
        assert (answer.kind, answer.job) == (MoveKind.MOVED, completed)
        (again,) = await catalog.move([_move(to_ms=None)])
        assert (again.kind, again.job) == (MoveKind.CHANGED, completed)
        assert await catalog.overdue(before_ms=T0 + 10 * _HOUR, limit=9) == []

    @on_storage
    async def test_c5_versions_grow_and_stay(self, storage: Storage) -> None:
        """C5: ended versions stay readable, oldest first, after ten edits and a deletion; a lower number is refused."""
        catalog = storage.catalog
        await _add(storage, "job_a")
        stored, ended = job(), []
        for number in range(2, 12):
            ended.append(version(number=number - 1, until_ms=T0 + number, open_from_ms=T0 + number + 1))
            after = replace(stored, version=number)
            write = JobWrite(job=after, expected=stored, ends=ended[-1], begins=version(number=number))
            await catalog.write([write], term=None)
            stored = after
        deleted = replace(stored, status=JobStatus.DELETED, next_run_at_ms=None)
        ended.append(version(number=11, until_ms=T0 + 50, open_from_ms=T0 + 51))
        await catalog.write([JobWrite(job=deleted, expected=stored, ends=ended[-1])], term=None)
        assert await catalog.versions("job_a") == ended
        with pytest.raises((ValueError, StaleWriteError)):
            await catalog.write([JobWrite(job=replace(deleted, version=3), expected=deleted)], term=None)
        assert await catalog.job("job_a") == deleted

    @on_storage
    async def test_ended_versions_are_owed_until_the_ledger_has_them(self, storage: Storage) -> None:
        """Versions that ended with open slots are answered until they are marked; ones without open slots never are."""
        catalog = storage.catalog
        await _add(storage, "job_a", "job_b", "job_c")
        ends = {
            "job_a": version("job_a", until_ms=T0 + 9, open_from_ms=T0),
            "job_b": version("job_b", until_ms=T0, open_from_ms=T0),
            "job_c": version("job_c", until_ms=T0, open_from_ms=T0 + 1),
        }
        for job_id, end in ends.items():
            paused = replace(job(job_id), status=JobStatus.PAUSED)
            await catalog.write([JobWrite(job=paused, expected=job(job_id), ends=end)], term=None)
        owed = await catalog.ended_versions(limit=9)
        assert sorted(end.job_id for end in owed) == ["job_a", "job_b"]
        assert all(ends[end.job_id] == end for end in owed)
        assert len(await catalog.ended_versions(limit=1)) == 1
        await catalog.mark_ledgered([ends["job_a"]])
        assert await catalog.ended_versions(limit=9) == [ends["job_b"]]
        await catalog.mark_ledgered([ends["job_a"], ends["job_b"]])
        assert await catalog.ended_versions(limit=9) == []
        assert await catalog.versions("job_a") == [ends["job_a"]]

    @on_storage
    async def test_overdue_finds_active_jobs_oldest_first(self, storage: Storage) -> None:
        """``overdue``: active jobs due strictly before the instant, oldest first, up to ``limit``; moves and pauses count."""
        catalog = storage.catalog
        for job_id, offset in (("job_a", 3), ("job_b", 1), ("job_c", 2), ("job_d", 10)):
            await _add(storage, job_id, next_run_at_ms=T0 + offset)
        await _add(storage, "job_e", next_run_at_ms=None)
        assert [found.id for found in await catalog.overdue(before_ms=T0 + 10, limit=9)] == ["job_b", "job_c", "job_a"]
        assert [found.id for found in await catalog.overdue(before_ms=T0 + 10, limit=2)] == ["job_b", "job_c"]
        assert await catalog.overdue(before_ms=T0 + 1, limit=9) == []
        await catalog.move([_move("job_b", from_ms=T0 + 1)])
        before = job("job_c", next_run_at_ms=T0 + 2)
        await catalog.write([JobWrite(job=replace(before, status=JobStatus.PAUSED), expected=before)], term=None)
        assert [found.id for found in await catalog.overdue(before_ms=T0 + 10, limit=9)] == ["job_a"]

    @on_storage
    async def test_jobs_come_in_pages_and_by_name(self, storage: Storage) -> None:
        """``jobs`` pages by id with or without statuses; ``jobs_named`` leaves out deleted ones."""
        catalog = storage.catalog
        ids = [f"job_{letter}" for letter in "edcba"]
        await _add(storage, *ids)
        gone = replace(job("job_c"), status=JobStatus.DELETED, next_run_at_ms=None)
        await catalog.write([JobWrite(job=gone, expected=job("job_c"))], term=None)
        twin = replace(job("job_z"), spec=spec("job_a"), origin="/etc/jobs.toml")
        await catalog.write([JobWrite(job=twin, expected=None)], term=None)
        assert [found.id for found in await catalog.jobs()] == [*sorted(ids), "job_z"]
        assert [found.id for found in await catalog.jobs(after="job_b", limit=2)] == ["job_c", "job_d"]
        active = await catalog.jobs(statuses={JobStatus.ACTIVE}, after="job_a", limit=2)
        assert [found.id for found in active] == ["job_b", "job_d"]
        assert await catalog.jobs(statuses=[JobStatus.DELETED]) == [gone]
        assert sorted(found.id for found in await catalog.jobs_named("job_a")) == ["job_a", "job_z"]
        assert await catalog.jobs_named("job_c") == []
        assert await catalog.job("job_c") == gone
