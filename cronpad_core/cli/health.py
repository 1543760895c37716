"""``cronpad health``: for container checks, monitors and people; answers from one small file."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output, Styled
from cronpad_core.domain.errors import NotFoundError, NotRunningError
from cronpad_core.domain.timing import JsonValue
from cronpad_core.runtime.clock import SystemClock
from cronpad_core.runtime.health import STORES, Pulse, read_pulse

__all__ = ["command"]


@click.command()
@click.option("--ready", is_flag=True, help="Answer whether work is begun: exit 0 if ok or degraded, 1 if unready.")
@click.pass_context
def command(context: click.Context, ready: bool) -> None:
    """Whether the dispatcher of a state is well: exit 0 if so, 1 if not, 3 if none runs.

    A dispatcher that works and whose state should be looked after is degraded, which is well enough; what to look at is named by
    codes. With --ready, a state that nobody dispatches on is unready. A standby says nothing of itself: the answer is about the
    active process. The state is what --state or CRONPAD_STATE names, else .cronpad in the current directory.
    """
    invocation = context.ensure_object(Invocation)
    out = Output(invocation)
    directory = _directory(invocation)
    if not directory.is_dir():
        raise NotFoundError(f"there is no state in {directory}", hint="name its directory with --state DIR or CRONPAD_STATE")
    pulse = read_pulse(directory)
    if pulse is not None and pulse.dispatcher == "stopped":
        pulse = None
    if ready:
        context.exit(_show_readiness(out, pulse))
    if pulse is None:
        raise NotRunningError(f"no cronpad dispatches on {directory}", hint="start one with 'cronpad run FILE --state DIR'")
    context.exit(_show_health(out, pulse))


def _directory(invocation: Invocation) -> Path:
    given = invocation.state or invocation.environ.get("CRONPAD_STATE") or ".cronpad"
    if given.startswith("sqlite://"):
        path = Path("/" + unquote(given.removeprefix("sqlite://")).lstrip("/"))
        return path.parent if path.suffix == ".db" else path
    return Path(given)


def _show_health(out: Output, pulse: Pulse) -> int:
    clock = SystemClock()
    problems = pulse.problems(clock)
    if out.wants_json:
        item: dict[str, JsonValue] = {
            "healthy": not problems,
            "dispatcher": pulse.dispatcher,
            "pid": pulse.pid,
            "term": pulse.term,
            "running": pulse.running,
            "problems": list(problems),
        }
        out.document("health", [item | pulse.readiness(clock)])
    elif problems:
        out.line(Styled("unhealthy", "bad"), f": {'; '.join(problems)}")
    else:
        out.line(Styled("healthy", "good"), f": {pulse.dispatcher}, {pulse.running} running, process {pulse.pid}")
        if pulse.degraded:
            out.line(Styled("degraded", "warn"), f": {', '.join(pulse.degraded)}")
    return 1 if problems else 0


def _show_readiness(out: Output, pulse: Pulse | None) -> int:
    clock = SystemClock()
    document: dict[str, JsonValue]
    if pulse is None:
        document = {"status": "unready", "dispatcher": "stopped", **dict.fromkeys(STORES, "unknown")}
        document |= {"heartbeat_age_s": None, "degraded": []}
        problems: tuple[str, ...] = ("nobody dispatches",)
    else:
        document, problems = pulse.readiness(clock), pulse.problems(clock)
    status = str(document["status"])
    if out.wants_json:
        out.document("ready", [document])
    else:
        more = problems or (() if pulse is None else pulse.degraded)
        style = {"ok": "good", "degraded": "warn"}.get(status, "bad")
        out.line(Styled(status, style), f": {', '.join(more)}" if more else "")
    return 1 if status == "unready" else 0
