"""The promises C5 and C6 of a catalog: versions whose bounds are put right, and workspaces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronpad_core.api import (
    Job,
    JobStatus,
    JobVersion,
    JobWrite,
    Quota,
    StaleWriteError,
    Storage,
    TermRecord,
    TermRefusedError,
    Workspace,
)
from cronpad_testkit.samples import T0, job, version
from cronpad_testkit.suites.storage import BuildStorage, StorageSuite, on_state, on_storage, opened

__all__ = ["CatalogChangesSuite"]


async def _amend(storage: Storage, stored: Job, *amends: JobVersion) -> Job:
    """Stores the job under the next clock epoch, with those versions put right."""
    after = replace(stored, clock_epoch=stored.clock_epoch + 1)
    await storage.catalog.write([JobWrite(job=after, expected=stored, amends=amends)], term=None)
    return after


async def _two_versions(storage: Storage) -> Job:
    """A job whose first version ended with open slots, and whose second is in force."""
    await storage.catalog.write([JobWrite(job=job(), expected=None, begins=version())], term=None)
    second = replace(job(), version=2)
    ends = version(until_ms=T0 + 90, open_from_ms=T0 + 10)
    await storage.catalog.write([JobWrite(job=second, expected=job(), ends=ends, begins=version(number=2))], term=None)
    return second


class CatalogChangesSuite(StorageSuite):
    """Amended versions and workspaces; a part of ``CatalogSuite``."""

    @on_state
    async def test_c5_a_version_gets_other_bounds(self, build: BuildStorage) -> None:
        """C5: ``amends`` replaces the bounds of versions, in force or ended, and nothing else of them."""
        first = version(until_ms=T0 + 40, open_from_ms=T0 + 20)
        second = replace(version(number=2), valid_from_ms=T0 - 50)
        async with opened(build) as storage:
            stored = await _two_versions(storage)
            other_spec = replace(first, spec=replace(first.spec, name="another"), valid_from_ms=T0 - 7)
            after = await _amend(storage, stored, other_spec, second)
            assert await storage.catalog.job("job_a") == after
            assert await storage.catalog.versions("job_a") == [replace(first, valid_from_ms=T0 - 7), second]
        async with opened(build) as storage:
            assert await storage.catalog.versions("job_a") == [replace(first, valid_from_ms=T0 - 7), second]

    @on_storage
    async def test_c5_what_is_owed_goes_by_the_bounds(self, storage: Storage) -> None:
        """C5: an amended version is owed under its new bounds, and not at all where these leave no slot open."""
        catalog = storage.catalog
        stored = await _two_versions(storage)
        before = version(until_ms=T0 + 90, open_from_ms=T0 + 10)
        assert await catalog.ended_versions(limit=9) == [before]
        shorter = replace(before, valid_until_ms=T0 + 30)
        stored = await _amend(storage, stored, shorter)
        assert await catalog.ended_versions(limit=9) == [shorter]
        await catalog.mark_ledgered([before])
        assert await catalog.ended_versions(limit=9) == [shorter]
        nothing = replace(before, valid_until_ms=T0 + 9)
        stored = await _amend(storage, stored, nothing)
        assert await catalog.ended_versions(limit=9) == []
        stored = await _amend(storage, stored, before)
        assert await catalog.ended_versions(limit=9) == [before]
        await catalog.mark_ledgered([before])
        assert await catalog.ended_versions(limit=9) == []
        longer = replace(before, valid_until_ms=T0 + 120)
        await _amend(storage, stored, longer)
        assert await catalog.ended_versions(limit=9) == [longer]

    @on_storage
    async def test_c5_bounds_change_with_the_job_or_not_at_all(self, storage: Storage) -> None:
        """C2, C5: a write that is stale, or under another term, amends nothing, of whichever job of the call."""
        catalog = storage.catalog
        stored = await _two_versions(storage)
        before = await catalog.versions("job_a")
        amended = JobWrite(job=replace(stored, clock_epoch=1), expected=stored, amends=(version(until_ms=T0),))
        with pytest.raises(StaleWriteError):
            await catalog.write([amended, JobWrite(job=job("job_b"), expected=job("job_b"))], term=None)
        with pytest.raises(TermRefusedError):
            await catalog.write([amended], term=3)
        assert await catalog.versions("job_a") == before
        assert await catalog.job("job_a") == stored

    @on_storage
    async def test_c5_a_version_ends_and_another_is_amended_at_once(self, storage: Storage) -> None:
        """C5: one write can end the version in force and put right an older one."""
        catalog = storage.catalog
        stored = await _two_versions(storage)
        paused = replace(stored, status=JobStatus.PAUSED, next_run_at_ms=None)
        ends = version(number=2, until_ms=T0 + 60, open_from_ms=T0 + 50)
        amended = version(until_ms=T0 + 45, open_from_ms=T0 + 40)
        await catalog.write([JobWrite(job=paused, expected=stored, ends=ends, amends=(amended,))], term=None)
        assert await catalog.versions("job_a") == [amended, ends]
        assert sorted(one.version for one in await catalog.ended_versions(limit=9)) == [1, 2]

    @on_state
    async def test_c6_a_workspace_comes_back_as_it_was_set(self, build: BuildStorage) -> None:
        """C6: every field survives the process; one that nobody set is ``None``; all are listed by name."""
        full = Workspace(name="blau", suspended=True, reason="Wartung ü", quota=Quota(max=7, blocking=False), concurrency=3)
        plain = Workspace(name="aqua")
        blocked = Workspace(name="zinc", quota=Quota(max=0))
        async with opened(build) as storage:
            assert await storage.catalog.workspaces() == []
            for one in (full, blocked, plain):
                await storage.catalog.set_workspace(one, expected=None, term=0)
            assert await storage.catalog.workspace("blau") == full
        async with opened(build) as storage:
            assert await storage.catalog.workspace("blau") == full
            assert await storage.catalog.workspace("default") is None
            assert await storage.catalog.workspaces() == [plain, full, blocked]

    @on_storage
    async def test_c6_a_workspace_changes_from_what_was_read(self, storage: Storage) -> None:
        """C6: set where it is exactly what the caller read, else ``StaleWriteError`` and nothing changes; to no limits too."""
        catalog = storage.catalog
        first = Workspace(name="blue", quota=Quota(max=7), concurrency=3, reason="why")
        with pytest.raises(StaleWriteError):
            await catalog.set_workspace(first, expected=first, term=0)
        assert await catalog.workspace("blue") is None
        await catalog.set_workspace(first, expected=None, term=0)
        for other in (
            None,
            replace(first, suspended=True),
            replace(first, reason=""),
            replace(first, concurrency=None),
            replace(first, concurrency=4),
            replace(first, quota=None),
            replace(first, quota=Quota(max=8)),
            replace(first, quota=Quota(max=7, blocking=False)),
        ):
            with pytest.raises(StaleWriteError):
                await catalog.set_workspace(replace(first, concurrency=9), expected=other, term=0)
            assert await catalog.workspace("blue") == first
        bare = Workspace(name="blue")
        await catalog.set_workspace(bare, expected=first, term=0)
        assert await catalog.workspace("blue") == bare
        await catalog.set_workspace(replace(bare, suspended=True), expected=bare, term=0)
        assert await catalog.workspaces() == [replace(bare, suspended=True)]

    @on_storage
    async def test_c6_a_workspace_under_another_term_is_refused(self, storage: Storage) -> None:
        """C6: a term that is not the stored one raises ``TermRefusedError`` and changes nothing."""
        catalog = storage.catalog
        await catalog.swap_term(await catalog.read_term(), TermRecord(term=5, holder="h"))
        with pytest.raises(TermRefusedError):
            await catalog.set_workspace(Workspace(name="blue"), expected=None, term=4)
        assert await catalog.workspaces() == []
        await catalog.set_workspace(Workspace(name="blue"), expected=None, term=5)
        assert await catalog.workspaces() == [Workspace(name="blue")]
