"""``cronpad why``: the decisions about one slot, in words."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output, Styled
from cronpad_core.cli.runs import attempt_document
from cronpad_core.domain.job import Job
from cronpad_core.domain.timing import JsonValue, Millis, rfc3339, to_ms

if TYPE_CHECKING:
    from cronpad_core.control.why import Why
    from cronpad_core.ports.storage import Storage

__all__ = ["command"]

_STYLES: Final = {"ran": "good", "lost": "bad", "missed": "warn", "dropped": "warn", "skipped": "warn", "open": "info"}


@click.command()
@click.argument("job")
@click.option("--at", "at", metavar="TIME", help="The slot; without an offset in the job's zone. The newest one if not given.")
@click.pass_obj
def command(invocation: Invocation, job: str, at: str | None) -> None:
    """What became of one slot of JOB, and why: which version covered it, its run with attempts and lateness, or what kept it.

    JOB is a name or an id; removed jobs are found too.
    """
    from cronpad_core.cli.state import looking_at
    from cronpad_core.control.why import any_job, why
    from cronpad_core.control.why_words import local_time, sentences
    from cronpad_core.runtime.schedules import ScheduleBook

    moment = None if at is None else _moment(at)

    async def read(storage: Storage) -> Why:
        found = await any_job(storage, job)
        at_ms = None if moment is None else _instant(moment, found)
        return await why(storage, found, at_ms=at_ms, now_ms=invocation.now_ms(), schedules=ScheduleBook())

    out = Output(invocation)
    found = looking_at(invocation, out, read)
    said = sentences(found)
    if out.wants_json:
        out.document("why", [_document(found) | {"sentences": list(said)}])
        return
    word = found.verdict.value
    spec = found.job.spec if found.covered is None else found.covered.version.spec
    out.line(Styled(found.job.spec.name, "strong"), f"  {local_time(found.at_ms, spec)}  ", _styled(word))
    for sentence in said:
        out.line(f"- {sentence}")


def _styled(word: str) -> Styled:
    return Styled(word.replace("_", " "), _STYLES.get(word, "dim"))


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is no time; write 2026-03-29T01:30 or 2026-03-29T01:30+01:00"
        raise click.BadParameter(message, param_hint="'--at'") from None


def _instant(moment: datetime, job: Job) -> Millis:
    if moment.tzinfo is None:
        from cronpad_core.schedules.zones import load_zone

        moment = moment.replace(tzinfo=load_zone(job.spec.schedule.timezone))
    return to_ms(moment)


def _document(found: Why) -> dict[str, JsonValue]:
    covered, run, row = found.covered, found.run, found.range
    return {
        "job": found.job.spec.name,
        "job_id": found.job.id,
        "at": rfc3339(found.at_ms),
        "verdict": found.verdict.value,
        "version": None
        if covered is None
        else {
            "version": covered.version.version,
            "schedule": list(covered.version.spec.schedule.texts),
            "timezone": covered.version.spec.schedule.timezone,
            "valid_from": rfc3339(covered.after_ms),
            "valid_until": rfc3339(covered.until_ms),
        },
        "slot_before": rfc3339(found.before_ms),
        "slot_after": rfc3339(found.after_ms),
        "held_since": rfc3339(found.held_ms),
        "ledger_from": rfc3339(found.ledger_from_ms),
        "run": None
        if run is None
        else {
            "id": run.id,
            "job_version": run.job_version,
            "status": run.status.value,
            "skip_reason": run.skip_reason.value if run.skip_reason else None,
            "reason": run.reason,
            "redeliveries": run.redeliveries,
            "retry_at": rfc3339(run.retry.at_ms) if run.retry else None,
            "attempts": [attempt_document(one) for one in found.attempts],
        },
        "range": None
        if row is None
        else {
            "kind": row.kind.value,
            "first": rfc3339(row.first_ms),
            "last": rfc3339(row.last_ms),
            "slots": row.count,
            "reason": row.reason,
        },
        "backfill": found.backfill.id if found.backfill else None,
    }
