"""``cronpad backfill``: past slots of a job, run again or for the first time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Cell, Output, Styled
from cronpad_core.domain.overlap import OverlapPolicy
from cronpad_core.domain.timing import JsonValue, Millis

if TYPE_CHECKING:
    from cronpad_core.domain.job import Job
    from cronpad_core.ports.storage import Storage

__all__ = ["command"]

Document = Mapping[str, JsonValue]


@click.command()
@click.argument("name", required=False)
@click.option("--from", "begin", metavar="TIME|DURATION", help="The first slot is at or after this; a DURATION is one ago.")
@click.option("--to", "end", metavar="TIME|DURATION", help="The last slot is at or before this; now if not given.")
@click.option("--overlap", type=click.Choice([one.value for one in OverlapPolicy]), help="Instead of the job's own rule.")
@click.option("--dry-run", is_flag=True, help="Only say which slots it would run.")
@click.option("--force", is_flag=True, help="More than 100,000 slots too.")
@click.option("--cancel", metavar="ID", help="Begin no further slot of this backfill; what runs goes on.")
@click.option("--list", "listing", is_flag=True, help="The newest backfills, of NAME or of all jobs.")
@click.pass_obj
def command(
    invocation: Invocation,
    name: str | None,
    begin: str | None,
    end: str | None,
    overlap: str | None,
    dry_run: bool,
    force: bool,
    cancel: str | None,
    listing: bool,
) -> None:
    """Run the past slots of the job NAME (a name or an id) between two times, oldest first, one after another.

    Slots that a backfill has run already are passed over. A TIME without an offset is one of the job's zone. Where no runner is
    active, the backfill is stored and begins when one starts.
    """
    out = Output(invocation)
    starting = begin is not None or end is not None or dry_run or force or overlap is not None
    if (cancel is not None) + listing + starting > 1:
        raise click.UsageError("--list, --cancel and a new backfill do not go together; give one of them.")
    if listing:
        _list(invocation, out, name)
    elif cancel is not None:
        if name is not None:
            raise click.UsageError("--cancel takes the id of a backfill, and no NAME.")
        _cancel(invocation, out, cancel)
    elif name is None or begin is None:
        raise click.UsageError("Give the NAME of a job and --from, or --list, or --cancel ID.")
    else:
        _start(invocation, out, _Wanted(name, begin, end), overlap=overlap, dry_run=dry_run, force=force)


class _Wanted:
    """A job and a range, as they were written."""

    def __init__(self, name: str, begin: str, end: str | None) -> None:
        self.name = name
        self._begin = begin
        self._end = end

    def range_ms(self, job: Job, now_ms: Millis) -> tuple[Millis, Millis]:
        """The range, by the job's zone. Raises ``click.BadParameter``."""
        from cronpad_core.cli.control import instant_of

        zone = job.spec.schedule.timezone
        from_ms = instant_of(self._begin, "--from", now_ms, ahead=False, zone=zone)
        return from_ms, now_ms if self._end is None else instant_of(self._end, "--to", now_ms, ahead=False, zone=zone)


def _start(invocation: Invocation, out: Output, wanted: _Wanted, *, overlap: str | None, dry_run: bool, force: bool) -> None:
    from cronpad_core.cli.control import ask
    from cronpad_core.cli.state import looking_at
    from cronpad_core.control.backfills import plan_backfill
    from cronpad_core.control.documents import backfill_document
    from cronpad_core.control.queries import find_job
    from cronpad_core.runtime.schedules import ScheduleBook

    now_ms = invocation.now_ms()

    async def read(storage: Storage) -> Job:
        return await find_job(storage.catalog, wanted.name)

    job = looking_at(invocation, out, read)
    from_ms, to_ms = wanted.range_ms(job, now_ms)
    plan = plan_backfill(job, from_ms, to_ms, schedules=ScheduleBook(), now_ms=now_ms)
    if dry_run:
        _show(out, {**backfill_document(job, plan, None), "created": False}, running=None)
        return
    arguments: dict[str, JsonValue] = {"job": job.id, "from_ms": from_ms, "to_ms": to_ms, "overlap": overlap, "force": force}
    answer = ask(invocation, out, "backfill", arguments)
    _show(out, answer.result, running=answer.running)
    if not answer.running:
        out.say("no runner is active: it is stored, and begins when one starts on this state", "warn")


def _cancel(invocation: Invocation, out: Output, word: str) -> None:
    from cronpad_core.cli.control import ask

    answer = ask(invocation, out, "backfill-cancel", {"backfill": word})
    _show(out, answer.result, running=answer.running)


def _list(invocation: Invocation, out: Output, name: str | None) -> None:
    from cronpad_core.cli.state import looking_at
    from cronpad_core.control.backfills import list_backfills
    from cronpad_core.control.documents import backfill_document

    async def read(storage: Storage) -> list[Document]:
        found = await list_backfills(storage.catalog, storage.history, job=name)
        return [backfill_document(await storage.catalog.job(one.job_id), None, one) for one in found]

    items = looking_at(invocation, out, read)
    if out.wants_json:
        out.document("backfills", items)
        return
    rows: list[Sequence[Cell]] = [
        (
            str(one["backfill_id"]),
            Styled(str(one.get("job", one["job_id"])), "strong"),
            Styled(str(one["status"]), "info" if one["status"] == "open" else "dim"),
            str(one["from_at"]),
            str(one["to_at"]),
            str(one["cursor_at"]) if one["status"] == "open" else "-",
            str(one["started"]),
            str(one["passed"]),
        )
        for one in items
    ]
    out.table(("backfill", "job", "status", "from", "to", "at", "started", "passed"), rows)


def _show(out: Output, found: Document, *, running: bool | None) -> None:
    if out.wants_json:
        out.document("backfill", [found], running=running)
        return
    if "backfill_id" in found:
        out.line(f"{found['backfill_id']}  ", Styled(str(found["status"]), "info"))
    if "slots" in found:
        out.line(f"slots  {found['slots']:,}")
        if found["slots"]:
            out.line(f"first  {found['first_at']}")
            out.line(f"last   {found['last_at']}")
    if found.get("created") is False and "backfill_id" in found:
        out.say("this backfill was there before, and has not ended", "dim")
