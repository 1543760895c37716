"""``cronpad trigger``: runs a job now, beside its schedule."""

from __future__ import annotations

import secrets  # noqa: TID251  # a word of its own for this call, so that it may be asked twice and is run once

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output
from cronpad_core.domain.timing import JsonValue

__all__ = ["command"]


@click.command()
@click.argument("name")
@click.option("--wait", is_flag=True, help="Wait for the run's end; the exit code is then the command's own.")
@click.option("--timeout", metavar="DURATION", help="Wait no longer than this, such as 10m; then exit 124, and the run goes on.")
@click.option("--payload", metavar="JSON", help="What the run is given, at most 64 KiB.")
@click.option("--token", metavar="WORD", help="Asked again with the same word, it is the same run.")
@click.pass_obj
def command(invocation: Invocation, name: str, wait: bool, timeout: str | None, payload: str | None, token: str | None) -> int:
    """Run the job NAME (a name or an id) now, and print the id of the run.

    It obeys the job's overlap rule and the limits of its workspace; a paused job runs too. The run is stored before its id is
    printed: where no runner is active, it runs when one starts. With --wait: exit 0 for success, 124 for a time-out, else the
    command's own code or 1; 3 where no runner is active.
    """
    from cronpad_core.cli.control import ask, duration_of, json_of, show_started

    if timeout is not None and not wait:
        raise click.UsageError("--timeout goes with --wait.")
    timeout_ms = None if timeout is None else duration_of(timeout, "--timeout")
    arguments: dict[str, JsonValue] = {"job": name, "token": token or secrets.token_hex(8)}
    if payload is not None:
        arguments["payload"] = json_of(payload, "--payload")
    out = Output(invocation)
    answer = ask(invocation, out, "trigger", arguments)
    return show_started(invocation, out, "trigger", answer, wait=wait, timeout_ms=timeout_ms)
