"""The promise H11 of a history: what is pruned, and where the ledger begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cronpad_core.api import (
    AttemptStatus,
    BackfillStatus,
    CutRequest,
    HistoryStore,
    OpenRequest,
    OverlapPolicy,
    OverlapRule,
    Pruned,
    PruneRequest,
    RecordKind,
    RunKey,
    RunStatus,
    SkipReason,
    Storage,
    StreamCapture,
    TermRecord,
    TermRefusedError,
    Trigger,
    run_id_for,
)
from cronpad_testkit.samples import T0, backfill, key, opening, pending, ranging, result, slot, spec
from cronpad_testkit.suites.storage import BuildStorage, StorageSuite, on_state, on_storage, opened

__all__ = ["HistoryKeepingSuite"]

_WIDE = spec(overlap=99)


async def _end(history: HistoryStore, *requests: OpenRequest, output: int = 0) -> None:
    """Runs each to its end, with that many bytes of output."""
    kept = (StreamCapture(name="stdout", total=output, head=b"x" * output),) if output else ()
    for request in requests:
        await history.open_runs([request])
        done = result(request)
        await history.record([replace(done, attempt=replace(done.attempt, output=kept))])


def _slots(numbers: Sequence[int], job_id: str = "job_a") -> list[OpenRequest]:
    """One opening for each; a run of slot ``T0 + n`` is created at ``T0 + n + 1000``."""
    return [opening(slot(T0 + number, job_id=job_id), number + 100, job_spec=_WIDE) for number in numbers]


async def _left(history: HistoryStore, job_id: str = "job_a") -> list[int]:
    return sorted(run.key.scheduled_at_ms - T0 for run in await history.runs(job_id=job_id, limit=999))


async def _prune_all(history: HistoryStore, request: PruneRequest) -> list[Pruned]:
    """Prunes until there is no more, which must come to an end."""
    answers: list[Pruned] = []
    while not answers or answers[-1].more:
        answers.append(await history.prune(request, term=0))
        assert len(answers) < 100
    return answers


class HistoryKeepingSuite(StorageSuite):
    """Retention; a part of ``HistorySuite``. Slots of ranges lie at each tenth millisecond."""

    @on_storage
    async def test_h11_old_ended_runs_go(self, storage: Storage) -> None:
        """H11: ended runs that were created before the bound go, attempts included; the others stay as they were."""
        history = storage.history
        await _end(history, *_slots(range(5)), *_slots([1, 7], "job_b"))
        kept = {run.key: run for run in await history.runs(limit=99) if run.created_at_ms >= T0 + 1_003}
        assert len(kept) == 3
        attempts = {run.id: await history.attempts(run.id) for run in kept.values()}
        pruned = await history.prune(PruneRequest(before_ms=T0 + 1_003), term=0)
        assert pruned == Pruned(runs=4, ranges=0, more=False)
        assert {run.key: run for run in await history.runs(limit=99)} == kept
        for run in kept.values():
            assert await history.run(run.key) == run
            assert await history.attempts(run.id) == attempts[run.id]
        for number in range(3):
            run_id = run_id_for(key(T0 + number))
            assert await history.run(key(T0 + number)) is None
            assert await history.run_by_id(run_id) is None
            assert await history.attempts(run_id) == []
        assert await history.prune(PruneRequest(before_ms=T0 + 1_003), term=0) == Pruned(runs=0, ranges=0, more=False)
        assert await history.prune(PruneRequest(), term=0) == Pruned(runs=0, ranges=0, more=False)

    @on_storage
    async def test_h11_a_run_that_has_not_ended_stays(self, storage: Storage) -> None:
        """H11: pending, waiting, running and retrying runs never go, however old; later their results are recorded."""
        history = storage.history
        queued = spec(overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ONE))
        running, waiting = (opening(slot(T0 + number), number + 1, job_spec=queued) for number in range(2))
        retrying = opening(slot(job_id="job_b"), 3)
        await history.add_pending([pending()], term=0)
        await history.open_runs([running, waiting, retrying])
        await history.record([result(retrying, RunStatus.RETRYING, AttemptStatus.FAILED, retry_at_ms=T0 + 60_000)])
        before = await history.runs()
        assert {run.status for run in before} == {status for status in RunStatus if not status.terminal}
        everything = PruneRequest(before_ms=T0 + 10**9, keep=0, max_bytes=0)
        assert await history.prune(everything, term=0) == Pruned(runs=0, ranges=0, more=False)
        assert await history.runs() == before
        (answer,) = await history.record([result(running)])
        assert answer.kind is RecordKind.RECORDED
        assert (await history.prune(everything, term=0)).runs == 1
        assert len(await history.unfinished(after="", limit=9)) == 3
        (answer,) = await history.record([result(running)])
        assert (answer.kind, answer.status) == (RecordKind.STALE, None)

    @on_storage
    async def test_h11_the_run_at_which_an_open_backfill_stands_stays(self, storage: Storage) -> None:
        """H11: without its row nobody would know that this slot has been run; once the backfill moves on it goes like any other."""
        history = storage.history
        for at_ms in (T0, T0 + 1):
            await history.add_pending([pending(at_ms, trigger=Trigger.BACKFILL)], term=0)
            await _end(history, opening(slot(at_ms, trigger=Trigger.BACKFILL), at_ms - T0 + 1))
        stands = backfill(cursor_ms=T0)
        await history.add_backfill(stands, term=0)
        for everything in (PruneRequest(before_ms=T0 + 10**9), PruneRequest(keep=0), PruneRequest(max_bytes=0)):
            await _prune_all(history, everything)
            assert await _left(history) == [0]
        assert await history.move_backfill(replace(stands, status=BackfillStatus.FINISHED), expected=stands, term=0)
        assert (await history.prune(PruneRequest(keep=0), term=0)).runs == 1

    @on_storage
    async def test_h11_the_newest_ended_runs_of_each_job_are_kept(self, storage: Storage) -> None:
        """H11: ``keep`` counts the ended runs of each job, by creation and whatever their order of ending, skips included."""
        history = storage.history
        many = _slots(range(6))
        await history.open_runs(many)
        await history.record([result(request) for request in reversed(many[:5])])
        await history.open_runs([replace(request, skip=SkipReason.PLUGIN_UNAVAILABLE) for request in _slots([7])])
        await _end(history, *_slots([0, 1], "job_b"))
        pruned = await history.prune(PruneRequest(keep=3), term=0)
        assert pruned == Pruned(runs=3, ranges=0, more=False)
        assert await _left(history) == [3, 4, 5, 7]
        assert await _left(history, "job_b") == [0, 1]
        assert await history.prune(PruneRequest(keep=3), term=0) == Pruned(runs=0, ranges=0, more=False)
        assert (await history.prune(PruneRequest(keep=0), term=0)).runs == 5
        assert await _left(history) == [5]

    @on_storage
    async def test_h11_each_bound_is_enough(self, storage: Storage) -> None:
        """H11: what is too old goes although few are there, and what is too many although it is new."""
        history = storage.history
        await _end(history, *_slots(range(2)), *_slots([10, 11, 12], "job_b"))
        pruned = await history.prune(PruneRequest(before_ms=T0 + 1_001, keep=2), term=0)
        assert pruned == Pruned(runs=2, ranges=0, more=False)
        assert (await _left(history), await _left(history, "job_b")) == ([1], [11, 12])

    @on_storage
    async def test_h11_one_batch_at_a_time(self, storage: Storage) -> None:
        """H11: at most ``limit`` runs and ranges go in a call, and ``more`` says whether another would find more."""
        history = storage.history
        await _end(history, *_slots(range(5)))
        await history.add_ranges([ranging(T0 + 1_000 * n, T0 + 1_000 * n) for n in range(1, 4)], term=0)
        request = PruneRequest(before_ms=T0 + 9_000, limit=2)
        answers = [await history.prune(request, term=0) for _ in range(4)]
        assert answers == [
            Pruned(runs=2, ranges=2, more=True),
            Pruned(runs=2, ranges=1, more=True),
            Pruned(runs=1, ranges=0, more=False),
            Pruned(runs=0, ranges=0, more=False),
        ]
        await _end(history, *_slots([20, 21]))
        assert await history.prune(request, term=0) == Pruned(runs=2, ranges=0, more=False)

    @on_storage
    async def test_h11_old_ranges_go(self, storage: Storage) -> None:
        """H11: ranges that end before the bound go, and of each version all but the newest ``keep``."""
        history = storage.history
        other = ranging(T0, T0 + 60)
        written = [
            *(ranging(T0 + 100 * n, T0 + 100 * n + 50) for n in range(4)),
            ranging(T0, T0 + 50, number=2),
            replace(other, range=replace(other.range, job_id="job_b")),
        ]
        rows = await history.add_ranges(written, term=0)
        assert await history.prune(PruneRequest(before_ms=T0 + 50), term=0) == Pruned(runs=0, ranges=0, more=False)
        assert await history.prune(PruneRequest(before_ms=T0 + 51), term=0) == Pruned(runs=0, ranges=2, more=False)
        assert await history.ranges("job_a") == rows[1:4]
        assert await history.ranges("job_b") == rows[5:]
        assert await history.prune(PruneRequest(keep=2), term=0) == Pruned(runs=0, ranges=1, more=False)
        assert await history.ranges("job_a") == rows[2:4]
        assert await history.ranges("job_b") == rows[5:]

    @on_storage
    async def test_h11_the_ledger_begins_after_what_went(self, storage: Storage) -> None:
        """H11: it begins after every slot that was pruned, of runs, skips and ranges, and never later than what is kept."""
        history = storage.history
        await _end(history, *_slots([0, 10, 20, 30]))
        assert await history.ledger_from("job_a") is None
        await history.prune(PruneRequest(before_ms=T0 + 1_015), term=0)
        begins = await history.ledger_from("job_a")
        assert begins is not None
        assert T0 + 10 < begins <= T0 + 20
        await history.add_ranges([ranging(T0 + 40, T0 + 65), ranging(T0 + 75, T0 + 95)], term=0)
        await history.prune(PruneRequest(before_ms=T0 + 66, keep=2), term=0)
        begins = await history.ledger_from("job_a")
        assert begins is not None
        assert T0 + 65 < begins <= T0 + 75
        assert await history.ledger_from("job_b") is None

    @on_storage
    async def test_h11_the_ledger_does_not_go_back(self, storage: Storage) -> None:
        """H11: pruning a slot that lies before the begin, or a run that is no slot's, leaves the begin where it was."""
        history = storage.history
        await _end(history, *_slots([50]))
        await history.prune(PruneRequest(keep=0), term=0)
        begins = await history.ledger_from("job_a")
        await _end(history, *_slots([10]))
        asked = [
            pending(T0 + n, trigger=one) for n, one in ((900, Trigger.MANUAL), (901, Trigger.BACKFILL), (902, Trigger.RETRY))
        ]
        await history.add_pending([*asked, pending(job_id="job_b")], term=0)
        await _end(history, *(opening(slot(one.at_ms, trigger=one.trigger), 500 + n) for n, one in enumerate(asked)))
        await _end(history, opening(slot(job_id="job_b", trigger=Trigger.MANUAL), 600))
        assert (await history.prune(PruneRequest(keep=0), term=0)).runs == 5
        assert await history.ledger_from("job_a") == begins
        assert await history.ledger_from("job_b") is None

    @on_storage
    async def test_h11_a_ledger_begins_no_earlier_than_a_restore(self, storage: Storage) -> None:
        """``begin_ledger`` holds for every job, those that history does not know too; what begins later stays so."""
        history = storage.history
        await _end(history, *_slots([50]))
        await history.prune(PruneRequest(keep=0), term=0)
        own = await history.ledger_from("job_a")
        assert own is not None
        await history.begin_ledger(T0 + 20, term=0)
        assert (await history.ledger_from("job_a"), await history.ledger_from("job_x")) == (own, T0 + 20)
        await history.begin_ledger(T0 + 10, term=0)
        assert await history.ledger_from("job_x") == T0 + 20
        await history.begin_ledger(T0 + 900, term=0)
        assert (await history.ledger_from("job_a"), await history.ledger_from("job_x")) == (T0 + 900, T0 + 900)

    @on_storage
    async def test_h11_a_store_that_is_too_large_loses_the_oldest(self, storage: Storage) -> None:
        """H11: above ``max_bytes`` the oldest ended runs of all jobs go, no more than need be; below it none."""
        history = storage.history
        for number in range(30):
            await _end(history, *_slots([number], f"job_{number % 2}"), output=60_000)
        assert await history.prune(PruneRequest(max_bytes=10**9), term=0) == Pruned(runs=0, ranges=0, more=False)
        await _prune_all(history, PruneRequest(max_bytes=1_200_000, limit=3))
        left = sorted(run.key.scheduled_at_ms - T0 for run in await history.runs(limit=99))
        assert left == list(range(30 - len(left), 30)), "the newest stay"
        assert 10 <= len(left) <= 20, "60 kB each"
        answers = await _prune_all(history, PruneRequest(max_bytes=0))
        assert sum(answer.runs for answer in answers) == len(left)
        assert await history.runs() == []

    @on_state
    async def test_h11_what_went_stays_away(self, build: BuildStorage) -> None:
        """H11: for the next process too; the kept runs have their settings, and the key and token of a pruned one are free."""
        async with opened(build) as storage:
            await storage.history.add_pending([pending(token="t")], term=0)
            await _end(storage.history, opening(slot(trigger=Trigger.MANUAL), 1), *_slots([1, 2]))
            await storage.history.prune(PruneRequest(before_ms=T0 + 1_002), term=0)
            await storage.history.begin_ledger(T0 - 5, term=0)
            kept, begins = await storage.history.runs(), await storage.history.ledger_from("job_a")
            assert [run.key for run in kept] == [key(T0 + 2)]
        async with opened(build) as storage:
            assert await storage.history.runs() == kept
            assert await storage.history.ledger_from("job_a") == begins
            assert await storage.history.ledger_from("job_b") == T0 - 5
            (answer,) = await storage.history.add_pending([pending(token="t")], term=0)
            assert (answer.created, answer.run.key) == (True, RunKey(job_id="job_a", scheduled_at_ms=T0, trigger=Trigger.MANUAL))

    @on_storage
    async def test_h11_keeping_under_another_term_is_refused(self, storage: Storage) -> None:
        """H11, H13: a term that is not the stored one raises ``TermRefusedError`` and changes nothing."""
        history = storage.history
        await _end(history, *_slots([0]))
        (row,) = await history.add_ranges([ranging(T0 + 10, T0 + 40)], term=0)
        cut = CutRequest(job_id="job_a", version=1, last_ms=T0 + 20, slots=lambda first, last: 2)
        await history.swap_term(await history.read_term(), TermRecord(term=5, holder="h"))
        for refused in (
            history.prune(PruneRequest(keep=0), term=4),
            history.begin_ledger(T0 + 5, term=4),
            history.cut_ranges([cut], term=4),
        ):
            with pytest.raises(TermRefusedError):
                await refused
        assert (await _left(history), await history.ranges("job_a")) == ([0], [row])
        assert await history.ledger_from("job_a") is None
        assert await history.cut_ranges([cut], term=5) == [row]
        assert await history.prune(PruneRequest(keep=0), term=5) == Pruned(runs=1, ranges=1, more=False)
