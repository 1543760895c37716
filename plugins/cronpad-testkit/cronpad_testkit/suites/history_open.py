"""The promises H1 and H2 of a history: opening runs."""

from __future__ import annotations

from dataclasses import replace

from cronpad_core.api import (
    AttemptStatus,
    Guarantee,
    OpenKind,
    OpenSnapshot,
    RunStatus,
    SkipReason,
    Storage,
    Trigger,
    decide_open,
    run_id_for,
)
from cronpad_testkit.samples import T0, fence, key, opening, pending, result, slot, spec
from cronpad_testkit.suites.storage import StorageSuite, on_storage

__all__ = ["HistoryOpenSuite"]


class HistoryOpenSuite(StorageSuite):
    """Opening runs; a part of ``HistorySuite``."""

    @on_storage
    async def test_h1_a_run_is_unique_by_its_key(self, storage: Storage) -> None:
        """H1: job, instant and trigger name one run; another of any of them is another run; all are found by key and id."""
        slots = [
            slot(),
            slot(T0 + 1),
            slot(job_id="job_b"),
            slot(trigger=Trigger.MANUAL),
            slot(trigger=Trigger.BACKFILL),
            slot(trigger=Trigger.RETRY),
        ]
        wide = spec(overlap=99)
        asked = [pending(trigger=each.trigger, job_spec=wide) for each in slots if each.trigger is not Trigger.SCHEDULED]
        await storage.history.add_pending(asked, term=0)
        requests = [opening(each, number, job_spec=wide) for number, each in enumerate([*slots, slots[0]], 1)]
        decisions = await storage.history.open_runs(requests)
        assert [decision.kind for decision in decisions] == [OpenKind.OPENED] * 7
        assert decisions[-1].redelivery
        runs = await storage.history.runs(limit=99)
        assert {run.key for run in runs} == {each.key for each in slots}
        assert len(runs) == 6
        for run in runs:
            assert run.id == run_id_for(run.key)
            assert await storage.history.run(run.key) == run
            assert await storage.history.run_by_id(run.id) == run
        assert await storage.history.run(key(T0 + 77)) is None
        assert await storage.history.run_by_id("run_unknown") is None

    @on_storage
    async def test_h2_opening_writes_what_is_decided(self, storage: Storage) -> None:
        """H2: the row is exactly the decision's, the attempt runs under its fence with its times, and both can be read."""
        history = storage.history
        request = replace(opening(slot(), 1), held_since_ms=T0 + 2)
        (decision,) = await history.open_runs([request])
        assert decision == decide_open(request, OpenSnapshot(run=None, running_others=0, covered=False))
        assert await history.run(key()) == decision.write == decision.run
        (attempt,) = await history.attempts(run_id_for(key()))
        assert (attempt.attempt, attempt.fence, attempt.status) == (0, fence(1), AttemptStatus.RUNNING)
        assert (attempt.due_at_ms, attempt.claimed_at_ms, attempt.opened_at_ms, attempt.held_since_ms) == (
            request.due_at_ms,
            request.claimed_at_ms,
            request.now_ms,
            T0 + 2,
        )
        (twice,) = await history.open_runs([request])
        assert (twice.kind, twice.run, twice.redelivery) == (OpenKind.OPENED, decision.run, False)
        assert await history.attempts(run_id_for(key())) == [attempt]

    @on_storage
    async def test_h2_each_opening_sees_those_before_it(self, storage: Storage) -> None:
        """H2: limits count the running rows of the job, those of the same call included and the run itself not."""
        history = storage.history
        two = spec(overlap=2)
        slots = [slot(T0 + number) for number in range(3)]
        requests = [opening(each, number, job_spec=two) for number, each in enumerate(slots, 1)]
        other = opening(slot(job_id="job_b"), 9, job_spec=spec(overlap=None))
        decisions = await history.open_runs([*requests, other, opening(slots[0], 10, job_spec=two)])
        assert [decision.kind for decision in decisions] == [
            OpenKind.OPENED,
            OpenKind.OPENED,
            OpenKind.SKIPPED,
            OpenKind.OPENED,
            OpenKind.OPENED,
        ]
        skipped = await history.run(slots[2].key)
        assert skipped == decisions[2].write
        assert skipped is not None
        assert (skipped.status, skipped.skip_reason) == (RunStatus.SKIPPED, SkipReason.PREVIOUS_RUN_IN_PROGRESS)
        assert await history.attempts(skipped.id) == []
        await history.record([result(requests[1])])
        (third,) = await history.open_runs([opening(slot(T0 + 3), 11, job_spec=two)])
        assert third.kind is OpenKind.OPENED

    @on_storage
    async def test_h2_a_redelivery_interrupts_older_attempts(self, storage: Storage) -> None:
        """H2: an attempt opened again gets a row under the new fence, and its older running row becomes interrupted."""
        history = storage.history
        await history.open_runs([opening(slot(), 1)])
        (decision,) = await history.open_runs([opening(slot(), 1, term=2)])
        assert (decision.kind, decision.redelivery) == (OpenKind.OPENED, True)
        assert await history.run(key()) == decision.write
        assert [(row.fence, row.status) for row in await history.attempts(run_id_for(key()))] == [
            (fence(1), AttemptStatus.INTERRUPTED),
            (fence(1, term=2), AttemptStatus.RUNNING),
        ]

    @on_storage
    async def test_h2_a_run_that_cannot_be_repeated_ends(self, storage: Storage) -> None:
        """H2: where ``decide_open`` ends a run instead of opening it, its row is terminal and no attempt of it runs."""
        history = storage.history
        once = spec(guarantee=Guarantee.AT_MOST_ONCE)
        await history.open_runs([opening(slot(), 1, job_spec=once)])
        (decision,) = await history.open_runs([opening(slot(), 1, term=2, job_spec=once)])
        assert decision.kind is OpenKind.FINISHED
        assert await history.run(key()) == decision.write
        assert decision.write is not None
        assert decision.write.status is RunStatus.UNKNOWN
        rows = await history.attempts(run_id_for(key()))
        assert [row.status for row in rows] == [AttemptStatus.INTERRUPTED]
        assert await history.unfinished(after="", limit=9) == []
