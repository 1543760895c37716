"""``cronpad jobs``: the jobs that a state knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.job_control import pause_command, resume_command
from cronpad_core.cli.job_words import catching_up, concurrency_words, overlap_words, paused_words, sla_words, slots_left
from cronpad_core.cli.output import Cell, Output, Styled
from cronpad_core.domain.job import Job, JobStatus
from cronpad_core.domain.timing import JsonValue, rfc3339

if TYPE_CHECKING:
    from cronpad_core.ports.storage import Storage

__all__ = ["command"]

_STYLES: Final = {JobStatus.ACTIVE: "good", JobStatus.PAUSED: "warn", JobStatus.COMPLETED: "dim", JobStatus.DELETED: "dim"}
_LABEL_WIDTH: Final = 13


@click.group()
def command() -> None:
    """List, show, pause and resume the jobs of a state."""


command.add_command(pause_command)
command.add_command(resume_command)


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
            paused_words(job) or catching_up(job) or "-",
        )
        for job in jobs
    ]
    out.table(("name", "status", "schedule", "zone", "next", "sink", "note"), rows)


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
    for label, *parts in _facts(found):
        out.line(str(label).ljust(_LABEL_WIDTH), *parts)


def _facts(job: Job) -> list[Sequence[Cell]]:
    """What is known of a job: a label and what stands behind it; nothing about rules that it does not have."""
    spec = job.spec
    paused = paused_words(job)
    status = Styled(job.status.value, _STYLES[job.status])
    catch_up, concurrency, sla = catching_up(job), concurrency_words(spec.concurrency), sla_words(spec.sla)
    facts: list[Sequence[Cell] | None] = [
        ("status", status, f", {paused}" if paused else ""),
        ("schedule", f"{' | '.join(spec.schedule.texts)}  ({spec.schedule.timezone})"),
        ("next", rfc3339(job.next_run_at_ms) or ("none while paused" if job.status is JobStatus.PAUSED else "never again")),
        ("", Styled(catch_up, "info")) if catch_up else None,
        ("sink", spec.sink.type),
        ("overlap", overlap_words(spec.overlap)),
        ("concurrency", concurrency) if concurrency else None,
        ("sla", sla) if sla else None,
        ("workspace", spec.workspace),
        ("origin", job.origin),
        ("version", f"{job.version}, since {rfc3339(job.valid_from_ms)}"),
    ]
    return [fact for fact in facts if fact is not None]


def _document(job: Job) -> dict[str, JsonValue]:
    left = slots_left(job)
    return {
        "id": job.id,
        "name": job.spec.name,
        "status": job.status.value,
        "paused_reason": job.paused_reason,
        "paused_until": rfc3339(job.paused_until_ms),
        "schedule": list(job.spec.schedule.texts),
        "timezone": job.spec.schedule.timezone,
        "next": rfc3339(job.next_run_at_ms),
        "catching_up": None if left is None else {"slots_left": left.count, "until": rfc3339(left.until_ms)},
        "sink": job.spec.sink.type,
        "workspace": job.spec.workspace,
        "origin": job.origin,
        "version": job.version,
    }
