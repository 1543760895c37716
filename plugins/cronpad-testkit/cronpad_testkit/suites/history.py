"""The promises of a history, all together; here those of recording and ending runs, and reading them."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest

from cronpad_core.api import (
    AttemptStatus,
    EndRequest,
    OpenKind,
    RecordKind,
    RetryPlan,
    RunStatus,
    Storage,
    StreamCapture,
    run_id_for,
)
from cronpad_testkit.samples import T0, fence, key, opening, result, slot, spec
from cronpad_testkit.suites.catalog import check_terms
from cronpad_testkit.suites.history_alerts import HistoryAlertsSuite
from cronpad_testkit.suites.history_asked import HistoryAskedSuite
from cronpad_testkit.suites.history_backfills import HistoryBackfillsSuite
from cronpad_testkit.suites.history_cuts import HistoryCutsSuite
from cronpad_testkit.suites.history_keeping import HistoryKeepingSuite
from cronpad_testkit.suites.history_limits import HistoryLimitsSuite
from cronpad_testkit.suites.history_open import HistoryOpenSuite
from cronpad_testkit.suites.history_ranges import HistoryRangesSuite
from cronpad_testkit.suites.history_waiting import HistoryWaitingSuite
from cronpad_testkit.suites.history_walk import check_by_walking
from cronpad_testkit.suites.storage import BuildStorage, NewState, on_state, on_storage, opened

__all__ = ["HistorySuite"]

_FAILED = (RunStatus.FAILED, AttemptStatus.FAILED)
_RETRYING = (RunStatus.RETRYING, AttemptStatus.FAILED)
_STOPPED = (RunStatus.RUNNING, AttemptStatus.INTERRUPTED)


def _end(status: RunStatus = RunStatus.CANCELLED, *, was: RunStatus = RunStatus.RETRYING, number: int = 2) -> EndRequest:
    return EndRequest(
        key=key(), was=was, attempt=0, fence=fence(number), status=status, reason="the job was deleted", now_ms=T0 + 9_000
    )


class HistorySuite(
    HistoryOpenSuite,
    HistoryLimitsSuite,
    HistoryWaitingSuite,
    HistoryRangesSuite,
    HistoryCutsSuite,
    HistoryAskedSuite,
    HistoryBackfillsSuite,
    HistoryKeepingSuite,
    HistoryAlertsSuite,
):
    """Adopt with the fixture ``new_state``; see the README of cronpad-testkit. ``walks`` sizes the random walk."""

    walks: ClassVar[int] = 100

    @on_storage
    async def test_c1_the_record_of_the_holder_is_swapped_whole(self, storage: Storage) -> None:
        """C1: history keeps the same record as control, by the same compare-and-set."""
        await check_terms(storage.history)

    @on_storage
    async def test_h1_a_terminal_status_never_changes(self, storage: Storage) -> None:
        """H1: after a run has ended neither opening, recording, ending nor raising its fence changes the row."""
        history = storage.history
        first = opening(slot(), 1)
        await history.open_runs([first])
        await history.record([result(first, *_FAILED, reason="exit 1")])
        ended = await history.run(key())
        assert ended is not None
        assert (ended.status, ended.reason, ended.finished_at_ms) == (RunStatus.FAILED, "exit 1", first.now_ms + 50)
        again = opening(slot(), 2)
        later = opening(slot(attempt=1), 3, term=2)
        assert [decision.kind for decision in await history.open_runs([again, later])] == [OpenKind.FINISHED] * 2
        answers = await history.record([result(again), result(later), result(first)])
        assert {answer.kind for answer in answers} == {RecordKind.STALE}
        assert {answer.status for answer in answers} == {RunStatus.FAILED}
        assert not await history.end(_end(was=RunStatus.RUNNING))
        assert not await history.raise_fence(key(), attempt=0, old=fence(1), new=fence(9))
        assert await history.run(key()) == ended
        assert await history.unfinished(after="", limit=9) == []

    @on_storage
    async def test_h3_a_result_changes_the_run_that_runs_it(self, storage: Storage) -> None:
        """H3: result, run and retry plan are stored together; the retry's result ends the run."""
        history = storage.history
        first = opening(slot(), 1)
        await history.open_runs([first])
        wanted = result(first, *_RETRYING, retry_at_ms=T0 + 60_000, reason="exit 3")
        output = (StreamCapture(name="stdout", total=9_000, head=b"\x00head\xff", tail=b"tail"),)
        wanted = replace(wanted, attempt=replace(wanted.attempt, output=output))
        (answer,) = await history.record([wanted])
        plan = RetryPlan(attempt=1, at_ms=T0 + 60_000)
        assert (answer.kind, answer.status, answer.retry) == (RecordKind.RECORDED, RunStatus.RETRYING, plan)
        run = await history.run(key())
        assert run is not None
        assert (run.status, run.attempt, run.retry) == (RunStatus.RETRYING, 0, plan)
        assert await history.attempts(run.id) == [wanted.attempt]
        second = opening(slot(attempt=1), 2)
        (decision,) = await history.open_runs([second])
        assert decision.kind is OpenKind.OPENED
        (answer,) = await history.record([result(second)])
        assert (answer.kind, answer.status, answer.retry) == (RecordKind.RECORDED, RunStatus.SUCCEEDED, None)
        run = await history.run(key())
        assert run is not None
        assert (run.status, run.attempt, run.retry) == (RunStatus.SUCCEEDED, 1, None)
        assert [row.attempt for row in await history.attempts(run.id)] == [0, 1]

    @on_storage
    async def test_h3_a_stale_result_is_kept_beside_the_run(self, storage: Storage) -> None:
        """H3: a result under an older fence, or of an older attempt, becomes a stale attempt row and changes nothing else."""
        history = storage.history
        old, new = opening(slot(), 1), opening(slot(), 1, term=2)
        await history.open_runs([old])
        await history.open_runs([new])
        before = await history.run(key())
        (answer,) = await history.record([result(old, reason="late")])
        assert (answer.kind, answer.status) == (RecordKind.STALE, RunStatus.RUNNING)
        assert await history.run(key()) == before
        rows = {row.fence: row for row in await history.attempts(run_id_for(key()))}
        assert {number: row.status for number, row in rows.items()} == {
            old.fence: AttemptStatus.STALE,
            new.fence: AttemptStatus.RUNNING,
        }
        assert (rows[old.fence].reason, rows[old.fence].exit_code) == ("late", 0)
        (answer,) = await history.record([result(old, reason="late")])
        assert answer.kind is RecordKind.STALE
        (answer,) = await history.record([result(new)])
        assert (answer.kind, answer.status) == (RecordKind.RECORDED, RunStatus.SUCCEEDED)
        (answer,) = await history.record([result(opening(slot(T0 + 9), 3))])
        assert (answer.kind, answer.status) == (RecordKind.STALE, None)

    @on_storage
    async def test_h3_an_interrupted_attempt_leaves_a_clean_run(self, storage: Storage) -> None:
        """H3: a result with status ``running`` keeps the run running, marked clean, and the next delivery is no crash."""
        history = storage.history
        first = opening(slot(), 1)
        await history.open_runs([first])
        (answer,) = await history.record([result(first, *_STOPPED)])
        assert (answer.kind, answer.status) == (RecordKind.RECORDED, RunStatus.RUNNING)
        run = await history.run(key())
        assert run is not None
        assert (run.status, run.clean) == (RunStatus.RUNNING, True)
        (decision,) = await history.open_runs([opening(slot(), 1, term=2)])
        assert decision.write is not None
        assert (decision.write.redeliveries, decision.write.clean) == (0, False)
        rows = await history.attempts(run.id)
        assert [row.status for row in rows] == [AttemptStatus.INTERRUPTED, AttemptStatus.RUNNING]
        assert rows[0] == result(first, *_STOPPED).attempt

    @on_storage
    async def test_h4_the_same_result_twice_changes_nothing(self, storage: Storage) -> None:
        """H4: recorded again, in another call or the same, a result answers ``ALREADY`` with the stored plan."""
        history = storage.history
        first, other = opening(slot(), 1), opening(slot(T0 + 1), 2)
        await history.open_runs([first, other])
        wanted = result(first, *_RETRYING, retry_at_ms=T0 + 60_000)
        done = result(other)
        answers = await history.record([wanted, wanted, done, done])
        assert [answer.kind for answer in answers] == [RecordKind.RECORDED, RecordKind.ALREADY] * 2
        before = await history.run(key())
        (again,) = await history.record([replace(wanted, retry=RetryPlan(attempt=1, at_ms=T0 + 99_000))])
        assert (again.kind, again.status) == (RecordKind.ALREADY, RunStatus.RETRYING)
        assert again.retry == RetryPlan(attempt=1, at_ms=T0 + 60_000)
        assert await history.run(key()) == before
        assert await history.attempts(run_id_for(key())) == [wanted.attempt]

    @on_storage
    async def test_h7_a_fence_is_raised_from_exactly_the_old_one(self, storage: Storage) -> None:
        """H7: run and attempt move to the newer fence once, only of the attempt that runs; the old one is stale from then on."""
        history = storage.history
        first = opening(slot(), 5)
        await history.open_runs([first])
        for attempt, old, new in ((0, 4, 9), (1, 5, 9), (0, 5, 3)):
            assert not await history.raise_fence(key(), attempt=attempt, old=fence(old), new=fence(new))
        assert not await history.raise_fence(key(T0 + 1), attempt=0, old=fence(5), new=fence(9))
        assert await history.raise_fence(key(), attempt=0, old=fence(5), new=fence(9))
        assert not await history.raise_fence(key(), attempt=0, old=fence(5), new=fence(10))
        run = await history.run(key())
        assert run is not None
        assert (run.fence, run.status) == (fence(9), RunStatus.RUNNING)
        assert [(row.fence, row.status) for row in await history.attempts(run.id)] == [(fence(9), AttemptStatus.RUNNING)]
        (decision,) = await history.open_runs([opening(slot(), 7)])
        assert decision.kind is OpenKind.STALE
        (answer,) = await history.record([result(first)])
        assert answer.kind is RecordKind.STALE
        (answer,) = await history.record([result(replace(first, fence=fence(9)))])
        assert (answer.kind, answer.status) == (RecordKind.RECORDED, RunStatus.SUCCEEDED)

    @on_storage
    async def test_h7_ending_without_another_attempt(self, storage: Storage) -> None:
        """H1, H7: a run ends only from the status and attempt that the caller saw and under no lower fence."""
        history = storage.history
        first = opening(slot(), 1)
        await history.open_runs([first])
        await history.record([result(first, *_RETRYING, retry_at_ms=T0 + 60_000)])
        before = await history.run(key())
        for refused in (_end(was=RunStatus.RUNNING), replace(_end(), attempt=1), _end(number=0), replace(_end(), key=key(7))):
            assert not await history.end(refused)
        assert await history.run(key()) == before
        assert await history.end(_end())
        run = await history.run(key())
        assert run is not None
        assert (run.status, run.reason, run.finished_at_ms) == (RunStatus.CANCELLED, "the job was deleted", T0 + 9_000)
        assert run.fence >= fence(1)
        assert not await history.end(_end())
        (decision,) = await history.open_runs([opening(slot(attempt=1), 9)])
        assert decision.kind is OpenKind.FINISHED

    @on_storage
    async def test_a_move_that_is_none_is_a_mistake(self, storage: Storage) -> None:
        """H1: recording or ending with a status that ``MOVES`` does not have raises ``ValueError`` and changes nothing."""
        history = storage.history
        first = opening(slot(), 1)
        await history.open_runs([first])
        before = await history.run(key())
        with pytest.raises(ValueError, match="skipped"):
            await history.record([result(first, RunStatus.SKIPPED)])
        with pytest.raises(ValueError, match="skipped"):
            await history.end(_end(RunStatus.SKIPPED, was=RunStatus.RUNNING))
        assert await history.run(key()) == before

    @on_storage
    async def test_reading_runs(self, storage: Storage) -> None:
        """``runs`` pages newest first by job and status; ``unfinished`` pages by id; neither repeats or leaves out one."""
        history = storage.history
        wide = spec(overlap=99)
        requests = [
            opening(slot(T0 + number // 2, job_id=f"job_{'ab'[number % 2]}"), number + 1, job_spec=wide) for number in range(20)
        ]
        await history.open_runs(requests)
        await history.record([result(request) for request in requests[:6]])
        runs = await history.runs(limit=99)
        assert runs == sorted(runs, key=lambda run: (run.created_at_ms, run.id), reverse=True)
        assert len(runs) == 20
        paged, before = [], None
        while page := await history.runs(before=before, limit=7):
            paged += page
            before = page[-1].id
        assert paged == runs
        mine = await history.runs(job_id="job_a", statuses=[RunStatus.SUCCEEDED], limit=2)
        assert mine == [run for run in runs if run.key.job_id == "job_a" and run.status is RunStatus.SUCCEEDED][:2]
        ids, after = [], ""
        while open_page := await history.unfinished(after=after, limit=4):
            ids += [run.id for run in open_page]
            after = ids[-1]
        assert ids == sorted(run.id for run in runs if run.status is RunStatus.RUNNING)
        assert await history.attempts("run_unknown") == []

    @on_state
    async def test_what_was_recorded_outlives_the_process(self, build: BuildStorage) -> None:
        """Runs, attempts and outputs are the same when they are read by the next process."""
        first = opening(slot(), 1)
        async with opened(build) as storage:
            await storage.history.open_runs([first, opening(slot(T0 + 1), 2)])
            await storage.history.record([result(first, *_RETRYING, retry_at_ms=T0 + 60_000)])
            runs = await storage.history.runs()
            attempts = await storage.history.attempts(run_id_for(key()))
        async with opened(build) as storage:
            assert await storage.history.runs() == runs
            assert await storage.history.attempts(run_id_for(key())) == attempts
            assert len(await storage.history.unfinished(after="", limit=9)) == 2

    def test_h1_to_h12_hold_whatever_is_done(self, new_state: NewState) -> None:
        """H1 to H4, H7 to H9, H12: random requests, openings, results, cancels, endings and fences keep every promise."""
        check_by_walking(new_state, examples=self.walks)
