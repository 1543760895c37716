"""The promise H10 of a history: backfills."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

import pytest

from cronpad_core.api import (
    Backfill,
    BackfillStatus,
    OverlapPolicy,
    OverlapRule,
    Storage,
    TermRecord,
    TermRefusedError,
)
from cronpad_testkit.samples import T0, backfill
from cronpad_testkit.suites.storage import BuildStorage, StorageSuite, on_state, on_storage, opened

__all__ = ["HistoryBackfillsSuite"]


class HistoryBackfillsSuite(StorageSuite):
    """Backfills; a part of ``HistorySuite``."""

    @on_storage
    async def test_h10_a_backfill_moves_from_what_was_read(self, storage: Storage) -> None:
        """H10: stored once by its id; progress is refused unless every field is what the caller read."""
        history = storage.history
        begun = replace(backfill(), overlap=OverlapRule(policy=OverlapPolicy.ALLOW, max=2))
        assert await history.add_backfill(begun, term=0)
        assert not await history.add_backfill(replace(begun, to_ms=T0 + 1), term=0)
        assert await history.backfills() == [begun]
        moved = replace(begun, cursor_ms=T0 - 800, started=1, passed=2)
        for other in (
            replace(begun, cursor_ms=T0),
            replace(begun, started=1),
            replace(begun, passed=1),
            replace(begun, status=BackfillStatus.CANCELLED),
            replace(begun, overlap=None),
            replace(begun, overlap=OverlapRule(policy=OverlapPolicy.ALLOW, max=3)),
            replace(begun, finished_at_ms=T0),
            replace(begun, job_version=4),
        ):
            assert not await history.move_backfill(moved, expected=other, term=0)
            assert await history.backfills() == [begun]
        assert await history.move_backfill(moved, expected=begun, term=0)
        assert not await history.move_backfill(moved, expected=begun, term=0)
        ended = replace(moved, status=BackfillStatus.FINISHED, finished_at_ms=T0 + 5_000, overlap=None)
        assert await history.move_backfill(ended, expected=moved, term=0)
        assert await history.backfills() == [ended]
        unknown = backfill("bf_x")
        assert not await history.move_backfill(unknown, expected=unknown, term=0)
        assert await history.backfills() == [ended]

    @on_storage
    async def test_h10_backfills_are_listed_newest_first(self, storage: Storage) -> None:
        """``backfills``: newest first by creation and id, of one job, those that are not finished, up to ``limit``."""
        history = storage.history
        stored = [
            backfill("bf_b", created_at_ms=T0 + 1),
            backfill("bf_a", created_at_ms=T0 + 2),
            backfill("bf_d", created_at_ms=T0, job_id="job_b"),
            backfill("bf_c", created_at_ms=T0 + 1),
        ]
        for one in stored:
            await history.add_backfill(one, term=0)
        for one, status in ((stored[1], BackfillStatus.CANCELLED), (stored[0], BackfillStatus.FINISHED)):
            await history.move_backfill(replace(one, status=status), expected=one, term=0)

        async def ids(found: Awaitable[list[Backfill]]) -> list[str]:
            return [one.id for one in await found]

        assert await ids(history.backfills()) == ["bf_a", "bf_c", "bf_b", "bf_d"]
        assert await ids(history.backfills(limit=2)) == ["bf_a", "bf_c"]
        assert await ids(history.backfills(job_id="job_a", limit=9)) == ["bf_a", "bf_c", "bf_b"]
        assert await ids(history.backfills(unfinished=True)) == ["bf_c", "bf_d"]
        assert await ids(history.backfills(unfinished=True, job_id="job_b")) == ["bf_d"]
        assert await ids(history.backfills(job_id="job_x")) == []

    @on_state
    async def test_h10_a_backfill_outlives_the_process(self, build: BuildStorage) -> None:
        """H10: every field is the same when it is read by the next process, and what was read there can be moved."""
        full = replace(
            backfill(),
            status=BackfillStatus.CANCELLED,
            overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=7),
            started=2,
            passed=3,
            finished_at_ms=T0 + 1,
        )
        async with opened(build) as storage:
            await storage.history.add_backfill(full, term=0)
            await storage.history.add_backfill(backfill("bf_b", created_at_ms=T0 - 1), term=0)
        async with opened(build) as storage:
            stored = await storage.history.backfills()
            assert stored == [full, backfill("bf_b", created_at_ms=T0 - 1)]
            assert await storage.history.move_backfill(replace(full, passed=4), expected=stored[0], term=0)

    @on_storage
    async def test_h10_a_backfill_under_another_term_is_refused(self, storage: Storage) -> None:
        """H10: a term that is not the stored one raises ``TermRefusedError`` and changes nothing."""
        history = storage.history
        await history.add_backfill(backfill(), term=0)
        await history.swap_term(await history.read_term(), TermRecord(term=5, holder="h"))
        moved = replace(backfill(), started=1)
        for refused in (
            history.add_backfill(backfill("bf_b"), term=4),
            history.add_backfill(backfill(), term=4),
            history.move_backfill(moved, expected=backfill(), term=4),
        ):
            with pytest.raises(TermRefusedError):
                await refused
        assert await history.backfills() == [backfill()]
        assert await history.add_backfill(backfill("bf_b", created_at_ms=T0 - 1), term=5)
        assert await history.move_backfill(moved, expected=backfill(), term=5)
        assert await history.backfills() == [moved, backfill("bf_b", created_at_ms=T0 - 1)]
