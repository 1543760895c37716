"""Running a job now."""

from __future__ import annotations

import pytest
from office import T0, Failing, Office, declared

from cronpad_core.control.trigger import trigger
from cronpad_core.domain.errors import NotFoundError, StoreBusyError, TermRefusedError
from cronpad_core.domain.occurrence import Trigger
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.run import RunStatus


def test_a_manual_run_is_kept_then_queued_then_the_line_is_woken(office: Office) -> None:
    """The row is pending with its payload, its entry is due now, and the schedule stands where it stood."""
    office.apply(declared(text="every 1h"))
    before = office.job()
    office.now = T0 + 1_234
    answer = office.run(trigger(office.desk, before, payload={"n": [1, None]}))
    [run] = office.runs()
    assert answer.created and answer.run == run
    assert (run.status, run.key.trigger, run.payload) == (RunStatus.PENDING, Trigger.MANUAL, {"n": [1, None]})
    assert (run.key.scheduled_at_ms, run.slot_at_ms, run.job_version, run.spec) == (T0 + 1_234, T0 + 1_234, 1, before.spec)
    assert (f"{T0 + 1_234}|0|1|m", T0 + 1_234) in office.members()
    assert office.woken == [T0 + 1_234]
    assert office.job() == before
    office.work(T0 + 2_000)
    assert office.runs()[0].status is RunStatus.SUCCEEDED
    assert office.findings() == []


def test_the_same_token_is_the_same_run_and_no_token_is_another(office: Office) -> None:
    """Clicked twice in one millisecond: one run with a token, two runs with free milliseconds of their own without."""
    office.apply(declared())
    first, again = (office.run(trigger(office.desk, office.job(), token="t")) for _ in range(2))
    assert (first.created, again.created, again.run.id) == (True, False, first.run.id)
    others = [office.run(trigger(office.desk, office.job())).run.key.scheduled_at_ms for _ in range(2)]
    assert others == [T0 + 1, T0 + 2]
    assert len(office.runs()) == 3


def test_paused_and_completed_jobs_may_be_triggered_and_removed_ones_not(office: Office) -> None:
    """A manual run needs no schedule that goes on; a removed job has nothing to run."""
    office.apply(declared(), declared("b", "at 2026-01-01T00:00:05Z"))
    office.perform("job-pause", job="a")
    office.work(T0 + 6_000)
    assert office.job("b").status.value == "completed"
    for name in ("a", "b"):
        office.perform("trigger", job=name)
    office.work(T0 + 7_000)
    assert [run.status for name in ("a", "b") for run in office.runs(name)] == [RunStatus.SUCCEEDED] * 3
    office.apply(declared("b", "at 2026-01-01T00:00:05Z"))
    with pytest.raises(NotFoundError, match='"a" was removed'):
        office.run(trigger(office.desk, office.job()))


def test_a_queue_that_does_not_answer_undoes_nothing(office: Office) -> None:
    """The run is kept, so the answer is that there is one; asking again with the token queues it."""
    office.apply(declared(text="every 1h"))
    before = office.members()
    for error in (StoreBusyError("locked"), TermRefusedError("another came after")):
        desk = office.with_store(queue=Failing(office.queue, error, "put"))
        answer = office.run(trigger(desk, office.job(), token="t"))
        assert answer.run.status is RunStatus.PENDING
    assert office.members() == before and office.woken == []
    assert office.run(trigger(office.desk, office.job(), token="t")).run == answer.run
    assert len(office.members()) == len(before) + 1
    office.work(T0 + 1_000)
    assert office.run(trigger(office.desk, office.job(), token="t")).run.status is RunStatus.SUCCEEDED
    assert office.members() == before


def test_a_standby_and_a_failing_history_keep_nothing(office: Office) -> None:
    """Without the term, or without a row, there is no run and no entry, and the caller is told."""
    office.apply(declared(text="every 1h"))
    before = office.members()
    desk = office.with_store(history=Failing(office.history, StoreBusyError("full"), "add_pending"))
    with pytest.raises(StoreBusyError, match="full"):
        office.run(trigger(desk, office.job()))
    office.term = None
    with pytest.raises(TermRefusedError, match="stands by"):
        office.run(trigger(office.desk, office.job()))
    office.term = 6
    with pytest.raises(TermRefusedError):
        office.run(trigger(office.desk, office.job()))
    assert office.runs() == [] and office.members() == before


def test_an_overlap_of_its_own_takes_the_place_of_the_jobs_rule(office: Office) -> None:
    """A second manual run is skipped by the job's rule, and runs beside the first where it asks for that."""
    office.apply(declared(text="every 1h"))
    office.keeps_running = True
    rules = (None, None, OverlapRule(policy=OverlapPolicy.ALLOW, max=5))
    keys = [office.run(trigger(office.desk, office.job(), overlap=rule)).run.key for rule in rules]
    office.work(T0 + 1_000)
    statuses = [found.status for key in keys if (found := office.run(office.history.run(key))) is not None]
    assert statuses == [RunStatus.RUNNING, RunStatus.SKIPPED, RunStatus.RUNNING]
    assert office.job().spec.overlap.policy is OverlapPolicy.SKIP
