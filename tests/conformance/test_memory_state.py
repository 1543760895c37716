"""What the memory storage promises beyond the ports: shared states, lost queues, and bounded growth."""

from __future__ import annotations

import asyncio
import copy

import pytest

from cronpad_core.api import Entry, NotFoundError, RunStatus, StateVanishedError, StorageOptions, StoreError, Trigger
from cronpad_core.builtin.memory import MemoryState, MemoryStorage, QueueFile
from cronpad_testkit.samples import T0, opening, pending, ranging, result, slot, spec
from cronpad_testkit.suites.queue_steps import lock_row, take_lock


def _storage(state: MemoryState | None = None, *, keep: int = 1_000, read_only: bool = False) -> MemoryStorage:
    return MemoryStorage(StorageOptions(url="memory://", wall_ms=lambda: 0, read_only=read_only), state=state, keep=keep)


def test_of_each_job_the_newest_ended_runs_and_ranges_are_kept() -> None:
    """A run that goes on for ever does not grow for ever; open runs stay, and the version number is remembered."""

    async def main() -> None:
        history = _storage(keep=10).history
        wide = spec(overlap=999)
        left_open = opening(slot(T0 - 10), 1, job_spec=wide)
        await history.open_runs([left_open])
        for number in range(1, 101):
            request = opening(slot(T0 + 10 * number), number + 1, job_spec=wide)
            await history.open_runs([request])
            await history.record([result(request)])
            await history.add_ranges([ranging(T0 + 10_000 * number, T0 + 10_000 * number)], term=0)
        other = opening(slot(T0, job_id="job_b", number=7), 500)
        await history.open_runs([other])
        await history.record([result(other)])
        ended = await history.runs(job_id="job_a", statuses=[RunStatus.SUCCEEDED], limit=999)
        assert [run.key.scheduled_at_ms for run in ended] == [T0 + 10 * number for number in range(100, 90, -1)]
        assert [run.key for run in await history.unfinished(after="", limit=9)] == [left_open.occurrence.key]
        assert len(await history.ranges("job_a")) == 10
        assert len(await history.attempts(ended[0].id)) == 1
        assert len(await history.runs(job_id="job_b")) == 1
        assert await history.latest_version("job_b") == 7

    asyncio.run(main())


def test_what_is_forgotten_moves_the_begin_of_the_ledger() -> None:
    """The ledger begins after every slot, of a run or a range, that was forgotten; a manual run takes its token with it."""

    async def main() -> None:
        history = _storage(keep=2).history
        await history.add_pending([pending(T0 + 900, token="t")], term=0)
        for number, occurrence in enumerate(
            [slot(T0 + 900, trigger=Trigger.MANUAL), slot(T0 + 20), slot(T0 + 10), slot(T0 + 30)]
        ):
            request = opening(occurrence, number + 1, job_spec=spec(overlap=9))
            await history.open_runs([request])
            await history.record([result(request)])
            assert await history.ledger_from("job_a") == (T0 + 21 if number == 3 else None)
        (answer,) = await history.add_pending([pending(T0 + 900, token="t")], term=0)
        assert answer.created
        await history.add_ranges([ranging(T0 + at, T0 + at + 5) for at in (40, 60, 80)], term=0)
        assert await history.ledger_from("job_a") == T0 + 46
        assert await history.ledger_from("job_b") is None

    asyncio.run(main())


def test_whoever_has_a_lost_queue_open_goes_on_with_it_unseen() -> None:
    """As with a deleted file: the old object still works, nobody else sees it, and an older copy may come back in its place."""

    async def main() -> None:
        state = MemoryState()
        one, two = _storage(state), _storage(state)
        for storage in (one, two):
            await storage.open()
            await storage.queue.open()
        await take_lock(one.queue)
        assert state.queue.file is not None
        backup = copy.deepcopy(state.queue.file)
        await one.queue.put([Entry(member="a", at_ms=1)], term=1)
        state.queue.delete()
        await one.queue.put([Entry(member="b", at_ms=1)], term=1)
        assert await two.queue.open() == "missing"
        assert await two.queue.contains(["a", "b"]) == frozenset()
        assert await one.queue.contains(["a", "b"]) == frozenset({"a", "b"})
        backup.identity = ""
        state.queue.set(backup)
        assert not one.queue.present()
        assert not await two.queue.verify()
        assert await one.queue.open() is None
        assert await one.queue.contains(["a"]) == frozenset()
        assert (await two.queue.look()).lock == lock_row(1)
        state.queue.set(QueueFile())
        assert await one.queue.open() == "missing"

    asyncio.run(main())


def test_a_state_can_vanish_and_must_exist_to_be_looked_at() -> None:
    """``read_only`` creates nothing; a vanished state is told by ``check``; a queue that is not open takes no writes."""

    async def main() -> None:
        state = MemoryState()
        with pytest.raises(NotFoundError):
            await _storage(state, read_only=True).open()
        storage = _storage(state)
        await storage.open()
        await _storage(state, read_only=True).open()
        await storage.check()
        with pytest.raises(StoreError):
            await storage.queue.put([], term=1)
        assert await storage.queue.earliest() is None
        state.vanished = True
        with pytest.raises(StateVanishedError):
            await storage.check()

    asyncio.run(main())


def test_two_storages_without_a_state_share_nothing() -> None:
    """Each ``:memory:`` is a world of its own."""
    assert _storage().state is not _storage().state
