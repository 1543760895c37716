"""``cronpad validate``."""

from __future__ import annotations

from pathlib import Path

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output, Styled
from cronpad_core.cli.plugin import host_of

__all__ = ["command"]

_UNKNOWN_TYPE = "CP124"


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--system", is_flag=True, help="Crontab lines have a user column.")
@click.pass_context
def command(context: click.Context, files: tuple[Path, ...], system: bool) -> None:
    """Check jobs files and directories: all problems at once, each with its place. Nothing is run or stored.

    Exit 0 if the files can be used (there may be warnings), 2 if not, 5 if all that is missing is a plugin.
    """
    from cronpad_core.config.jobsfile import check_jobs
    from cronpad_core.config.plugin_settings import Types

    invocation = context.ensure_object(Invocation)
    out = Output(invocation)
    registry = host_of(invocation, out, files=files).registry
    types = Types(
        sinks=registry.sink_models(),
        misfires=registry.misfire_models(),
        emitters=registry.emitter_models(),
        unavailable=registry.unavailable(),
    )
    loaded, problems = check_jobs(files, types=types, environ=invocation.environ, system=system)
    if out.wants_json:
        out.document("problems", [one.to_json() for one in problems], jobs=len(loaded.specs))
    else:
        if len(problems):
            out.text(problems.report())
            out.line()
        errors, warnings = len(problems.errors), len(problems.warnings)
        verdict = Styled("invalid", "bad") if errors else Styled("valid", "good")
        out.line(verdict, f": {_many(len(loaded.specs), 'job')}, {_many(errors, 'error')}, {_many(warnings, 'warning')}")
    if problems.errors:
        context.exit(5 if all(one.code == _UNKNOWN_TYPE for one in problems.errors) else 2)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
