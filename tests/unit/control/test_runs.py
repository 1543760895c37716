"""Cancelling runs, and running them again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from office import T0, Office, declared

from cronpad_core.control.runs import cancel, retry
from cronpad_core.domain.errors import CronpadError, NotFoundError, TermRefusedError
from cronpad_core.domain.occurrence import Trigger
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.retry import RetryPlan
from cronpad_core.domain.run import AttemptStatus, Run, RunStatus

S = 1_000


def running(office: Office, **rest: Any) -> Run:
    """A scheduled run whose delivery runs."""
    office.apply(declared(**rest))
    office.keeps_running = True
    office.work(T0 + 10 * S)
    [run] = office.runs()
    assert run.status is RunStatus.RUNNING
    return run


def test_a_running_run_is_marked_and_its_delivery_told(office: Office) -> None:
    """The delivery is asked to stop, for the reason given; the run ends with what that delivery says."""
    run = running(office)
    office.delivering.add(run.key)
    answer = office.run(cancel(office.desk, run, reason="wrong file"))
    assert answer.told and answer.run.status is RunStatus.RUNNING and answer.run.cancel_requested
    assert office.told == [(run.key, "stop", "cancelled: wrong file")]
    office.end(run, RunStatus.CANCELLED, AttemptStatus.CANCELLED)
    assert office.runs()[0].status is RunStatus.CANCELLED


def test_a_running_run_that_nobody_here_delivers_stays_marked(office: Office) -> None:
    """Its process died: the answer says that nobody was told, and the mark waits for its entry."""
    run = running(office)
    answer = office.run(cancel(office.desk, run))
    assert not answer.told
    assert office.runs()[0].cancel_requested


def test_a_pending_run_ends_at_once_and_its_entry_is_dropped(office: Office) -> None:
    """Nothing is delivered of a run that was cancelled before it began."""
    office.apply(declared(text="every 1h"))
    office.perform("trigger", job="a")
    office.now += 5
    answer = office.run(cancel(office.desk, office.runs()[0], reason="no"))
    assert (answer.run.status, answer.run.reason, answer.told) == (RunStatus.CANCELLED, "cancelled: no", False)
    assert answer.run == office.runs()[0]
    assert answer.run.finished_at_ms == T0 + 5
    office.work(T0 + S)
    assert office.told == []
    assert [member for member, _ in office.members() if member.endswith("m")] == []


def test_a_run_that_waits_for_its_retry_or_its_turn_ends_at_once(office: Office) -> None:
    """No further attempt of it starts."""
    run = running(office, overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ONE))
    office.work(T0 + 20 * S)
    waiting = office.runs()[0]
    assert waiting.status is RunStatus.WAITING
    office.end(run, RunStatus.RETRYING, AttemptStatus.FAILED, RetryPlan(attempt=1, at_ms=T0 + 40 * S))
    for one in (waiting, run):
        answer = office.run(cancel(office.desk, one))
        assert (answer.run.status, answer.run.retry) == (RunStatus.CANCELLED, None)
    assert office.told == []


def test_a_run_that_has_ended_says_how(office: Office) -> None:
    """Cancelling it is refused with its status, its time and its reason, and changes nothing."""
    run = running(office)
    office.end(run)
    with pytest.raises(CronpadError, match=r"ended already: succeeded at 2026-01-01T00:00:10Z") as caught:
        office.run(cancel(office.desk, run))
    assert caught.value.exit_code == 1
    office.work(T0 + 20 * S)
    office.work(T0 + 30 * S)
    with pytest.raises(CronpadError, match=r"skipped at .* \(previous_run_in_progress\)"):
        office.run(cancel(office.desk, office.runs()[0]))
    assert not any(one.cancel_requested for one in office.runs())


def test_a_run_that_begins_while_it_is_cancelled_is_told(office: Office) -> None:
    """Between the mark and the end its entry came up: then its delivery is asked to stop."""
    office.apply(declared(text="every 1h"))
    office.perform("trigger", job="a")
    [run] = office.runs()
    office.delivering.add(run.key)
    marked: list[Run] = []

    class Racing:
        def __getattr__(self, name: str) -> Any:
            return getattr(office.history, name)

        async def request_cancel(self, key: Any, *, term: int) -> Run | None:
            found = await office.history.request_cancel(key, term=term)
            assert found is not None
            marked.append(found)
            if len(marked) == 1:
                opened = replace(found, status=RunStatus.RUNNING, fence=5)
                office.storage.state.history.set_run(opened, keep=10)
            return found

    answer = office.run(cancel(office.with_store(history=Racing()), run))
    assert answer.told and answer.run.status is RunStatus.RUNNING
    assert len(marked) == 2


def test_a_retry_is_a_new_run_of_the_same_slot(office: Office) -> None:
    """Its sink sees the old slot and payload; its settings are the job's present ones; the old run stays as it was."""
    office.apply(declared(text="every 1h"))
    office.perform("trigger", job="a", payload={"k": "v"})
    office.keeps_running = True
    office.work(T0 + S)
    [old] = office.runs()
    office.end(old, RunStatus.POISONED, AttemptStatus.FAILED)
    office.apply(declared(text="every 1h", timeout_ms=5 * S))
    office.now = T0 + 30 * S
    answer = office.run(retry(office.desk, old))
    run = answer.run
    assert answer.created and run == office.runs()[0]
    assert (run.key.trigger, run.key.scheduled_at_ms, run.slot_at_ms) == (Trigger.RETRY, T0 + 30 * S, old.slot_at_ms)
    assert (run.retry_of, run.payload, run.job_version, run.spec.timeout_ms) == (old.id, {"k": "v"}, 2, 5 * S)
    assert (f"{T0 + 30 * S}|0|2|r", T0 + 30 * S) in office.members()
    assert office.runs()[1].status is RunStatus.POISONED
    assert office.woken[-1] == T0 + 30 * S


def test_a_retry_is_another_each_time_but_for_its_token(office: Office) -> None:
    """Two retries are two runs; the same token is the same one; a retry can be retried, and keeps the slot."""
    run = running(office)
    office.end(run)
    first, second, third = (office.run(retry(office.desk, run, token=token)) for token in (None, "t", "t"))
    assert (first.run.key.scheduled_at_ms + 1, second.run, third.created) == (second.run.key.scheduled_at_ms, third.run, False)
    office.keeps_running = False
    office.work(T0 + 15 * S)
    again = office.run(retry(office.desk, office.runs()[0]))
    assert again.run.slot_at_ms == run.slot_at_ms
    assert office.findings() == []


def test_only_what_has_ended_and_has_a_job_is_retried(office: Office) -> None:
    """A run that goes on is refused with its status; a removed job has nothing to run with; a standby keeps nothing."""
    run = running(office)
    with pytest.raises(CronpadError, match="has not ended: it is running"):
        office.run(retry(office.desk, run))
    office.end(run)
    office.term = None
    with pytest.raises(TermRefusedError):
        office.run(retry(office.desk, run))
    office.term = 7
    office.apply()
    with pytest.raises(NotFoundError, match='"a" was removed'):
        office.run(retry(office.desk, run))
    assert office.runs() == [office.run(office.history.run(run.key))]
