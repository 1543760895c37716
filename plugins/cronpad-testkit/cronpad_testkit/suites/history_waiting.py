"""The promise H2 of a history where a run waits for its turn, or for the end of the run that it replaces."""

from __future__ import annotations

from dataclasses import replace

from cronpad_core.api import (
    AttemptStatus,
    HistoryStore,
    OpenDecision,
    OpenKind,
    OpenSnapshot,
    OverlapPolicy,
    OverlapRule,
    RunStatus,
    SkipReason,
    Storage,
    Trigger,
    decide_open,
    run_id_for,
)
from cronpad_testkit.samples import T0, fence, key, opening, pending, result, slot, spec
from cronpad_testkit.suites.storage import BuildStorage, StorageSuite, on_state, on_storage, opened

__all__ = ["HistoryWaitingSuite"]

_QUEUED = spec(overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=2))
_STOPS = spec(overlap=OverlapRule(policy=OverlapPolicy.CANCEL_RUNNING))
_KILLS = spec(overlap=OverlapRule(policy=OverlapPolicy.KILL_RUNNING))


async def _again(history: HistoryStore, at_ms: int, number: int) -> OpenDecision:
    """The entry of a waiting run comes up under another fence."""
    (decision,) = await history.open_runs([replace(opening(slot(at_ms), number), now_ms=T0 + 5_000)])
    return decision


