"""Which unfinished runs end at the gate, without another attempt; and which entry an unfinished run must have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronpad_core.api import (
    Job,
    JobSpec,
    JobStatus,
    Occurrence,
    RetryPlan,
    RetryRule,
    Run,
    RunStatus,
    ScheduleSpec,
    SinkSpec,
    Trigger,
    run_id_for,
)
from cronpad_core.domain.run import next_entry
from cronpad_core.engine.gate import ending

SPEC = JobSpec(
    name="a", schedule=ScheduleSpec(texts=("* * * * *",)), sink=SinkSpec(type="none"), retry=RetryRule(max=3, deadline_ms=60_000)
)
JOB = Job(id="job_a", origin="test", version=1, status=JobStatus.ACTIVE, spec=SPEC, next_run_at_ms=120_000, valid_from_ms=0)
SLOT = Occurrence(job_id="job_a", scheduled_at_ms=60_000, attempt=0, job_version=1, trigger=Trigger.SCHEDULED)
PAUSED, DELETED = replace(JOB, status=JobStatus.PAUSED), replace(JOB, status=JobStatus.DELETED)
UNFINISHED = [status for status in RunStatus if not status.terminal]


def a_run(status: RunStatus, *, attempt: int = 0, trigger: Trigger = Trigger.SCHEDULED) -> Run:
    """An unfinished run of the slot."""
    key = replace(SLOT, trigger=trigger).key
    return Run(
        id=run_id_for(key),
        key=key,
        job_version=1,
        spec=SPEC,
        status=status,
        attempt=attempt,
        fence=5,
        slot_at_ms=60_000,
        created_at_ms=60_001,
    )


@pytest.mark.parametrize("status", UNFINISHED)
def test_nothing_ends_while_its_job_is_active(status: RunStatus) -> None:
    """An active job's runs go on, whatever comes up."""
    assert ending(SLOT.with_attempt(1), a_run(status), JOB, 61_000) is None


@pytest.mark.parametrize("job", [None, DELETED])
@pytest.mark.parametrize("status", UNFINISHED)
def test_a_removed_job_ends_everything_that_comes_up(job: Job | None, status: RunStatus) -> None:
    """Waiting, pending, retrying, and an attempt whose holder has gone: cancelled."""
    assert ending(SLOT, a_run(status), job, 61_000) == (RunStatus.CANCELLED, "its job was removed")


def test_a_paused_job_ends_what_waits_and_lets_a_started_attempt_finish() -> None:
    """A started attempt is delivered again; a waiting run and the next attempt of a scheduled run end."""
    assert ending(SLOT, a_run(RunStatus.RUNNING), PAUSED, 61_000) is None
    assert ending(SLOT, a_run(RunStatus.WAITING), PAUSED, 61_000) == (RunStatus.CANCELLED, "its job was paused")
    retry = ending(SLOT.with_attempt(1), a_run(RunStatus.RETRYING), PAUSED, 61_000)
    assert retry == (RunStatus.FAILED, "its job was paused before the retry")


@pytest.mark.parametrize("trigger", [Trigger.MANUAL, Trigger.RETRY, Trigger.BACKFILL])
def test_a_pause_leaves_other_triggers_alone(trigger: Trigger) -> None:
    """Manual runs, manual retries and backfills are exempt."""
    for status in UNFINISHED:
        entry = replace(SLOT, trigger=trigger, attempt=1)
        assert ending(entry, a_run(status, trigger=trigger), PAUSED, 61_000) is None


def test_a_retry_after_its_deadline_does_not_start() -> None:
    """The deadline counts from the slot; the attempt that came up too late ends the run, another entry of it does not."""
    run = a_run(RunStatus.RETRYING)
    assert ending(SLOT.with_attempt(1), run, JOB, 120_000) is None
    assert ending(SLOT.with_attempt(1), run, JOB, 120_001) == (RunStatus.FAILED, "its retry deadline passed")
    assert ending(SLOT, run, JOB, 120_001) is None


def test_the_entry_that_an_unfinished_run_must_have() -> None:
    """A running attempt its own, due when it was opened; a retrying run that of its plan; one that was not opened yet its first."""
    running = replace(a_run(RunStatus.RUNNING, attempt=2), opened_at_ms=70_000)
    assert next_entry(running) == (SLOT.with_attempt(2), 70_000)
    retrying = replace(a_run(RunStatus.RETRYING, attempt=2), retry=RetryPlan(attempt=3, at_ms=99_000))
    assert next_entry(retrying) == (SLOT.with_attempt(3), 99_000)
    assert next_entry(a_run(RunStatus.PENDING)) == (SLOT, 60_001)
