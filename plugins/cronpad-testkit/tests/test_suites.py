"""The suites catch what they are for: stores, policies and sinks that break a promise, and tests that are left out."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cronpad_core.api import (
    Claimed,
    Delivered,
    Delivery,
    Entry,
    Lease,
    LeaseState,
    Millis,
    MissedWindow,
    Move,
    MoveAnswer,
    OpenDecision,
    OpenRequest,
    Outcome,
    RecordAnswer,
    RecordRequest,
    ReplayPlan,
    SlotRange,
    StorageOptions,
    TermRecord,
)
from cronpad_core.builtin.memory import KEEP, MemoryState, MemoryStorage
from cronpad_core.builtin.memory_catalog import MemoryCatalog
from cronpad_core.builtin.memory_history import MemoryHistory
from cronpad_core.builtin.memory_queue import MemoryQueue
from cronpad_testkit.suites import CatalogSuite, HistorySuite, MisfirePolicySuite, NewState, QueueStoreSuite, SinkCase, SinkSuite
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
    """Mutants of the catalog fail the tests of C1 and C3."""
    mutants: list[tuple[type[MemoryCatalog], str]] = [(_SwapsByTerm, "c1"), (_MovesAnyVersion, "c3")]
    for broken, promise in mutants:

        def build(storage: MemoryStorage, broken: type[MemoryCatalog] = broken) -> object:
            return broken(storage.state.catalog)

        failed = _failures(_Catalog(), _states("catalog", build))
        assert any(promise in name for name in failed), failed


def test_a_broken_history_fails() -> None:
    """Mutants of the history fail the tests of H3, H5 and H6."""
    mutants: list[tuple[type[MemoryHistory], str]] = [(_RecordsAnybody, "h3"), (_OpensCovered, "h6"), (_KeepsNothing, "h5")]
    for broken, promise in mutants:

        def build(storage: MemoryStorage, broken: type[MemoryHistory] = broken) -> object:
            return broken(storage.state.history, keep=KEEP)

        failed = _failures(_History(), _states("history", build))
        assert any(promise in name for name in failed), failed


def test_a_whole_store_fails_nothing() -> None:
    """The reference itself passes when it is put together the same way."""
    assert not _failures(_Queue(), _states("queue", lambda storage: storage.queue), without=_MODEL)


class _TooOld:
    name, api = "too_old", 1

    def decide(self, window: MissedWindow) -> ReplayPlan:
        return ReplayPlan(first_ms=window.first_ms, until_ms=window.newest_ms)


class _Walks:
    name, api = "walks", 1

    def decide(self, window: MissedWindow) -> ReplayPlan:
        slot = window.earliest_ms
        for _ in range(5_000):
            slot = None if slot is None else window.next_after(slot)
        return ReplayPlan()


class _Moody:
    name, api = "moody", 1
    answers = itertools.cycle([True, False])

    def decide(self, window: MissedWindow) -> ReplayPlan:
        if window.earliest_ms is None or next(self.answers):
            return ReplayPlan()
        return ReplayPlan(first_ms=window.newest_ms, until_ms=window.newest_ms)


def test_a_broken_policy_fails() -> None:
    """Policies that choose what is too old, walk the window, or change their mind fail M2, M3 and M1."""

    class Policies(MisfirePolicySuite):
        pass

    with pytest.raises((AssertionError, ExceptionGroup)):
        Policies().test_m2_what_is_chosen_are_slots_of_the_window(_TooOld)
    with pytest.raises(AssertionError):
        Policies().test_m3_two_weeks_of_seconds_are_decided_by_few_questions(_Walks)
    with pytest.raises(AssertionError):
        Policies().test_m1_the_same_window_gives_the_same_plan(_Moody)


def test_leaving_a_promise_out_is_noticed() -> None:
    """Removed, replaced and skipped tests fail the guard; an xfail with a reason does not; unknown capabilities do."""

    class Removed(QueueStoreSuite):
        test_q1_put_twice_moves_and_never_duplicates = None  # type: ignore[assignment]  # this is what is refused

    class Replaced(QueueStoreSuite):
        def test_q1_put_twice_moves_and_never_duplicates(self, new_state: NewState) -> None:
            pass

    class Skipped(QueueStoreSuite):
        @pytest.mark.skip(reason="no time")
        def test_q1_put_twice_moves_and_never_duplicates(self, new_state: NewState) -> None:
            pass

    class NoReason(QueueStoreSuite):
        @pytest.mark.xfail
        def test_q1_put_twice_moves_and_never_duplicates(self, new_state: NewState) -> None:
            pass

    class Unknown(QueueStoreSuite):
        capabilities = frozenset({"shard"})

    for refused in (Removed, Replaced, Skipped, NoReason, Unknown):
        with pytest.raises(AssertionError):
            refused().test_no_promise_is_left_out_silently()

    class Excused(QueueStoreSuite):
        @pytest.mark.xfail(reason="issue 12")
        def test_q1_put_twice_moves_and_never_duplicates(self, new_state: NewState) -> None:
            super().test_q1_put_twice_moves_and_never_duplicates(new_state)

    Excused().test_no_promise_is_left_out_silently()
    with pytest.raises(TypeError, match="watches over"):

        class Blind(QueueStoreSuite):
            def test_no_promise_is_left_out_silently(self) -> None:
                pass


class _Settings:
    """Stands in for a pydantic model: ``mode`` alone is known."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    @classmethod
    def model_validate(cls, values: dict[str, Any]) -> _Settings:
        for key in values:
            if key != "mode":
                raise ValueError(f"unknown key {key}")
        return cls(values["mode"])

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "object"}


