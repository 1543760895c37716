"""The promises H8 and H9 of a history: runs that somebody asks for, and cancellations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronpad_core.api import (
    AttemptStatus,
    JsonValue,
    OpenKind,
    OverlapPolicy,
    OverlapRule,
    RecordKind,
    RetryPlan,
    Run,
    RunStatus,
    Storage,
    TermRecord,
    TermRefusedError,
    Trigger,
    run_id_for,
)
from cronpad_testkit.samples import T0, fence, key, opening, pending, ranging, result, slot, spec
from cronpad_testkit.suites.storage import BuildStorage, StorageSuite, on_state, on_storage, opened

__all__ = ["HistoryAskedSuite"]

_RETRYING = (RunStatus.RETRYING, AttemptStatus.FAILED)
_PAYLOAD: JsonValue = {"ünï": ["x", 1, 2.5, None, True, {"deep": {}}], "": "\x00\n", "big": 2**53}


class HistoryAskedSuite(StorageSuite):
    """Runs that people ask for and cancel; a part of ``HistorySuite``."""

    @on_storage
    async def test_h8_a_request_gets_a_row(self, storage: Storage) -> None:
        """H8: the row is pending, as it was asked for, and found like any other; nothing of it was opened."""
        history = storage.history
        request = replace(pending(T0 + 7, trigger=Trigger.RETRY, token="t"), retry_of="run_x", payload=_PAYLOAD, job_version=4)
        (answer,) = await history.add_pending([request], term=0)
        run_key = key(T0 + 7, trigger=Trigger.RETRY)
        expected = Run(
            id=run_id_for(run_key),
            key=run_key,
            job_version=4,
            spec=request.spec,
            status=RunStatus.PENDING,
            attempt=0,
            fence=0,
            slot_at_ms=T0,
            created_at_ms=T0 + 500,
            retry_of="run_x",
            payload=_PAYLOAD,
            token="t",
        )
        assert (answer.run, answer.created) == (expected, True)
        assert await history.run(run_key) == expected
        assert await history.run_by_id(expected.id) == expected
        assert await history.runs() == [expected]
        assert await history.unfinished(after="", limit=9) == [expected]
        assert await history.attempts(expected.id) == []
        assert await history.latest_version("job_a") == 4

    @on_storage
    async def test_h8_the_first_free_millisecond(self, storage: Storage) -> None:
        """H8: manual runs and retries step aside for runs of their own trigger and job, those of the same call included."""
        history = storage.history
        await history.open_runs([opening(slot(), 1)])
        await history.add_ranges([ranging(T0 + 10, T0 + 20)], term=0)
        await history.add_pending([pending(T0 + 2)], term=0)
        others = [pending(job_id="job_b"), pending(trigger=Trigger.RETRY), pending(trigger=Trigger.RETRY)]
        answers = await history.add_pending([pending(), pending(), pending(), *others, pending(T0 + 10)], term=0)
        assert all(answer.created for answer in answers)
        assert [answer.run.key for answer in answers] == [
            key(trigger=Trigger.MANUAL),
            key(T0 + 1, trigger=Trigger.MANUAL),
            key(T0 + 3, trigger=Trigger.MANUAL),
            key(job_id="job_b", trigger=Trigger.MANUAL),
            key(trigger=Trigger.RETRY),
            key(T0 + 1, trigger=Trigger.RETRY),
            key(T0 + 10, trigger=Trigger.MANUAL),
        ]
        assert len({answer.run.id for answer in answers}) == 7
        assert {answer.run.slot_at_ms for answer in answers} == {T0}

    @on_storage
    async def test_h8_a_backfill_is_at_its_slot(self, storage: Storage) -> None:
        """H8: a second backfill of a slot is answered with the first, as it stands; a scheduled run or a range is none."""
        history = storage.history
        await history.open_runs([opening(slot(), 1)])
        await history.add_ranges([ranging(T0 + 10, T0 + 20)], term=0)
        asked = [pending(at_ms, trigger=Trigger.BACKFILL, now_ms=at_ms + 5) for at_ms in (T0, T0 + 10, T0)]
        first, second, again = await history.add_pending(asked, term=0)
        assert (first.created, second.created, again.created) == (True, True, False)
        assert again.run == first.run
        request = opening(slot(trigger=Trigger.BACKFILL), 2)
        await history.open_runs([request])
        await history.record([result(request)])
        (after,) = await history.add_pending([replace(asked[0], payload=1, now_ms=T0 + 999)], term=0)
        assert not after.created
        assert after.run.status is RunStatus.SUCCEEDED
        assert after.run == await history.run(key(trigger=Trigger.BACKFILL))
        assert len(await history.runs(limit=9)) == 3

    @on_storage
    async def test_h8_a_token_names_one_run_of_its_job(self, storage: Storage) -> None:
        """H8: asked for again with its token, a run is answered as it stands, in the same call or later, ended or not."""
        history = storage.history
        first, again, other, stranger = await history.add_pending(
            [pending(token="t"), pending(T0 + 5, token="t"), pending(token="u"), pending(job_id="job_b", token="t")], term=0
        )
        assert [answer.created for answer in (first, again, other, stranger)] == [True, False, True, True]
        assert again.run == first.run
        assert (other.run.key, stranger.run.key.job_id) == (key(T0 + 1, trigger=Trigger.MANUAL), "job_b")
        request = opening(slot(trigger=Trigger.MANUAL), 1)
        await history.open_runs([request])
        await history.record([result(request)])
        (later,) = await history.add_pending([pending(T0 + 900, trigger=Trigger.RETRY, token="t")], term=0)
        assert not later.created
        assert later.run == await history.run(first.run.key)
        assert later.run.status is RunStatus.SUCCEEDED
        assert len(await history.runs(limit=9)) == 3

    @on_storage
    async def test_h8_a_pending_run_opens_as_it_was_asked_for(self, storage: Storage) -> None:
        """H2, H8: opening a pending run keeps its settings, payload and token; an entry without a row opens nothing."""
        history = storage.history
        asked = replace(pending(token="t", job_spec=spec("asked")), payload=_PAYLOAD, retry_of="run_x")
        (answer,) = await history.add_pending([asked], term=0)
        request = opening(slot(trigger=Trigger.MANUAL), 1, job_spec=spec("edited"))
        decision, nobody = await history.open_runs([request, opening(slot(T0 + 1, trigger=Trigger.MANUAL), 2)])
        assert (decision.kind, nobody.kind, nobody.run) == (OpenKind.OPENED, OpenKind.FINISHED, None)
        opened_run = replace(answer.run, status=RunStatus.RUNNING, fence=fence(1), opened_at_ms=request.now_ms)
        assert await history.run(opened_run.key) == opened_run == decision.run
        (attempt,) = await history.attempts(opened_run.id)
        assert (attempt.attempt, attempt.fence, attempt.status) == (0, fence(1), AttemptStatus.RUNNING)
        assert len(await history.runs()) == 1

    @on_state
    async def test_h8_what_was_asked_for_outlives_the_process(self, build: BuildStorage) -> None:
        """H8, H9: pending runs with any payload, and marks of cancelling, are there for the next process."""
        payloads: list[JsonValue] = [None, False, 0, "", [], {}, "true", 1.5, _PAYLOAD]
        asked = [replace(pending(T0 + number, token=f"t{number}"), payload=each) for number, each in enumerate(payloads)]
        async with opened(build) as storage:
            answers = await storage.history.add_pending(asked, term=0)
            assert [answer.run.payload for answer in answers] == payloads
            marked = await storage.history.request_cancel(answers[0].run.key, term=0)
        async with opened(build) as storage:
            for answer in answers[1:]:
                run = await storage.history.run(answer.run.key)
                assert run == answer.run
                assert repr(run.payload) == repr(answer.run.payload), "False and 0 are not the same"
            assert await storage.history.run(answers[0].run.key) == marked
            (again,) = await storage.history.add_pending([pending(T0 + 99, token="t3")], term=0)
            assert (again.run, again.created) == (answers[3].run, False)

    @on_storage
    async def test_h9_a_cancel_is_a_mark(self, storage: Storage) -> None:
        """H9: of a pending, waiting, running or retrying run the mark alone changes, once; the run is answered as stored."""
        history = storage.history
        queued = spec(overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=9))
        first = opening(slot(), 1, job_spec=queued)
        await history.open_runs([first, opening(slot(T0 + 1), 2, job_spec=queued)])
        await history.add_pending([pending()], term=0)
        retrying = opening(slot(job_id="job_b"), 3)
        await history.open_runs([retrying])
        await history.record([result(retrying, *_RETRYING, retry_at_ms=T0 + 60_000)])
        keys = [key(), key(T0 + 1), key(trigger=Trigger.MANUAL), key(job_id="job_b")]
        seen = []
        for each in keys:
            before = await history.run(each)
            assert before is not None
            seen.append(before.status)
            marked = replace(before, cancel_requested=True)
            assert await history.request_cancel(each, term=0) == marked
            assert await history.request_cancel(each, term=0) == marked
            assert await history.run(each) == marked
        assert seen == [RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PENDING, RunStatus.RETRYING]
        (attempt,) = await history.attempts(run_id_for(key()))
        assert attempt.status is AttemptStatus.RUNNING
        assert len(await history.unfinished(after="", limit=9)) == 4

    @on_storage
    async def test_h9_nothing_of_an_ended_run_changes(self, storage: Storage) -> None:
        """H9: an ended run is answered as it is; where there is no run the answer is ``None``."""
        history = storage.history
        done = opening(slot(), 1)
        await history.open_runs([done])
        await history.record([result(done)])
        before = await history.run(key())
        assert before is not None
        assert await history.request_cancel(key(), term=0) == before
        assert await history.run(key()) == before
        assert await history.request_cancel(key(T0 + 1), term=0) is None
        assert len(await history.runs()) == 1

    @on_storage
    async def test_h9_the_mark_stays_until_the_run_has_ended(self, storage: Storage) -> None:
        """H9: a newer lease, an interruption and a result that is retried leave the mark; the retry then ends as cancelled."""
        history = storage.history
        first = opening(slot(), 1)
        await history.open_runs([first])
        await history.request_cancel(key(), term=0)
        assert await history.raise_fence(key(), attempt=0, old=fence(1), new=fence(2))
        raised = replace(first, fence=fence(2))
        (answer,) = await history.record([result(raised, *_RETRYING, retry_at_ms=T0 + 60_000)])
        assert (answer.kind, answer.retry) == (RecordKind.RECORDED, RetryPlan(attempt=1, at_ms=T0 + 60_000))
        run = await history.run(key())
        assert run is not None
        assert (run.status, run.cancel_requested) == (RunStatus.RETRYING, True)
        (decision,) = await history.open_runs([opening(slot(attempt=1), 3)])
        assert (decision.kind, decision.write) == (OpenKind.FINISHED, await history.run(key()))
        assert decision.write is not None
        assert (decision.write.status, decision.write.cancel_requested) == (RunStatus.CANCELLED, True)
        assert len(await history.attempts(run.id)) == 1

    @on_storage
    async def test_h9_a_cancelled_run_that_nobody_runs_does_not_start(self, storage: Storage) -> None:
        """H2, H9: a pending run that was marked ends as cancelled when its entry comes up, without an attempt."""
        history = storage.history
        (answer,) = await history.add_pending([pending()], term=0)
        await history.request_cancel(answer.run.key, term=0)
        (decision,) = await history.open_runs([opening(slot(trigger=Trigger.MANUAL), 1)])
        assert decision.kind is OpenKind.FINISHED
        ended = await history.run(answer.run.key)
        assert ended == decision.write
        assert ended is not None
        assert ended.status is RunStatus.CANCELLED
        assert await history.attempts(ended.id) == []
        assert await history.unfinished(after="", limit=9) == []

    @on_storage
    async def test_asking_under_another_term_is_refused(self, storage: Storage) -> None:
        """H8, H9: a term that is not the stored one raises ``TermRefusedError`` and changes nothing."""
        history = storage.history
        (answer,) = await history.add_pending([pending()], term=0)
        await history.swap_term(await history.read_term(), TermRecord(term=5, holder="h"))
        for refused in (
            history.add_pending([pending()], term=4),
            history.request_cancel(answer.run.key, term=4),
            history.request_cancel(key(T0 + 9), term=4),
        ):
            with pytest.raises(TermRefusedError):
                await refused
        assert await history.runs() == [answer.run]
        assert len(await history.add_pending([pending()], term=5)) == 1
        assert await history.request_cancel(answer.run.key, term=5) == replace(answer.run, cancel_requested=True)
