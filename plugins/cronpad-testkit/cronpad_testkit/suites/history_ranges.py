"""The promises H5 and H6 of a history: the ranges of the ledger."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cronpad_core.api import OpenKind, RangeKind, SlotRange, Storage, TermRecord, TermRefusedError, Trigger
from cronpad_testkit.samples import T0, key, opening, pending, ranging, result, slot, spec
from cronpad_testkit.suites.storage import NewState, StorageSuite, on_storage, run_on

__all__ = ["HistoryRangesSuite"]


def _bounds(rows: list[SlotRange]) -> list[tuple[int, int, int]]:
    return [(row.first_ms - T0, row.last_ms - T0, row.count) for row in rows]


class HistoryRangesSuite(StorageSuite):
    """Ranges of a history; a part of ``HistorySuite``. Slots here lie at each tenth millisecond."""

    @on_storage
    async def test_h5_a_range_counts_what_is_left_of_it(self, storage: Storage) -> None:
        """H5: without anything in its way a range is written whole, with its count, kind and reason."""
        history = storage.history
        (row,) = await history.add_ranges([ranging(T0, T0 + 95)], term=0)
        assert (row.first_ms, row.last_ms, row.count) == (T0, T0 + 95, 10)
        assert (row.job_id, row.version, row.kind, row.reason) == ("job_a", 1, RangeKind.MISSED, "the process was away")
        assert await history.ranges("job_a") == [row]
        assert await history.ranges("job_b") == []
        assert await history.add_ranges([ranging(T0 + 101, T0 + 109)], term=0) == []
        assert await history.ranges("job_a") == [row]

    @on_storage
    async def test_h5_a_range_leaves_out_what_has_an_outcome(self, storage: Storage) -> None:
        """H5: instants with an ``s`` run of any status, and ranges of the same version, are cut out; empty pieces are dropped."""
        history = storage.history
        running, done = opening(slot(T0 + 20), 1), opening(slot(T0 + 40), 2)
        manual, skipped = opening(slot(T0 + 70, trigger=Trigger.MANUAL), 3), opening(slot(T0 + 90), 4, job_spec=spec(overlap=1))
        stranger = opening(slot(T0 + 60, job_id="job_b"), 5)
        await history.add_pending([pending(T0 + 70), pending(T0 + 80)], term=0)
        await history.open_runs([running, done, manual, stranger, skipped])
        await history.record([result(done)])
        written = await history.add_ranges([ranging(T0 + 50, T0 + 50)], term=0)
        assert _bounds(written) == [(50, 50, 1)]
        written = await history.add_ranges([ranging(T0, T0 + 100)], term=0)
        assert _bounds(written) == [(0, 19, 2), (21, 39, 1), (51, 89, 3), (91, 100, 1)]
        assert _bounds(await history.ranges("job_a")) == [(0, 19, 2), (21, 39, 1), (50, 50, 1), (51, 89, 3), (91, 100, 1)]

    @on_storage
    async def test_h5_the_same_range_again_writes_nothing(self, storage: Storage) -> None:
        """H5: a decision that is repeated after a crash, whole or wider, adds only what was not there."""
        history = storage.history
        await history.add_ranges([ranging(T0, T0 + 30)], term=0)
        assert await history.add_ranges([ranging(T0, T0 + 30), ranging(T0 + 10, T0 + 15)], term=0) == []
        again = [ranging(T0, T0 + 50, kind=RangeKind.DROPPED), ranging(T0 + 20, T0 + 60)]
        assert _bounds(await history.add_ranges(again, term=0)) == [(31, 50, 2), (51, 60, 1)]

    @on_storage
    async def test_h5_versions_have_ranges_of_their_own(self, storage: Storage) -> None:
        """H5: a range of another version is no reason to cut; rows come by version and first instant."""
        history = storage.history
        await history.add_ranges([ranging(T0 + 50, T0 + 90, number=2), ranging(T0, T0 + 90)], term=0)
        await history.add_ranges([ranging(T0, T0 + 90, number=2)], term=0)
        rows = await history.ranges("job_a")
        assert [(row.version, row.first_ms - T0, row.last_ms - T0) for row in rows] == [(1, 0, 90), (2, 0, 49), (2, 50, 90)]
        assert await history.latest_version("job_a") == 2

    @on_storage
    async def test_h5_a_range_under_another_term_is_refused(self, storage: Storage) -> None:
        """H5: a term that is not the stored one raises ``TermRefusedError`` and writes nothing."""
        history = storage.history
        await history.swap_term(await history.read_term(), TermRecord(term=5, holder="h"))
        with pytest.raises(TermRefusedError):
            await history.add_ranges([ranging(T0, T0 + 30)], term=4)
        assert await history.ranges("job_a") == []
        assert len(await history.add_ranges([ranging(T0, T0 + 30)], term=5)) == 1

    @on_storage
    async def test_h6_a_covered_slot_is_not_opened(self, storage: Storage) -> None:
        """H6: from the first to the last instant of a range an ``s`` run of its version answers ``COVERED``; others open."""
        history = storage.history
        await history.add_ranges([ranging(T0, T0 + 30)], term=0)
        wide = spec(overlap=99)
        covered = [opening(slot(T0 + offset), 1 + offset, job_spec=wide) for offset in (0, 10, 30)]
        decisions = await history.open_runs(covered)
        assert [decision.kind for decision in decisions] == [OpenKind.COVERED] * 3
        assert await history.runs() == []
        free = [
            slot(T0 - 10),
            slot(T0 + 40),
            slot(T0 + 10, number=2),
            slot(T0 + 10, trigger=Trigger.MANUAL),
            slot(T0 + 10, job_id="job_b"),
        ]
        await history.add_pending([pending(T0 + 10, job_spec=wide)], term=0)
        decisions = await history.open_runs([opening(each, 50 + n, job_spec=wide) for n, each in enumerate(free)])
        assert [decision.kind for decision in decisions] == [OpenKind.OPENED] * 5
        assert await history.run(key(T0 + 20)) is None

    @on_storage
    async def test_the_latest_version_is_what_any_row_names(self, storage: Storage) -> None:
        """``latest_version`` looks at runs and ranges alike."""
        history = storage.history
        assert await history.latest_version("job_a") == 0
        await history.open_runs([opening(slot(number=4), 1)])
        assert await history.latest_version("job_a") == 4
        await history.add_ranges([ranging(T0 + 50, T0 + 60, number=6)], term=0)
        assert await history.latest_version("job_a") == 6
        assert await history.latest_version("job_b") == 0

    def test_h5_h6_every_slot_has_one_outcome_in_any_order(self, new_state: NewState) -> None:
        """H5, H6: whatever runs are opened and ranges written, no slot has two outcomes and the counts add up."""
        opens = st.tuples(st.just("open"), st.integers(0, 15), st.just(0))
        ranges = st.tuples(st.just("range"), st.integers(0, 15), st.integers(0, 15))

        @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(opens | ranges, max_size=12))
        def check(steps: list[tuple[str, int, int]]) -> None:
            run_on(new_state(), lambda storage: _check_outcomes(storage, steps))

        check()


async def _check_outcomes(storage: Storage, steps: list[tuple[str, int, int]]) -> None:
    history, wanted = storage.history, set()
    for number, (step, first, last) in enumerate(steps, 1):
        if step == "open":
            wanted.add(first)
            await history.open_runs([opening(slot(T0 + 10 * first), number, job_spec=spec(overlap=99))])
        else:
            wanted.update(range(first, last + 1))
            await history.add_ranges([ranging(T0 + 10 * first, T0 + 10 * last)], term=0)
    outcomes = [(run.key.scheduled_at_ms - T0) // 10 for run in await history.runs(limit=99)]
    for row in await history.ranges("job_a"):
        inside = [number for number in range(16) if row.first_ms <= T0 + 10 * number <= row.last_ms]
        assert len(inside) == row.count
        outcomes += inside
    assert sorted(outcomes) == sorted(wanted)
