"""``cronpad run``: the bundled runner."""

from __future__ import annotations

from pathlib import Path

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output

__all__ = ["command"]


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|DIR...")
@click.option("--list", "listing", is_flag=True, help="Print name, schedule and next fire of each job, and exit.")
@click.option("--dry-run", is_flag=True, help="Validate, print the next fires of each job, and exit.")
@click.option("--once", metavar="NAME", help="Run one job now, with its retries; the exit code is the child's.")
@click.option("--max-parallel", type=click.IntRange(1, 10_000), metavar="N", help="How many jobs run at once (workers.count).")
@click.option("--shutdown-grace", metavar="DURATION", help="How long a stop waits for running jobs, such as 30s.")
@click.option("--exit-when-idle", is_flag=True, help="Exit when no job has a further fire and nothing runs.")
@click.option("--no-standby", is_flag=True, help="Exit 75 instead of waiting while another runner has this state.")
@click.option("--system", is_flag=True, help="Crontab lines have a user column.")
@click.pass_obj
def command(
    invocation: Invocation,
    files: tuple[Path, ...],
    listing: bool,
    dry_run: bool,
    once: str | None,
    max_parallel: int | None,
    shutdown_grace: str | None,
    exit_when_idle: bool,
    no_standby: bool,
    system: bool,
) -> int:
    """Run the jobs of files or directories until stopped; 'cronpad FILE' is the same.

    Prints one line per attempt on stdout, JSON lines where stdout is no terminal. State is kept in .cronpad/ beside the first
    file, or where --state says; ':memory:' keeps none. SIGTERM stops gracefully, SIGHUP reads the files again.
    """
    from cronpad_core.cli import running

    wanted = [name for name, given in (("--list", listing), ("--dry-run", dry_run), ("--once", once is not None)) if given]
    if len(wanted) > 1:
        raise click.UsageError(f"{' and '.join(wanted)} do not go together; give one of them.")
    session = running.Session.open(
        invocation,
        Output(invocation),
        files,
        system=system,
        overrides={"workers.count": max_parallel, "shutdown_grace": shutdown_grace},
    )
    if listing:
        return running.list_jobs(session)
    if dry_run:
        return running.dry_run(session)
    if once is not None:
        return running.once(session, once)
    return running.serve(session, stand_by=not no_standby, exit_when_idle=exit_when_idle)
