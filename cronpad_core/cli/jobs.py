"""``cronpad jobs``: the jobs that a state knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Cell, Output, Styled
from cronpad_core.domain.job import Job, JobStatus
from cronpad_core.domain.timing import JsonValue, rfc3339

if TYPE_CHECKING:
    from cronpad_core.ports.storage import Storage

__all__ = ["command"]

_STYLES: Final = {JobStatus.ACTIVE: "good", JobStatus.PAUSED: "warn", JobStatus.COMPLETED: "dim", JobStatus.DELETED: "dim"}


@click.group()
def command() -> None:
    """List and show the jobs of a state."""


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Removed jobs too.")
@click.pass_obj
def list_command(invocation: Invocation, everything: bool) -> None:
    """All jobs with their next fire; a job that has none shows so."""
    from cronpad_core.cli.state import looking_at
    from cronpad_core.control.queries import all_jobs

    async def read(storage: Storage) -> list[Job]:
        return await all_jobs(storage.catalog, deleted=everything)

    out = Output(invocation)
    jobs = looking_at(invocation, out, read)
    if out.wants_json:
        out.document("jobs", [_document(job) for job in jobs])
        return
    rows: list[Sequence[Cell]] = [
        (
            Styled(job.spec.name, "strong"),
            Styled(job.status.value, _STYLES[job.status]),
            " | ".join(job.spec.schedule.texts),
            job.spec.schedule.timezone,
            rfc3339(job.next_run_at_ms) or "-",
            job.spec.sink.type,
        )
        for job in jobs
    ]
    out.table(("name", "status", "schedule", "zone", "next", "sink"), rows)


@command.command("show")
@click.argument("job")
@click.pass_obj
def show_command(invocation: Invocation, job: str) -> None:
    """One job as it is stored; JOB is a name or an id."""
    from cronpad_core.cli.state import looking_at
    from cronpad_core.control.queries import find_job

    async def read(storage: Storage) -> Job:
        return await find_job(storage.catalog, job)

    out = Output(invocation)
    found = looking_at(invocation, out, read)
    if out.wants_json:
        out.document("job", [_document(found) | {"spec": found.spec.to_json()}])
        return
    out.line(Styled(found.spec.name, "strong"), f"  {found.id}")
    out.line("status     ", Styled(found.status.value, _STYLES[found.status]))
    out.line(f"schedule   {' | '.join(found.spec.schedule.texts)}  ({found.spec.schedule.timezone})")
    out.line(f"next       {rfc3339(found.next_run_at_ms) or 'never again'}")
    out.line(f"sink       {found.spec.sink.type}")
    out.line(f"origin     {found.origin}")
    out.line(f"version    {found.version}, since {rfc3339(found.valid_from_ms)}")


def _document(job: Job) -> dict[str, JsonValue]:
    return {
        "id": job.id,
        "name": job.spec.name,
        "status": job.status.value,
        "schedule": list(job.spec.schedule.texts),
        "timezone": job.spec.schedule.timezone,
        "next": rfc3339(job.next_run_at_ms),
        "sink": job.spec.sink.type,
        "origin": job.origin,
        "version": job.version,
    }
