"""``cronpad runs cancel`` and ``retry``."""

from __future__ import annotations

import secrets  # noqa: TID251  # a word of its own for this call, so that it may be asked twice and is run once

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output, Styled

__all__ = ["cancel_command", "retry_command"]


@click.command("cancel")
@click.argument("run")
@click.option("--reason", metavar="TEXT", help="Why, for whoever looks at the run.")
@click.pass_obj
def cancel_command(invocation: Invocation, run: str, reason: str | None) -> None:
    """End a run before it ends by itself.

    RUN is an id, the beginning of one, or a job's name for its newest run. What runs is asked to stop, and killed after its
    kill_grace, its children with it; what has not begun never does. Exit 1 for a run that has ended.
    """
    from cronpad_core.cli.control import ask

    out = Output(invocation)
    answer = ask(invocation, out, "run-cancel", {"run": run, "reason": reason})
    found = answer.result
    if out.wants_json:
        out.document("run", [found], running=answer.running)
        return
    told = found["status"] == "running"
    out.line(Styled(str(found["run_id"]), "strong"), "  ", "told to stop" if told and found["told"] else str(found["status"]))
    if told and not found["told"]:
        out.say("no process runs it at the moment: it ends as cancelled when it comes up again", "warn")


@click.command("retry")
@click.argument("run")
@click.option("--wait", is_flag=True, help="Wait for the new run's end; the exit code is then the command's own.")
@click.pass_obj
def retry_command(invocation: Invocation, run: str, wait: bool) -> int:
    """Run the slot of an ended run again, as a new run with the job's present settings, and print its id.

    RUN is an id, the beginning of one, or a job's name for its newest run. Exit codes are those of 'cronpad trigger'.
    """
    from cronpad_core.cli.control import ask, show_started

    out = Output(invocation)
    answer = ask(invocation, out, "run-retry", {"run": run, "token": secrets.token_hex(8)})
    return show_started(invocation, out, "retry", answer, wait=wait)
