"""The suites of the stores catch stores that break a promise, by the test that names it and by random operations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cronpad_core.api import (
    Backfill,
    Claimed,
    CutRequest,
    EndRequest,
    Entry,
    JobWrite,
    Lease,
    LeaseState,
    Millis,
    Move,
    MoveAnswer,
    OpenDecision,
    OpenKind,
    OpenRequest,
    OpenSnapshot,
    PendingAnswer,
    PendingRequest,
    Pruned,
    PruneRequest,
    RecordAnswer,
    RecordRequest,
    Run,
    RunKey,
    SlotRange,
    StorageOptions,
    TermRecord,
    Workspace,
    month_of,
)
from cronpad_core.builtin.memory import KEEP, MemoryState, MemoryStorage
from cronpad_core.builtin.memory_catalog import MemoryCatalog
from cronpad_core.builtin.memory_history import MemoryHistory
from cronpad_core.builtin.memory_queue import MemoryQueue
from cronpad_testkit.suites import CatalogSuite, HistorySuite, NewState, QueueStoreSuite
from cronpad_testkit.suites.history_walk import check_by_walking
from cronpad_testkit.suites.queue_machine import check_against_model
from cronpad_testkit.suites.suite import Suite


class _AckByMember(MemoryQueue):
    """No fence on ack."""

    async def ack(self, lease: Lease, *, retry: Entry | None = None) -> LeaseState:
        held = {entry.member: entry.fence for entry in await self.scan(after="", limit=99) if entry.in_flight}
        return await super().ack(replace(lease, fence=held.get(lease.member) or lease.fence), retry=retry)


class _Unsorted(MemoryQueue):
    """Claims in any order."""

    async def claim(self, **arguments: Any) -> list[Claimed]:
        return sorted(await super().claim(**arguments), key=lambda claimed: claimed.member)


class _AnyTerm(MemoryQueue):
    """Does not compare terms."""

    async def put(self, entries: Sequence[Entry], *, term: int) -> frozenset[str]:
        lock = (await self.look()).lock
        return await super().put(entries, term=lock.term if lock else term)


class _ReapsFences(MemoryQueue):
    """Clears the fence of a reaped entry."""

    async def reap(self, *, term: int, now_lease_ms: Millis, now_ms: Millis, limit: int) -> list[str]:
        members = await super().reap(term=term, now_lease_ms=now_lease_ms, now_ms=now_ms, limit=limit)
        due = {member: self._opened.due[member] for member in members}
        self._opened.due.update({member: replace(entry, fence=None) for member, entry in due.items()})
        return members


class _SparesNobody(MemoryQueue):
    """Requeues what is to be spared."""

    async def requeue(self, *, term: int, now_ms: Millis, limit: int, spare: Collection[str]) -> list[str]:
        return await super().requeue(term=term, now_ms=now_ms, limit=limit, spare=())


class _RenewsTheDead(MemoryQueue):
    """Renews an expired row."""

    async def renew(self, row: Any, *, now_lease_ms: Millis, heartbeat_ms: Millis) -> bool:
        return await super().renew(row, now_lease_ms=-1, heartbeat_ms=heartbeat_ms)


class _SwapsByTerm(MemoryCatalog):
    """Compares the number alone."""

    async def swap_term(self, expected: TermRecord, new: TermRecord) -> bool:
        stored = await self.read_term()
        return stored.term == expected.term and await super().swap_term(stored, new)


class _MovesAnyVersion(MemoryCatalog):
    """Does not compare versions."""

    async def move(self, moves: Sequence[Move]) -> list[MoveAnswer]:
        return await super().move([replace(move, version=1) for move in moves])


class _RecordsAnybody(MemoryHistory):
    """Records under the fence that it finds."""

    async def record(self, requests: Sequence[RecordRequest]) -> list[RecordAnswer]:
        found = []
        for request in requests:
            run = await self.run(request.key)
            fence = run.fence if run else 0
            found.append(replace(request, attempt=replace(request.attempt, fence=fence)))
        return await super().record(found)


class _OpensCovered(MemoryHistory):
    """Does not look at ranges when it opens."""

    async def open_runs(self, requests: Sequence[OpenRequest]) -> list[OpenDecision]:
        for rows in self._data.by_job.values():
            rows.ranges.clear()
        return await super().open_runs(requests)


class _KeepsNothing(MemoryHistory):
    """Writes ranges as they come."""

    async def add_ranges(self, requests: Sequence[Any], *, term: int) -> list[SlotRange]:
        for request in requests:
            rows = self._data.of_job(request.range.job_id)
            rows.slots.clear()
        return await super().add_ranges(requests, term=term)


class _AsksTwice(MemoryHistory):
    """Does not look at tokens."""

    async def add_pending(self, requests: Sequence[PendingRequest], *, term: int) -> list[PendingAnswer]:
        return await super().add_pending([replace(request, token=None) for request in requests], term=term)


class _CancelsTheEnded(MemoryHistory):
    """Marks ended runs too."""

    async def request_cancel(self, key: RunKey, *, term: int) -> Run | None:
        run = await super().request_cancel(key, term=term)
        if run is not None:
            self._data.runs[key] = run = replace(run, cancel_requested=True)
        return run


class _LosesProgress(MemoryHistory):
    """Moves a backfill from wherever it is."""

    async def move_backfill(self, backfill: Backfill, *, expected: Backfill, term: int) -> bool:
        stored = self._data.backfills.get(backfill.id, expected)
        return await super().move_backfill(backfill, expected=stored, term=term)


class _PrunesUnseen(MemoryHistory):
    """Does not move the begin of the ledger."""

    async def prune(self, request: PruneRequest, *, term: int) -> Pruned:
        begins = {job_id: rows.ledger_from for job_id, rows in self._data.by_job.items()}
        pruned = await super().prune(request, term=term)
        for job_id, at_ms in begins.items():
            self._data.by_job[job_id].ledger_from = at_ms
        return pruned


class _CountsAll(MemoryHistory):
    """Counts every opening."""

    async def open_runs(self, requests: Sequence[OpenRequest]) -> list[OpenDecision]:
        decisions = await super().open_runs(requests)
        for request, decision in zip(requests, decisions, strict=True):
            if decision.kind is OpenKind.OPENED and decision.run is not None and not decision.counted:
                self._data.used[decision.run.spec.workspace, month_of(request.now_ms)] += 1
        return decisions


class _CutsRoughly(MemoryHistory):
    """Leaves the count of a range that it cuts."""

    async def cut_ranges(self, requests: Sequence[CutRequest], *, term: int) -> list[SlotRange]:
        return await super().cut_ranges([replace(one, slots=lambda first, last: 3) for one in requests], term=term)


class _Overtakes(MemoryHistory):
    """Does not see who waits."""

    def _seen(self, request: OpenRequest) -> OpenSnapshot:
        return replace(super()._seen(request), waiting_before=0, waiting_after=0)


class _MarksNobody(MemoryHistory):
    """Lets a replaced run go on."""

    def _replace_running(self, run: Run) -> None:
        pass


class _Uncapped(MemoryHistory):
    """Counts the job alone."""

    def _seen(self, request: OpenRequest) -> OpenSnapshot:
        seen = super()._seen(request)
        return replace(seen, running_in={scope: seen.running_others for scope in seen.running_in})


class _SetsAnyWorkspace(MemoryCatalog):
    """Does not compare workspaces."""

    async def set_workspace(self, new: Workspace, *, expected: Workspace | None, term: int) -> None:
        await super().set_workspace(new, expected=await self.workspace(new.name), term=term)


class _AmendsNothing(MemoryCatalog):
    """Leaves bounds as they were."""

    async def write(self, writes: Sequence[JobWrite], *, term: int | None) -> None:
        await super().write([replace(one, amends=()) for one in writes], term=term)


def _states(part: str, broken: Callable[[MemoryStorage], object]) -> NewState:
    def state() -> Callable[[], MemoryStorage]:
        shared = MemoryState()

        def build() -> MemoryStorage:
            storage = MemoryStorage(StorageOptions(url="memory://", wall_ms=lambda: 0), state=shared)
            setattr(storage, part, broken(storage))
            return storage

        return build

    return state


class _Queue(QueueStoreSuite):
    capabilities = frozenset({"shared"})


class _Catalog(CatalogSuite):
    capabilities = frozenset({"shared"})


class _History(HistorySuite):
    capabilities = frozenset({"shared"})


def _failures(suite: Suite, new_state: NewState, *, without: str = "") -> list[str]:
    failed = []
    for name in dir(suite):
        if not name.startswith("test_") or name in (without, "test_no_promise_is_left_out_silently"):
            continue
        try:
            getattr(suite, name)(new_state)
        except pytest.skip.Exception:
            continue
        except (Exception, pytest.fail.Exception):
            failed.append(name)
    return failed


_WALK = "test_h1_to_h12_hold_whatever_is_done"
_MODEL = "test_the_store_equals_a_model_whatever_is_done_to_it"


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (_AckByMember, "q7"),
        (_Unsorted, "q2"),
        (_AnyTerm, "q5"),
        (_ReapsFences, "q8"),
        (_SparesNobody, "q11"),
        (_RenewsTheDead, "q13"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_queue_fails_the_test_of_its_promise(broken: type[MemoryQueue], promise: str) -> None:
    """Each mutant of the queue fails a test that names the broken promise."""
    failed = _failures(_Queue(), _states("queue", lambda storage: broken(storage.state.queue)), without=_MODEL)
    assert any(promise in name.split("_") for name in failed), failed


@pytest.mark.parametrize("broken", [_AckByMember, _Unsorted, _AnyTerm, _ReapsFences, _SparesNobody, _RenewsTheDead])
def test_a_broken_queue_fails_the_comparison_with_the_model(broken: type[MemoryQueue]) -> None:
    """Each mutant of the queue is also found by random operations within the CI's budget."""
    state = _states("queue", lambda storage: broken(storage.state.queue))
    with pytest.raises((Exception, pytest.fail.Exception)):  # any difference will do
        check_against_model(state, examples=150, steps=40, shrink=False)


