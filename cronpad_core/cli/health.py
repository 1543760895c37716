"""``cronpad health``: for container checks, monitors and people; answers from one small file."""

from __future__ import annotations

from pathlib import Path

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output, Styled
from cronpad_core.domain.errors import NotFoundError, NotRunningError
from cronpad_core.domain.timing import JsonValue
from cronpad_core.runtime.clock import SystemClock
from cronpad_core.runtime.health import read_pulse

__all__ = ["command"]


@click.command()
@click.pass_context
def command(context: click.Context) -> None:
    """Whether the dispatcher of a state is well: exit 0 if so, 1 if not, 3 if none runs.

    The state is what --state or CRONPAD_STATE names, else .cronpad in the current directory.
    """
    invocation = context.ensure_object(Invocation)
    out = Output(invocation)
    given = invocation.state or invocation.environ.get("CRONPAD_STATE") or ".cronpad"
    directory = Path(given.removeprefix("sqlite://"))
    if not directory.is_dir():
        raise NotFoundError(f"there is no state in {directory}", hint="name its directory with --state DIR or CRONPAD_STATE")
    pulse = read_pulse(directory)
    if pulse is None or pulse.dispatcher == "stopped":
        raise NotRunningError(f"no cronpad dispatches on {directory}", hint="start one with 'cronpad run FILE --state DIR'")
    problems = pulse.problems(SystemClock())
    if out.wants_json:
        item: dict[str, JsonValue] = {
            "healthy": not problems,
            "dispatcher": pulse.dispatcher,
            "pid": pulse.pid,
            "term": pulse.term,
        }
        out.document("health", [item | {"running": pulse.running, "problems": list(problems)}])
    elif problems:
        out.line(Styled("unhealthy", "bad"), f": {'; '.join(problems)}")
    else:
        out.line(Styled("healthy", "good"), f": {pulse.dispatcher}, {pulse.running} running, process {pulse.pid}")
    if problems:
        context.exit(1)
