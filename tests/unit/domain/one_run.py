"""One job, one slot and its run, as the tests of decisions begin with."""

from __future__ import annotations

from dataclasses import replace

from cronpad_core.api import JobSpec, Occurrence, Run, RunStatus, ScheduleSpec, SinkSpec, Trigger, run_id_for

SPEC = JobSpec(name="a", schedule=ScheduleSpec(texts=("* * * * *",)), sink=SinkSpec(type="none"))
SLOT = Occurrence(job_id="job_a", scheduled_at_ms=60_000, attempt=0, job_version=1, trigger=Trigger.SCHEDULED)
FENCE = (7 << 32) + 5


def row(status: RunStatus, *, attempt: int = 0, fence: int = FENCE - 1, **more: object) -> Run:
    run = Run(
        id=run_id_for(SLOT.key),
        key=SLOT.key,
        job_version=1,
        spec=SPEC,
        status=status,
        attempt=attempt,
        fence=fence,
        slot_at_ms=60_000,
        created_at_ms=60_000,
    )
    return replace(run, **more)
