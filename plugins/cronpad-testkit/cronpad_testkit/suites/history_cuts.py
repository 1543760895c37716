"""The promise H13 of a history: ranges that are cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cronpad_core.api import CutRequest, OpenKind, RangeRequest, SlotRange, Storage
from cronpad_testkit.samples import T0, opening, ranging, slot, spec
from cronpad_testkit.suites.storage import StorageSuite, on_storage

__all__ = ["HistoryCutsSuite"]


def _of(job_id: str, request: RangeRequest) -> RangeRequest:
    return replace(request, range=replace(request.range, job_id=job_id))


class HistoryCutsSuite(StorageSuite):
    """Cutting ranges; a part of ``HistorySuite``. Slots lie at each tenth millisecond."""

    @on_storage
    async def test_h13_ranges_are_cut_at_the_bound(self, storage: Storage) -> None:
        """H13: ranges that reach past the bound end there, later ones go; the answer is those rows as they were."""
        history = storage.history
        wanted = [ranging(T0, T0 + 30), ranging(T0 + 40, T0 + 60), ranging(T0 + 70, T0 + 90)]
        others = [ranging(T0, T0 + 90, number=2), _of("job_b", ranging(T0, T0 + 90))]
        first, second, third, *rest = await history.add_ranges([*wanted, *others], term=0)
        assert await history.cut_ranges([_cut(T0 + 90), _cut(T0 + 55, job_id="job_x"), _cut(T0, version=7)], term=0) == []
        assert await history.cut_ranges([_cut(T0 + 55)], term=0) == [second, third]
        assert await history.ranges("job_a") == [first, replace(second, last_ms=T0 + 55, count=2), rest[0]]
        assert await history.ranges("job_b") == rest[1:]
        assert await history.cut_ranges([_cut(T0 + 55)], term=0) == []
        both = [_cut(T0 + 30), _cut(T0 - 1, version=2)]
        assert await history.cut_ranges(both, term=0) == [replace(second, last_ms=T0 + 55, count=2), rest[0]]
        assert await history.ranges("job_a") == [first]

    @on_storage
    async def test_h13_a_slot_that_was_cut_away_can_run(self, storage: Storage) -> None:
        """H6, H13: slots after the bound open, or come into a new range; those up to it are covered as before."""
        history = storage.history
        await history.add_ranges([ranging(T0, T0 + 60)], term=0)
        await history.cut_ranges([_cut(T0 + 35)], term=0)
        requests = [opening(slot(T0 + offset), 1 + offset, job_spec=spec(overlap=99)) for offset in (30, 40)]
        assert [each.kind for each in await history.open_runs(requests)] == [OpenKind.COVERED, OpenKind.OPENED]
        written = await history.add_ranges([ranging(T0, T0 + 60)], term=0)
        assert sum(row.count for row in written) == 2
        assert sum(row.count for row in await history.ranges("job_a")) == 6

    @on_storage
    async def test_h13_counts_are_true_wherever_it_is_cut(self, storage: Storage) -> None:
        """H13: for each bound in and around ranges nothing reaches past it, and each count is that of the slots left."""
        history = storage.history
        bounds = range(-1, 66)
        wanted = [ranging(T0, T0 + 5), ranging(T0 + 8, T0 + 31), ranging(T0 + 33, T0 + 38), ranging(T0 + 40, T0 + 64)]
        await history.add_ranges([_of(f"job_{bound}", one) for bound in bounds for one in wanted], term=0)
        cuts = [_cut(T0 + bound, job_id=f"job_{bound}") for bound in bounds]
        await history.cut_ranges(cuts, term=0)
        for bound in bounds:
            rows = await history.ranges(f"job_{bound}")
            assert all(row.last_ms <= T0 + bound and row.count == _count(row.first_ms, row.last_ms) for row in rows), bound
            inside = [number for number in (0, 10, 20, 30, 40, 50, 60) if number <= bound]
            assert sum(row.count for row in rows) == len(inside), bound
            assert all(_has(rows, T0 + number) for number in inside), bound


def _count(first_ms: int, last_ms: int) -> int:
    return last_ms // 10 - (first_ms - 1) // 10


def _has(rows: Sequence[SlotRange], at_ms: int) -> bool:
    return any(row.first_ms <= at_ms <= row.last_ms for row in rows)


def _cut(last_ms: int, *, job_id: str = "job_a", version: int = 1) -> CutRequest:
    return CutRequest(job_id=job_id, version=version, last_ms=last_ms, slots=_count)
