"""``cronpad jobs pause`` and ``resume``."""

from __future__ import annotations

from collections.abc import Mapping

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output, Styled
from cronpad_core.domain.timing import JsonValue

__all__ = ["pause_command", "resume_command"]


@click.command("pause")
@click.argument("job")
@click.option("--reason", metavar="TEXT", help="Why, for whoever looks at the job.")
@click.option("--until", metavar="TIME|DURATION", help="Resume by itself at this time, or after this long; a TIME is local.")
@click.pass_obj
def pause_command(invocation: Invocation, job: str, reason: str | None, until: str | None) -> None:
    """Let no scheduled run of JOB (a name or an id) begin until it is resumed.

    What is running finishes. A pause has no slots: nothing in it is missed or caught up with. It may still be triggered.
    """
    from cronpad_core.cli.control import ask, instant_of

    out = Output(invocation)
    until_ms = None if until is None else instant_of(until, "--until", invocation.now_ms(), ahead=True)
    arguments: dict[str, JsonValue] = {"job": job, "reason": reason, "until_ms": until_ms}
    _show(out, ask(invocation, out, "job-pause", arguments).result)


@click.command("resume")
@click.argument("job")
@click.pass_obj
def resume_command(invocation: Invocation, job: str) -> None:
    """Let JOB (a name or an id) go on with its next fire after now."""
    from cronpad_core.cli.control import ask

    out = Output(invocation)
    _show(out, ask(invocation, out, "job-resume", {"job": job}).result)


def _show(out: Output, found: Mapping[str, JsonValue]) -> None:
    if out.wants_json:
        out.document("job", [found])
        return
    paused = found["status"] == "paused"
    out.line(Styled(str(found["job"]), "strong"), "  ", Styled(str(found["status"]), "warn" if paused else "good"))
    if found["paused_until_at"]:
        out.line(f"until  {found['paused_until_at']}")
    if found["paused_reason"]:
        out.line(f"why    {found['paused_reason']}")
    if found["next_run_at"]:
        out.line(f"next   {found['next_run_at']}")
