"""``cronpad alerts``: what waits to be told, what was told, and what could not be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Cell, Output, Styled
from cronpad_core.domain.outbox import AlertStatus
from cronpad_core.domain.timing import SECOND, JsonValue, Millis, from_ms

if TYPE_CHECKING:
    from cronpad_core.control.alerts import AlertsView
    from cronpad_core.ports.storage import Storage

__all__ = ["command"]

_STYLES: Final = {"delivered": "good", "undelivered": "bad", "snoozed": "warn", "pending": "info"}
_WITHIN_MS: Final[Millis] = 60 * SECOND


@click.group()
def command() -> None:
    """List alerts, try one out, put one off."""


@command.command("list")
@click.option("--alert", metavar="NAME", help="Only this alert.")
@click.option("--status", "statuses", multiple=True, type=click.Choice([one.value for one in AlertStatus]), help="Only these.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="How many, newest first.")
@click.pass_obj
def list_command(invocation: Invocation, alert: str | None, statuses: tuple[str, ...], limit: int) -> None:
    """The newest alerts: pending, delivered, undelivered; and which alerts are snoozed or failing."""
    from cronpad_core.cli.state import looking_at
    from cronpad_core.control.alerts import list_alerts
    from cronpad_core.control.documents import alert_document, channel_document

    async def read(storage: Storage) -> AlertsView:
        wanted = [AlertStatus(one) for one in statuses]
        return await list_alerts(storage.history, name=alert, statuses=wanted, limit=limit)

    out = Output(invocation)
    view, now_ms = looking_at(invocation, out, read), invocation.now_ms()
    snoozed = {one.name for one in view.channels if one.snoozed_until_ms > now_ms}
    items = [alert_document(one, snoozed=one.name in snoozed) for one in view.entries]
    if out.wants_json:
        out.document("alerts", items, channels=[dict(channel_document(one)) for one in view.channels])
        return
    rows: list[Sequence[Cell]] = [
        (
            Styled(str(one["alert"]), "strong"),
            Styled(str(one["state"]), _STYLES[str(one["state"])]),
            str(one["kind"]),
            _local(one["created_at_ms"]),
            str(one["tries"]),
            str(one["error"] or one["text"]),
        )
        for one in items
    ]
    out.table(("alert", "state", "kind", "since", "tries", "what"), rows)
    for channel in view.channels:
        if channel.name in snoozed:
            out.say(f"{channel.name} is snoozed until {_local(channel.snoozed_until_ms)}", "warn")
        if channel.failures:
            out.say(f"{channel.name} fails: {channel.failures} tries in a row", "bad")
        if channel.dropped:
            out.say(f"{channel.name}: {channel.dropped} were dropped, because too many waited", "bad")


@command.command("snooze")
@click.argument("name")
@click.option("--for", "for_", metavar="DURATION", required=True, help="For how long, such as 2h; 0s ends it.")
@click.pass_obj
def snooze_command(invocation: Invocation, name: str, for_: str) -> None:
    """Put an alert off: nothing of it is sent for that long, and what happens meanwhile is told together afterwards.

    What is over by then is not told at all.
    """
    from cronpad_core.cli.control import ask, duration_of

    out = Output(invocation)
    found = ask(invocation, out, "alert-snooze", {"alert": name, "for_ms": duration_of(for_, "--for")}).result
    if out.wants_json:
        out.document("alert", [found])
    elif found["snoozed_until_at"] is None:
        out.line(Styled(name, "strong"), "  ", Styled("not snoozed", "good"))
    else:
        out.line(Styled(name, "strong"), "  ", Styled("snoozed", "warn"), f" until {_local(found['snoozed_until_at_ms'])}")


@command.command("test")
@click.argument("name")
@click.option(
    "--file", "files", multiple=True, type=click.Path(path_type=Path), help="Read the alert from there, and send it from here."
)
@click.pass_context
def test_command(context: click.Context, name: str, files: tuple[Path, ...]) -> None:
    """Send a test alert now, and say whether it went: by the active runner, or from here with --file.

    Exit 0 if it was sent, 1 if not, 3 if no runner is active.
    """
    from cronpad_core.cli.control import ask_running

    invocation = context.ensure_object(Invocation)
    out = Output(invocation)
    if files:
        error = asyncio.run(_send_from_here(invocation, out, name, files))
        found: dict[str, JsonValue] = {"alert": name, "sent": error is None, "error": error}
    else:
        found = dict(ask_running(invocation, "alert-test", {"alert": name}, within_ms=_WITHIN_MS))
    if out.wants_json:
        out.document("alert-test", [found])
    elif found["sent"]:
        out.line(Styled(name, "strong"), "  ", Styled("sent", "good"))
    else:
        out.line(Styled(name, "strong"), "  ", Styled("not sent", "bad"), f"  {found['error']}")
    if not found["sent"]:
        context.exit(1)


async def _send_from_here(invocation: Invocation, out: Output, name: str, files: Sequence[Path]) -> str | None:
    from cronpad_core.cli.plugin import host_of
    from cronpad_core.config.jobsfile import load_jobs
    from cronpad_core.runtime.alert_test import send_from_here

    registry = host_of(invocation, out).registry
    loaded = load_jobs(
        files,
        sinks=registry.sink_models(),
        misfires=registry.misfire_models(),
        emitters=registry.emitter_models(),
        environ=invocation.environ,
        unavailable=registry.unavailable(),
    )
    return await send_from_here(registry, loaded.alerts, name, environ=invocation.environ, now_ms=invocation.now_ms())


def _local(at_ms: JsonValue) -> str:
    return from_ms(at_ms).astimezone().strftime("%Y-%m-%d %H:%M:%S") if isinstance(at_ms, int) else "-"