class _Good:
    name, api, capabilities, Settings = "good", 1, frozenset({"cancel"}), _Settings

    def __init__(self, context: object) -> None:
        self.closed = False

    async def deliver(self, delivery: Delivery) -> Outcome:
        from cronpad_core.api import Cancelled, Failed

        mode = delivery.settings.mode  # type: ignore[attr-defined]  # a test's settings
        if mode == "hang":
            await delivery.cancel.wait()
            return Cancelled(reason="asked to")
        return Delivered() if mode == "ok" else Failed(reason="exit 1")

    async def close(self) -> None:
        self.closed = True


class _Raises(_Good):
    async def deliver(self, delivery: Delivery) -> Outcome:
        raise OSError("no route to host")


class _Deaf(_Good):
    async def deliver(self, delivery: Delivery) -> Outcome:
        await asyncio.sleep(3_600)
        return Delivered()


class _Litters(_Good):
    tasks: list[asyncio.Task[None]] = []  # noqa: RUF012  # shared on purpose

    async def deliver(self, delivery: Delivery) -> Outcome:
        self.tasks.append(asyncio.create_task(asyncio.sleep(3_600)))
        return Delivered()


class TestGoodSink(SinkSuite):
    """The suite passes for a sink that does as it should."""

    @pytest.fixture
    def sink_case(self) -> SinkCase:
        """A sink without any work."""
        return _case(_Good)


def _case(kind: type[_Good]) -> SinkCase:
    return SinkCase(type=kind, succeeds={"mode": "ok"}, fails={"mode": "bad"}, hangs={"mode": "hang"})


def test_a_broken_sink_fails() -> None:
    """Sinks that raise, do not hear, or leave tasks behind fail K1 and K2."""

    class Sinks(SinkSuite):
        stop_within_s = 0.2

    with pytest.raises(OSError, match="no route"):
        Sinks().test_k1_work_that_fails_is_an_answer(_case(_Raises))
    with pytest.raises(pytest.fail.Exception, match="still going on"):
        Sinks().test_k2_a_delivery_ends_when_it_is_asked_to(_case(_Deaf), ["stop", "kill"])
    with pytest.raises(AssertionError, match="left running"):
        Sinks().test_k2_nothing_is_left_behind(_case(_Litters))