def test_a_broken_catalog_fails() -> None:
    """Mutants of the catalog fail the tests of the promises that they break."""
    mutants: list[tuple[type[MemoryCatalog], str]] = [
        (_SwapsByTerm, "c1"),
        (_MovesAnyVersion, "c3"),
        (_AmendsNothing, "c5"),
        (_SetsAnyWorkspace, "c6"),
    ]
    for broken, promise in mutants:

        def build(storage: MemoryStorage, broken: type[MemoryCatalog] = broken) -> object:
            return broken(storage.state.catalog)

        failed = _failures(_Catalog(), _states("catalog", build))
        assert any(promise in name for name in failed), failed


_BROKEN: list[tuple[type[MemoryHistory], str]] = [
    (_RecordsAnybody, "h3"),
    (_OpensCovered, "h6"),
    (_KeepsNothing, "h5"),
    (_Overtakes, "h2"),
    (_MarksNobody, "h2"),
    (_Uncapped, "h2"),
    (_AsksTwice, "h8"),
    (_CancelsTheEnded, "h9"),
    (_LosesProgress, "h10"),
    (_PrunesUnseen, "h11"),
    (_CountsAll, "h12"),
    (_CutsRoughly, "h13"),
]


@pytest.mark.parametrize(("broken", "promise"), _BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_history_fails(broken: type[MemoryHistory], promise: str) -> None:
    """Each mutant of the history fails a test that names the broken promise."""
    new_state = _states("history", lambda storage: broken(storage.state.history, keep=KEEP))
    failed = _failures(_History(), new_state, without=_WALK)
    assert any(promise in name.split("_") for name in failed), failed


def test_a_broken_history_fails_the_walk() -> None:
    """Mutants of the history are also found by random steps."""

    class Forgets(MemoryHistory):
        """Leaves the attempts of earlier holders running."""

        async def open_runs(self, requests: Sequence[OpenRequest]) -> list[OpenDecision]:
            before = copy.deepcopy(self._data.attempts)
            decisions = await super().open_runs(requests)
            for run_id, rows in before.items():
                self._data.attempts[run_id].update(rows)
            return decisions

    class EndsLate(MemoryHistory):
        """Ends a run under a fence that is too low."""

        async def end(self, request: EndRequest) -> bool:
            return await super().end(replace(request, fence=request.fence + 1))

    for broken in (Forgets, EndsLate, _RecordsAnybody, _Overtakes, _MarksNobody, _AsksTwice, _CancelsTheEnded, _CountsAll):

        def build(storage: MemoryStorage, broken: type[MemoryHistory] = broken) -> object:
            return broken(storage.state.history, keep=KEEP)

        with pytest.raises((Exception, ExceptionGroup)):  # any difference will do
            check_by_walking(_states("history", build), examples=300, shrink=False)


def test_a_whole_store_fails_nothing() -> None:
    """The reference itself passes when it is put together the same way."""
    assert not _failures(_Queue(), _states("queue", lambda storage: storage.queue), without=_MODEL)
    assert not _failures(_History(), _states("history", lambda storage: storage.history), without=_WALK)
    assert not _failures(_Catalog(), _states("catalog", lambda storage: storage.catalog))
