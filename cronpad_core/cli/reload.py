"""``cronpad reload``: has the active process read its files again."""

from __future__ import annotations

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output

__all__ = ["command"]


@click.command()
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Have the active runner read its jobs files again: all of them valid, or nothing changes.

    As SIGHUP does, but what is wrong with the files is said here. Exit 2 if they are refused, 3 if no runner is active.
    """
    from cronpad_core.cli.control import ask_running

    out = Output(invocation)
    counts = ask_running(invocation, "reload", {})
    if out.wants_json:
        out.document("reload", [counts])
    else:
        words = {"add": "added", "change": "changed", "remove": "removed", "keep": "kept"}
        out.line(", ".join(f"{count} {words.get(kind, kind)}" for kind, count in counts.items()))
