"""Which jobs stand ahead of a clock that was set back."""

from __future__ import annotations

import pytest

from cronpad_core.domain.job import Job, JobSpec, JobStatus, Replay, ScheduleSpec, SinkSpec
from cronpad_core.engine.rewinder import stands_ahead
from cronpad_core.runtime.schedules import read_schedule

NOW = 1_767_225_600_000
S, MINUTE, HOUR = 1_000, 60_000, 3_600_000
TENS, HOURLY, ONCE, GONE = "*/10 * * * * *", "0 * * * *", "at 2026-01-01T03:00:00Z", "at 2025-12-31T23:00:00Z"


def job(text: str, next_in: int | None, *, valid_in: int = -HOUR, until_in: int | None = None) -> Job:
    """A job that waits for a fire so many milliseconds from now."""
    return Job(
        id="job_a",
        origin="t",
        version=1,
        status=JobStatus.ACTIVE,
        spec=JobSpec(name="a", schedule=ScheduleSpec(texts=(text,)), sink=SinkSpec(type="none")),
        next_run_at_ms=None if next_in is None else NOW + next_in,
        valid_from_ms=NOW + valid_in,
        replay=None if until_in is None else Replay(until_ms=NOW + until_in, then_ms=NOW + until_in + 10 * S),
    )


@pytest.mark.parametrize(
    ("stored", "ahead"),
    [
        (job(TENS, 10 * S), False),
        (job(TENS, -HOUR), False),
        (job(TENS, 70 * S), False),  # the next fire after now + 60 s
        (job(TENS, 80 * S), True),
        (job(TENS, HOUR), True),
        (job(HOURLY, HOUR), False),
        (job(HOURLY, 2 * HOUR), True),
        (job(HOURLY, 48 * HOUR), True),
        (job(ONCE, 3 * HOUR), False),  # its only fire, however far
        (job(GONE, None), False),
        (job(TENS, None), False),
        (job(TENS, 10 * S, valid_in=MINUTE), False),
        (job(TENS, 10 * S, valid_in=MINUTE + 1), True),
        (job(GONE, None, valid_in=HOUR), True),
        (job(TENS, -HOUR, until_in=-MINUTE), False),
        (job(TENS, -HOUR, until_in=70 * S), False),
        (job(TENS, -HOUR, until_in=HOUR), True),
    ],
)
def test_who_stands_ahead(stored: Job, ahead: bool) -> None:
    """Later than the next fire after now and a minute: by next fire, by the end of a catch-up, or by where its version begins."""
    schedule = read_schedule(stored.id, stored.version, stored.spec.schedule)
    assert stands_ahead(stored, NOW, schedule) is ahead
