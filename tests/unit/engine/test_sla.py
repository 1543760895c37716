"""Which rules of an SLA an attempt broke, and by how much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronpad_core.domain.ids import run_id_for
from cronpad_core.domain.job import JobSpec, ScheduleSpec, SinkSpec
from cronpad_core.domain.limits import SlaRule
from cronpad_core.domain.occurrence import Occurrence, Trigger
from cronpad_core.domain.outcome import Delivered
from cronpad_core.domain.run import AttemptStatus, Run, RunStatus
from cronpad_core.domain.settlement import Settlement
from cronpad_core.engine.recorder import sla_breaches
from cronpad_core.engine.ticket import Holding, Result, Ticket

DUE = 1_767_225_600_000
BOTH = SlaRule(start_within_ms=1_000, finish_within_ms=5_000)
ENDS = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.UNKNOWN)


def ticket(
    sla: SlaRule | None = BOTH,
    *,
    attempt: int = 0,
    held_for: int | None = None,
    opened_in: int = 0,
    redelivery: bool = False,
    trigger: Trigger = Trigger.SCHEDULED,
    offset: int = 0,
) -> Ticket:
    """An opened ticket of the slot at DUE."""
    spec = JobSpec(name="a", schedule=ScheduleSpec(texts=("* * * * *",)), sink=SinkSpec(type="none"), sla=sla, offset_ms=offset)
    occurrence = Occurrence(job_id="job_a", scheduled_at_ms=DUE, attempt=attempt, job_version=1, trigger=trigger)
    run = Run(
        id=run_id_for(occurrence.key),
        key=occurrence.key,
        job_version=1,
        spec=spec,
        status=RunStatus.RUNNING,
        attempt=attempt,
        fence=1,
        slot_at_ms=DUE,
        created_at_ms=DUE,
    )
    opened = DUE + opened_in
    return Ticket(
        occurrence=occurrence,
        holding=Holding(occurrence=occurrence, fence=1, term=1),
        due_at_ms=DUE,
        claimed_at_ms=opened,
        held_since_ms=None if held_for is None else opened - held_for,
        run=run,
        opened_at_ms=opened,
        redelivery=redelivery,
    )


def result(sent: int, finished: int, status: RunStatus = RunStatus.SUCCEEDED) -> Result:
    """Sent and finished so many milliseconds after DUE."""
    settlement = Settlement(attempt=AttemptStatus.DELIVERED, run=status)
    return Result(outcome=Delivered(), settlement=settlement, sent_at_ms=DUE + sent, finished_at_ms=DUE + finished)


@pytest.mark.parametrize(
    ("sent", "finished", "breaches"),
    [
        (0, 10, []),
        (1_000, 5_000, []),
        (1_001, 1_010, [("start_within", 1)]),
        (0, 5_001, [("finish_within", 1)]),
        (61_000, 70_000, [("start_within", 60_000), ("finish_within", 65_000)]),
    ],
)
def test_starts_and_ends_that_are_late(sent: int, finished: int, breaches: list[tuple[str, int]]) -> None:
    """Counted from the slot: at the limit is in time, a millisecond later is not."""
    assert sla_breaches(ticket(), result(sent, finished)) == breaches


def test_without_a_rule_nothing_is_late() -> None:
    """No rule, or one of the two alone: only what is asked for is looked at."""
    late = result(100_000, 200_000)
    assert sla_breaches(ticket(None), late) == []
    assert sla_breaches(ticket(SlaRule()), late) == []
    assert [rule for rule, _ in sla_breaches(ticket(SlaRule(start_within_ms=1)), late)] == ["start_within"]
    assert [rule for rule, _ in sla_breaches(ticket(SlaRule(finish_within_ms=1)), late)] == ["finish_within"]
    assert sla_breaches(replace(ticket(), run=None), late) == []


def test_the_time_that_it_was_held_does_not_count() -> None:
    """A cap that kept it for half a minute is nobody's lateness; what comes on top of that is."""
    held = ticket(held_for=30_000, opened_in=30_000)
    assert sla_breaches(held, result(31_000, 35_000)) == []
    assert sla_breaches(held, result(31_001, 35_002)) == [("start_within", 1), ("finish_within", 2)]
    odd = ticket(held_for=-10_000, opened_in=0)
    assert sla_breaches(odd, result(1_000, 5_000)) == [], "a clock that went back meanwhile makes nobody late"


def test_jitter_and_offset_are_part_of_the_time() -> None:
    """Late is late after the instant at which the job wants to start."""
    shifted = ticket(offset=20_000)
    assert sla_breaches(shifted, result(21_000, 25_000)) == []
    assert sla_breaches(shifted, result(21_001, 25_000)) == [("start_within", 1)]


def test_a_redelivery_or_a_retry_starts_late_no_more() -> None:
    """The start that counts was the first one; the end counts from the slot, whatever attempt it came with."""
    late = result(100_000, 100_500)
    for one in (ticket(redelivery=True), ticket(attempt=2)):
        assert sla_breaches(one, late) == [("finish_within", 95_500)]


@pytest.mark.parametrize("status", [RunStatus.RETRYING, RunStatus.RUNNING, *ENDS])
def test_only_the_end_of_the_run_is_a_finish(status: RunStatus) -> None:
    """An attempt after which the run goes on has not finished anything."""
    found = sla_breaches(ticket(), result(0, 100_000, status))
    assert found == ([("finish_within", 95_000)] if status in ENDS else [])


@pytest.mark.parametrize("trigger", [Trigger.MANUAL, Trigger.RETRY, Trigger.BACKFILL])
def test_a_run_that_somebody_asked_for_counts_from_then(trigger: Trigger) -> None:
    """However old its slot is, it is as late as whoever asked has waited."""
    asked = ticket(trigger=trigger, offset=20_000)
    assert asked.run is not None
    again = replace(asked, run=replace(asked.run, created_at_ms=DUE + 3_600_000))
    assert sla_breaches(again, result(3_601_000, 3_605_000)) == []
    assert sla_breaches(again, result(3_601_001, 3_605_002)) == [("start_within", 1), ("finish_within", 2)]
