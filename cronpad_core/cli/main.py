"""``cronpad``: the entry point of the command line, and the table of its commands."""

from __future__ import annotations

from typing import Final

import click

from cronpad_core.cli.invocation import Invocation, global_options
from cronpad_core.cli.lazy import LazyGroup

__all__ = ["cli", "main"]

_COMMANDS: Final = {
    "run": ("cronpad_core.cli.run", "Run the jobs of a file or directory; 'cronpad FILE' is the same."),
    "init": ("cronpad_core.cli.init", "Write a commented jobs file to start from."),
    "schema": ("cronpad_core.cli.schema", "The JSON Schema of jobs files, for editors."),
    "validate": ("cronpad_core.cli.validate", "Check jobs files: all problems at once, each with its place."),
    "next": ("cronpad_core.cli.next", "The next fires of a schedule, or of the jobs of a file."),
    "explain": ("cronpad_core.cli.explain", "What a schedule means, and which rules apply to it."),
    "jobs": ("cronpad_core.cli.jobs", "List, show, pause and resume stored jobs."),
    "runs": ("cronpad_core.cli.runs", "List and show runs, cancel them, run them again."),
    "trigger": ("cronpad_core.cli.trigger", "Run a job now, beside its schedule."),
    "backfill": ("cronpad_core.cli.backfill", "Run past slots of a job."),
    "workspace": ("cronpad_core.cli.workspace", "List, show and limit workspaces."),
    "reload": ("cronpad_core.cli.reload", "Have the active runner read its files again."),
    "alerts": ("cronpad_core.cli.alerts", "List alerts, try one out, put one off."),
    "audit": ("cronpad_core.cli.audit", "Whether every slot of every job has exactly one outcome."),
    "why": ("cronpad_core.cli.why", "What became of one slot of a job, and why."),
    "db": ("cronpad_core.cli.db", "Check, back up, restore, prune and upgrade the files of a state."),
    "queue": ("cronpad_core.cli.queue", "Look at the queue of a state, or let it be made anew."),
    "health": ("cronpad_core.cli.health", "Whether the dispatcher of a state is well."),
    "plugin": ("cronpad_core.cli.plugin", "List, show, check and begin plugins."),
    "completion": ("cronpad_core.cli.completion", "The script that completes cronpad in a shell."),
    "version": ("cronpad_core.cli.version", "The version of cronpad; with -v, of what it runs on too."),
}


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.ensure_object(Invocation)
        command = cli.get_command(context, "version")
        assert command is not None, "it is in the table"
        command.invoke(click.Context(command, parent=context))
        context.exit(0)


cli = LazyGroup(
    name="cronpad",
    table=_COMMANDS,
    params=[
        *global_options(hidden=False),
        click.Option(
            ["--version"], is_flag=True, expose_value=False, callback=_show_version, help="The same as the command 'version'."
        ),
    ],
    help="cronpad runs jobs on schedules, and keeps its promises when the machine, the disk or the clock does not.",
    epilog="'cronpad FILE' runs a jobs file. 'cronpad COMMAND --help' says more about a command.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
)


@cli.result_callback()
def _done(result: object, **_: object) -> object:
    return result


def main() -> None:
    """The script ``cronpad``."""
    cli.main(prog_name="cronpad")


if __name__ == "__main__":
    main()
