"""``cronpad runs``: what ran, how it went, and what it printed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Cell, Output, Styled, safe
from cronpad_core.cli.run_control import cancel_command, retry_command
from cronpad_core.domain.run import Attempt, AttemptStatus, Run, RunStatus
from cronpad_core.domain.timing import JsonValue, Millis, from_ms, rfc3339

if TYPE_CHECKING:
    from cronpad_core.ports.storage import Storage

__all__ = ["attempt_document", "command"]

_STYLES: Final = {
    RunStatus.SUCCEEDED: "good",
    RunStatus.FAILED: "bad",
    RunStatus.POISONED: "bad",
    RunStatus.UNKNOWN: "warn",
    RunStatus.SKIPPED: "dim",
}


@click.group()
def command() -> None:
    """List and show runs and what they printed, cancel them, run them again."""


command.add_command(cancel_command)
command.add_command(retry_command)


@command.command("list")
@click.option("--job", metavar="NAME", help="Only runs of this job (name or id).")
@click.option("--status", "statuses", multiple=True, type=click.Choice([one.value for one in RunStatus]), help="Only these.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 100_000), help="How many, newest first.")
@click.pass_obj
def list_command(invocation: Invocation, job: str | None, statuses: tuple[str, ...], limit: int) -> None:
    """The newest runs."""
    from cronpad_core.cli.state import looking_at
    from cronpad_core.control.queries import list_runs

    async def read(storage: Storage) -> list[Run]:
        wanted = [RunStatus(one) for one in statuses]
        return await list_runs(storage.catalog, storage.history, job=job, statuses=wanted, limit=limit)

    out = Output(invocation)
    runs = looking_at(invocation, out, read)
    if out.wants_json:
        out.document("runs", [_document(run) for run in runs])
        return
    rows: list[Sequence[Cell]] = [
        (
            run.id,
            Styled(run.spec.name, "strong"),
            _local(run.slot_at_ms),
            Styled(run.status.value, _STYLES.get(run.status, "info")),
            str(run.attempt + 1) if run.opened_at_ms is not None else "-",
            _took(run.opened_at_ms, run.finished_at_ms),
            run.skip_reason.value if run.skip_reason else run.reason,
        )
        for run in runs
    ]
    out.table(("run", "job", "slot", "status", "attempts", "took", "reason"), rows)


@command.command("show")
@click.argument("run")
@click.pass_obj
def show_command(invocation: Invocation, run: str) -> None:
    """One run with its attempts, and where each one's lateness came from.

    RUN is an id, the beginning of one, or a job's name for its newest run.
    """
    out = Output(invocation)
    found, attempts = _look_up(invocation, out, run)
    if out.wants_json:
        out.document("run", [_document(found) | {"attempts": [attempt_document(one) for one in attempts]}])
        return
    out.line(Styled(found.spec.name, "strong"), f"  {found.id}")
    out.line("status     ", Styled(found.status.value, _STYLES.get(found.status, "info")), f"  {found.reason}")
    out.line(f"slot       {_local(found.slot_at_ms)}")
    out.line(f"job        {found.key.job_id}, version {found.job_version}")
    if found.skip_reason:
        out.line(f"skipped    {found.skip_reason.value}")
    if found.redeliveries:
        out.line(f"delivered again after {found.redeliveries} crashes")
    if found.retry:
        out.line(f"retries    {_local(found.retry.at_ms)}")
    for attempt in attempts:
        _print_attempt(out, attempt)


@command.command("logs")
@click.argument("run")
@click.option("--attempt", type=click.IntRange(1), help="Which attempt, counted from 1; the last one if not given.")
@click.option(
    "--stream", type=click.Choice(["stdout", "stderr", "both"]), default="both", show_default=True, help="Which of the two."
)
@click.pass_obj
def logs_command(invocation: Invocation, run: str, attempt: int | None, stream: str) -> None:
    """What a run printed, as far as it was kept.

    RUN is an id, the beginning of one, or a job's name for its newest run. Off a terminal the bytes come as they were.
    """
    from cronpad_core.domain.errors import NotFoundError

    out = Output(invocation)
    found, attempts = _look_up(invocation, out, run)
    chosen = [one for one in attempts if attempt is None or one.attempt == attempt - 1]
    if not chosen:
        wanted = "no attempt" if attempt is None else f"no attempt {attempt}"
        raise NotFoundError(f"run {found.id} has {wanted}", hint=f"it has {len(attempts)}" if attempts else None)
    streams = [one for one in chosen[-1].output if stream in (one.name, "both")]
    if out.wants_json:
        items: list[Mapping[str, JsonValue]] = [
            {
                "stream": one.name,
                "bytes": one.total,
                "truncated": one.truncated,
                "head": one.head.decode("utf-8", "backslashreplace"),
                "tail": one.tail.decode("utf-8", "backslashreplace"),
            }
            for one in streams
        ]
        out.document("logs", items, run=found.id, attempt=chosen[-1].attempt)
        return
    for one in streams:
        _emit(one.head)
        if one.truncated:
            out.say(f"… {one.total - len(one.head) - len(one.tail)} bytes of {one.name} were not kept …", "warn")
        _emit(one.tail)


def _look_up(invocation: Invocation, out: Output, word: str) -> tuple[Run, list[Attempt]]:
    from cronpad_core.cli.state import looking_at
    from cronpad_core.control.queries import find_run

    async def read(storage: Storage) -> tuple[Run, list[Attempt]]:
        run = await find_run(storage.catalog, storage.history, word)
        return run, await storage.history.attempts(run.id)

    return looking_at(invocation, out, read)


def _emit(data: bytes) -> None:
    if not data:
        return
    if sys.stdout.isatty():
        text = safe(data.decode("utf-8", "backslashreplace"), lines=True)
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _print_attempt(out: Output, one: Attempt) -> None:
    style = "good" if one.status is AttemptStatus.DELIVERED else "warn"
    out.line()
    out.line(f"attempt {one.attempt + 1}  ", Styled(one.status.value, style), f"  {one.reason}")
    if one.exit_code is not None:
        out.line(f"  exit code  {one.exit_code}")
    out.line(f"  due        {_local(one.due_at_ms)}")
    out.line(f"  claimed    +{one.claimed_at_ms - one.due_at_ms} ms")
    out.line(f"  opened     +{one.opened_at_ms - one.due_at_ms} ms")
    if one.sent_at_ms is not None:
        out.line(f"  sent       +{one.sent_at_ms - one.due_at_ms} ms")
        out.line(f"  took       {_took(one.sent_at_ms, one.finished_at_ms)}")
    for stream in one.output:
        kept = ", cut" if stream.truncated else ""
        out.line(f"  {stream.name:<9}  {stream.total} bytes{kept}")


def _document(run: Run) -> dict[str, JsonValue]:
    return {
        "id": run.id,
        "job": run.spec.name,
        "job_id": run.key.job_id,
        "job_version": run.job_version,
        "trigger": run.key.trigger.name.lower(),
        "slot_at": rfc3339(run.slot_at_ms),
        "status": run.status.value,
        "skip_reason": run.skip_reason.value if run.skip_reason else None,
        "reason": run.reason,
        "attempt": run.attempt,
        "opened_at": rfc3339(run.opened_at_ms),
        "finished_at": rfc3339(run.finished_at_ms),
        "retry_at": rfc3339(run.retry.at_ms) if run.retry else None,
        "redeliveries": run.redeliveries,
        "cancel_requested": run.cancel_requested,
        "retry_of": run.retry_of,
        "payload": run.payload,
    }


def attempt_document(one: Attempt) -> JsonValue:
    """An attempt as every command shows it in JSON."""
    return {
        "attempt": one.attempt,
        "fence": str(one.fence),
        "status": one.status.value,
        "reason": one.reason,
        "exit_code": one.exit_code,
        "due_at": rfc3339(one.due_at_ms),
        "held_since": rfc3339(one.held_since_ms),
        "claimed_at": rfc3339(one.claimed_at_ms),
        "opened_at": rfc3339(one.opened_at_ms),
        "sent_at": rfc3339(one.sent_at_ms),
        "finished_at": rfc3339(one.finished_at_ms),
        "facts": dict(one.facts),
        "output": {stream.name: stream.total for stream in one.output},
    }


def _local(instant_ms: Millis) -> str:
    return from_ms(instant_ms).astimezone().isoformat(sep=" ", timespec="seconds")


def _took(began_ms: Millis | None, ended_ms: Millis | None) -> str:
    return "-" if began_ms is None or ended_ms is None else f"{(ended_ms - began_ms) / 1000:.3f} s"
