"""``cronpad audit``: the ledger held against the schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Cell, Output, Styled
from cronpad_core.domain.timing import JsonValue, Millis, rfc3339, to_ms

if TYPE_CHECKING:
    from cronpad_core.control.audit_version import Finding, JobAudit
    from cronpad_core.ports.storage import Storage

__all__ = ["command"]

_LEDGERS_SAID = 10


@click.command()
@click.option("--since", metavar="TIME|DURATION", help="Only slots after this time, or of the last 24h, 7d and the like.")
@click.pass_context
def command(context: click.Context, since: str | None) -> None:
    """Whether every slot of every job, removed ones included, has exactly one outcome: exit 0 if so, 1 if not.

    What a slot should be is computed anew from the schedules of all versions of a job. Slots so young that they may still be
    handled (the job's grace, overdue_grace and reconcile_interval) need no outcome yet. A TIME without an offset is local.
    """
    from cronpad_core.cli.state import looking_at
    from cronpad_core.config.settings import load_settings
    from cronpad_core.control.audit import audit
    from cronpad_core.runtime.schedules import ScheduleBook

    invocation = context.ensure_object(Invocation)
    out, now_ms = Output(invocation), invocation.now_ms()
    since_ms = None if since is None else _since(since, now_ms)
    settings = load_settings(Path(invocation.config) if invocation.config else None, invocation.environ, {})
    handling_ms = settings.scheduler_overdue_grace_ms + settings.scheduler_reconcile_interval_ms

    async def read(storage: Storage) -> list[JobAudit]:
        audits = audit(storage, schedules=ScheduleBook(), now_ms=now_ms, handling_ms=handling_ms, since_ms=since_ms)
        return [one async for one in audits]

    audits = looking_at(invocation, out, read)
    if out.wants_json:
        _document(out, audits, now_ms, since_ms)
    else:
        _show(out, audits)
    if any(one.findings for one in audits):
        context.exit(1)


def _since(text: str, now_ms: Millis) -> Millis:
    """The instant that ``--since`` names."""
    from cronpad_core.config.durations import DurationFault, parse_duration

    try:
        return to_ms(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError):
        pass
    try:
        return now_ms - parse_duration(text)
    except DurationFault as fault:
        raise click.BadParameter(
            f"{text!r} is neither a time, such as 2026-03-29T01:30, nor a duration, such as 24h or 7d",
            param_hint="'--since'",
        ) from fault


def _show(out: Output, audits: Sequence[JobAudit]) -> None:
    rows: list[Sequence[Cell]] = [
        (
            Styled(one.job.spec.name, "strong"),
            _slots(finding),
            Styled(finding.kind.value, "bad"),
            f"version {finding.version}: {finding.detail}",
        )
        for one in audits
        for finding in one.findings
    ]
    if rows:
        out.table(("job", "slot", "what", "detail"), rows)
        out.line()
    for one in audits:
        if one.findings and one.unlisted:
            out.line(Styled(one.job.spec.name, "strong"), f" has {one.unlisted:,} more findings")
    count = sum(len(one.findings) + one.unlisted for one in audits if one.findings)
    word = "finding" if count == 1 else "findings"
    out.line(
        f"audited {_many(sum(one.known for one in audits), 'job')}, {_many(sum(one.slots for one in audits), 'slot')}: ",
        Styled(f"{count:,} {word}", "bad" if count else "good"),
    )
    waiting = sum(one.open for one in audits)
    if waiting:
        out.say(f"{_many(waiting, 'younger slot')} may have no outcome yet", "dim")
    _say_ledgers(out, [one for one in audits if one.ledger_from_ms is not None])


def _say_ledgers(out: Output, later: Sequence[JobAudit]) -> None:
    """Where ledgers begin that do not begin with their jobs."""
    for one in later[:_LEDGERS_SAID]:
        name, begins = one.job.spec.name, rfc3339(one.ledger_from_ms)
        out.say(f"{name}: its ledger begins at {begins}; older slots are not audited", "dim")
    if len(later) > _LEDGERS_SAID:
        out.say(f"and so do those of {_many(len(later) - _LEDGERS_SAID, 'more job')}; --json names them all", "dim")


def _slots(finding: Finding) -> str:
    first, last = str(rfc3339(finding.first_ms)), str(rfc3339(finding.last_ms))
    if first == last:
        return first
    return f"{first} to {last}" + (f" ({finding.slots:,})" if finding.slots else "")


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _document(out: Output, audits: Sequence[JobAudit], now_ms: Millis, since_ms: Millis | None) -> None:
    items: list[dict[str, JsonValue]] = [
        {
            "job": one.job.spec.name,
            "job_id": one.job.id,
            "version": finding.version,
            "what": finding.kind.value.replace(" ", "_"),
            "slot": rfc3339(finding.first_ms),
            "last_slot": rfc3339(finding.last_ms),
            "slots": finding.slots,
            "detail": finding.detail,
        }
        for one in audits
        for finding in one.findings
    ]
    out.document(
        "audit",
        items,
        at=rfc3339(now_ms),
        since=rfc3339(since_ms),
        jobs=sum(one.known for one in audits),
        slots=sum(one.slots for one in audits),
        open=sum(one.open for one in audits),
        ledgers=[
            {"job": one.job.spec.name, "job_id": one.job.id, "from": rfc3339(one.ledger_from_ms)}
            for one in audits
            if one.ledger_from_ms is not None
        ],
        findings=sum(len(one.findings) + one.unlisted for one in audits if one.findings),
    )