class HistoryWaitingSuite(StorageSuite):
    """Runs that wait; a part of ``HistorySuite``."""

    @on_storage
    async def test_h2_a_waiting_run_is_a_row_of_its_own(self, storage: Storage) -> None:
        """H2: while one runs, up to ``max`` wait as rows without an attempt, one more is skipped; other jobs are not concerned."""
        history = storage.history
        requests = [opening(slot(T0 + number), number + 1, job_spec=_QUEUED) for number in range(4)]
        stranger = opening(slot(job_id="job_b"), 9, job_spec=_QUEUED)
        decisions = await history.open_runs([*requests, stranger])
        assert [decision.kind for decision in decisions] == [
            OpenKind.OPENED,
            OpenKind.WAITING,
            OpenKind.WAITING,
            OpenKind.SKIPPED,
            OpenKind.OPENED,
        ]
        seen = OpenSnapshot(run=None, running_others=1, covered=False, waiting_before=1)
        assert decisions[2] == decide_open(requests[2], seen)
        for decision, request in zip(decisions, requests, strict=False):
            assert await history.run(request.occurrence.key) == decision.write
        waiting = decisions[1].run
        assert waiting is not None
        assert (waiting.status, waiting.opened_at_ms, decisions[1].counted) == (RunStatus.WAITING, None, False)
        assert decisions[3].write is not None
        assert decisions[3].write.skip_reason is SkipReason.QUEUE_FULL
        assert await history.attempts(waiting.id) == []
        assert waiting in await history.unfinished(after="", limit=9)
        assert await history.runs(statuses=[RunStatus.WAITING]) == [decisions[2].run, waiting]

    @on_storage
    async def test_h2_the_oldest_waiting_run_is_next(self, storage: Storage) -> None:
        """H2: once none runs the one that was created first opens, in whichever order the entries come; the others wait on."""
        history = storage.history
        first, second, third = (opening(slot(T0 + number), number + 1, job_spec=_QUEUED) for number in range(3))
        await history.open_runs([first, second, third])
        before = await history.run(third.occurrence.key)
        assert (await _again(history, T0 + 1, 10)).kind is OpenKind.WAITING
        await history.record([result(first)])
        waits = await _again(history, T0 + 2, 11)
        assert (waits.kind, waits.write, waits.scope) == (OpenKind.WAITING, None, "job:job_a")
        assert await history.run(third.occurrence.key) == before
        opens = await _again(history, T0 + 1, 12)
        assert (opens.kind, opens.counted) == (OpenKind.OPENED, True)
        run = await history.run(second.occurrence.key)
        assert run == opens.write
        assert run is not None
        assert (run.status, run.fence, run.opened_at_ms, run.created_at_ms) == (
            RunStatus.RUNNING,
            fence(12),
            T0 + 5_000,
            second.now_ms,
        )
        assert [row.fence for row in await history.attempts(run.id)] == [fence(12)]
        assert (await _again(history, T0 + 2, 13)).kind is OpenKind.WAITING
        (late,) = await history.open_runs([opening(slot(T0 + 3), 14, job_spec=_QUEUED)])
        assert late.kind is OpenKind.WAITING
        await history.record([result(replace(second, fence=fence(12)))])
        assert (await _again(history, T0 + 2, 15)).kind is OpenKind.OPENED
        assert (await _again(history, T0 + 3, 16)).kind is OpenKind.WAITING

    @on_storage
    async def test_h2_of_two_created_at_once_the_lower_id_is_first(self, storage: Storage) -> None:
        """H2: the order of waiting runs is by creation, then by id."""
        history = storage.history
        first = opening(slot(), 1, job_spec=_QUEUED)
        pair = [replace(opening(slot(T0 + number), number + 1, job_spec=_QUEUED), now_ms=T0 + 9_000) for number in (1, 2)]
        await history.open_runs([first, *pair])
        await history.record([result(first)])
        lower, higher = sorted((one.occurrence for one in pair), key=lambda one: run_id_for(one.key))
        assert (await _again(history, higher.scheduled_at_ms, 11)).kind is OpenKind.WAITING
        assert (await _again(history, lower.scheduled_at_ms, 12)).kind is OpenKind.OPENED

    @on_storage
    async def test_h2_a_fresh_run_does_not_overtake_those_that_wait(self, storage: Storage) -> None:
        """H2: although none runs, a slot that comes up waits behind a waiting run, as a manual run of an earlier instant does."""
        history = storage.history
        first = opening(slot(), 1, job_spec=_QUEUED)
        await history.open_runs([first, opening(slot(T0 + 1), 2, job_spec=_QUEUED)])
        await history.record([result(first)])
        (fresh,) = await history.open_runs([opening(slot(T0 + 2), 3, job_spec=_QUEUED)])
        assert fresh.kind is OpenKind.WAITING
        await history.add_pending([pending(T0 - 9, now_ms=T0 + 8_000, job_spec=_QUEUED)], term=0)
        (asked,) = await history.open_runs([opening(slot(T0 - 9, trigger=Trigger.MANUAL), 4)])
        assert (asked.kind, asked.write and asked.write.skip_reason) == (OpenKind.SKIPPED, SkipReason.QUEUE_FULL)

    @on_state
    async def test_h2_waiting_outlives_the_process(self, build: BuildStorage) -> None:
        """H2: waiting runs keep their places for the next process."""
        first = opening(slot(), 1, job_spec=_QUEUED)
        async with opened(build) as storage:
            await storage.history.open_runs(
                [first, opening(slot(T0 + 1), 2, job_spec=_QUEUED), opening(slot(T0 + 2), 3, job_spec=_QUEUED)]
            )
            rows = await storage.history.runs()
        async with opened(build) as storage:
            history = storage.history
            assert await history.runs() == rows
            await history.record([result(first)])
            assert (await _again(history, T0 + 2, 11)).kind is OpenKind.WAITING
            assert (await _again(history, T0 + 1, 12)).kind is OpenKind.OPENED

    @on_storage
    async def test_h2_a_successor_marks_what_it_replaces(self, storage: Storage) -> None:
        """H2: all other running rows of the job are marked as asked to be cancelled; the successor and other jobs are not."""
        history = storage.history
        running = [opening(slot(T0 + number), number + 1) for number in range(2)]
        stranger = opening(slot(job_id="job_b"), 3, job_spec=_STOPS)
        retrying = opening(slot(T0 + 5), 4)
        await history.open_runs([*running, stranger, retrying])
        await history.record([result(retrying, RunStatus.RETRYING, AttemptStatus.FAILED, retry_at_ms=T0 + 60_000)])
        before = {run.key: run for run in await history.runs()}
        (decision,) = await history.open_runs([opening(slot(T0 + 9), 5, job_spec=_STOPS)])
        assert (decision.kind, decision.replaces) == (OpenKind.WAITING, "stop")
        marked = {request.occurrence.key for request in running}
        for run_key, run in before.items():
            assert await history.run(run_key) == replace(run, cancel_requested=run_key in marked)
        assert await history.run(key(T0 + 9)) == decision.write
        assert decision.write is not None
        assert not decision.write.cancel_requested
        for request in running:
            (row,) = await history.attempts(run_id_for(request.occurrence.key))
            assert (row.fence, row.status) == (request.fence, AttemptStatus.RUNNING)

    @on_storage
    async def test_h2_a_successor_waits_for_the_recorded_end(self, storage: Storage) -> None:
        """H2: it opens when the predecessor's end is recorded; of several that wait only the newest does, the others end."""
        history = storage.history
        first = opening(slot(), 1, job_spec=_KILLS)
        await history.open_runs([first])
        second, third = await history.open_runs([opening(slot(T0 + number), number + 1, job_spec=_KILLS) for number in (1, 2)])
        assert [(each.kind, each.replaces) for each in (second, third)] == [(OpenKind.WAITING, "kill")] * 2
        gone = await _again(history, T0 + 1, 11)
        assert (gone.kind, gone.write) == (OpenKind.FINISHED, await history.run(key(T0 + 1)))
        assert gone.write is not None
        assert gone.write.status is RunStatus.CANCELLED
        assert (await _again(history, T0 + 2, 12)).kind is OpenKind.WAITING
        await history.record([result(first, RunStatus.CANCELLED, AttemptStatus.CANCELLED)])
        opens = await _again(history, T0 + 2, 13)
        assert (opens.kind, opens.replaces) == (OpenKind.OPENED, None)
        run = await history.run(key(T0 + 2))
        assert run is not None
        assert (run.status, run.cancel_requested) == (RunStatus.RUNNING, False)
        assert [one.key for one in await history.unfinished(after="", limit=9)] == [key(T0 + 2)]
