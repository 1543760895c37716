"""``cronpad next``."""

from __future__ import annotations

from pathlib import Path

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output
from cronpad_core.cli.schedule_text import fires_of, parse_text, print_fires, start_of
from cronpad_core.domain.errors import ConfigurationError

__all__ = ["command"]


@click.command()
@click.argument("name_or_text", nargs=-1, metavar="[NAME|TEXT]")
@click.option("-n", "--count", type=click.IntRange(1, 100_000), default=5, show_default=True, help="How many fires to show.")
@click.option("--tz", help="Time zone of the TEXT (UTC if absent).")
@click.option("--after", metavar="TIME", help="Show the fires after this time instead of now.")
@click.option("-f", "--file", "file", type=click.Path(exists=True, path_type=Path), help="Show the jobs of this file, or NAME.")
@click.option("--job-id", help="The job that H and ~ in the TEXT are drawn for.")
@click.pass_obj
def command(
    invocation: Invocation,
    name_or_text: tuple[str, ...],
    count: int,
    tz: str | None,
    after: str | None,
    file: Path | None,
    job_id: str | None,
) -> None:
    """The next fires of the schedule TEXT, such as '*/5 * * * *' or 'every 90s'; with --file, of the jobs in it."""
    out = Output(invocation)
    given = " ".join(name_or_text)
    if file is not None:
        from cronpad_core.cli.next_jobs import next_of_jobs

        next_of_jobs(invocation, out, file, name=given or None, count=count, after=after)
        return
    if not given:
        raise click.UsageError("name a schedule, such as '*/5 * * * *', or a jobs file with --file")
    try:
        schedule = parse_text(given, timezone=tz or "UTC", job_id=job_id)
    except ConfigurationError as error:
        # One plain word is more likely a job's name than a schedule.
        if error.hint is None and len(given.split()) == 1 and given[0].isalpha():
            error.hint = f"for the job '{given}' of a jobs file: cronpad next {given} --file FILE"
        raise
    now_ms = invocation.now_ms()
    fires = tuple(fires_of(schedule, start_of(after, schedule, now_ms), count))
    if out.wants_json:
        items = [fire.to_json() for fire in fires]
        out.document("next", items, text=given, timezone=schedule.timezone, warnings=list(schedule.warnings))
        return
    for warning in schedule.warnings:
        out.warn(warning)
    if fires:
        print_fires(out, fires, now_ms if after is None else None)
    else:
        out.say(f"'{given}' never fires again", "warn")
