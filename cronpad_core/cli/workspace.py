"""``cronpad workspace``: groups of jobs, and their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Cell, Output, Styled
from cronpad_core.domain.timing import JsonValue

if TYPE_CHECKING:
    from cronpad_core.ports.storage import Storage

__all__ = ["command"]

Document = Mapping[str, JsonValue]


@click.group()
def command() -> None:
    """List, show and limit workspaces."""


@command.command("list")
@click.pass_obj
def list_command(invocation: Invocation) -> None:
    """Every workspace that a job names or that something was set of, with what it has used this month."""
    from cronpad_core.cli.state import looking_at
    from cronpad_core.control.documents import workspace_document
    from cronpad_core.control.workspaces import list_workspaces

    async def read(storage: Storage) -> list[Document]:
        found = await list_workspaces(storage.catalog, storage.history, now_ms=invocation.now_ms())
        return [workspace_document(one) for one in found]

    out = Output(invocation)
    items = looking_at(invocation, out, read)
    if out.wants_json:
        out.document("workspaces", items)
        return
    rows: list[Sequence[Cell]] = [
        (Styled(str(one["workspace"]), "strong"), _state(one), _quota(one), str(one["used"]), _cap(one), str(one["reason"]))
        for one in items
    ]
    out.table(("workspace", "state", "quota", "used", "at once", "reason"), rows)


@command.command("show")
@click.argument("name")
@click.pass_obj
def show_command(invocation: Invocation, name: str) -> None:
    """One workspace: whether it is suspended, its limits, and what it has used this month (of UTC)."""
    from cronpad_core.cli.state import looking_at
    from cronpad_core.control.documents import workspace_document
    from cronpad_core.control.workspaces import show_workspace

    async def read(storage: Storage) -> Document:
        return workspace_document(await show_workspace(storage.catalog, storage.history, name, now_ms=invocation.now_ms()))

    out = Output(invocation)
    _show(out, looking_at(invocation, out, read))


@command.command("set")
@click.argument("name")
@click.option("--suspend", is_flag=True, help="Skip the slots of its jobs until it is resumed.")
@click.option("--reason", metavar="TEXT", help="Why it is suspended.")
@click.option("--resume", is_flag=True, help="End a suspension.")
@click.option("--quota", metavar="N|none", help="How many runs it may open in a calendar month of UTC.")
@click.option("--quota-mode", type=click.Choice(["block", "warn"]), help="Skip what is over the quota, or only tell of it.")
@click.option("--concurrency", metavar="N|none", help="How many of its runs may run at once; further ones wait.")
@click.pass_obj
def set_command(
    invocation: Invocation,
    name: str,
    suspend: bool,
    reason: str | None,
    resume: bool,
    quota: str | None,
    quota_mode: str | None,
    concurrency: str | None,
) -> None:
    """Change what is given of a workspace, and leave the rest as it is; it may be one that no job names yet."""
    from cronpad_core.cli.control import ask

    if suspend and resume:
        raise click.UsageError("--suspend and --resume do not go together; give one of them.")
    arguments: dict[str, JsonValue] = {"workspace": name}
    if suspend or resume:
        arguments["suspended"] = suspend
    if reason is not None:
        arguments["reason"] = reason
    if quota is not None:
        arguments["quota"] = _limit(quota, "--quota")
    if quota_mode is not None:
        arguments["quota_blocking"] = quota_mode == "block"
    if concurrency is not None:
        arguments["concurrency"] = _limit(concurrency, "--concurrency")
    if len(arguments) == 1:
        raise click.UsageError("Give at least one thing to change.")
    out = Output(invocation)
    _show(out, ask(invocation, out, "workspace-set", arguments).result)


def _limit(text: str, option: str) -> int | None:
    if text == "none":
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise click.BadParameter(f"{text!r} is neither a number nor none", param_hint=f"'{option}'")
    return int(text)


def _show(out: Output, found: Document) -> None:
    if out.wants_json:
        out.document("workspace", [found])
        return
    out.line(Styled(str(found["workspace"]), "strong"), "  ", _state(found), f"  {found['reason']}" if found["reason"] else "")
    out.line(f"quota    {_quota(found)}; used in {found['month']}: {found['used']}")
    out.line(f"at once  {_cap(found)}")


def _state(found: Document) -> Styled:
    return Styled("suspended", "warn") if found["suspended"] else Styled("active", "good")


def _quota(found: Document) -> str:
    if found["quota"] is None:
        return "none"
    return f"{found['quota']} a month, then {'skipped' if found['quota_blocking'] else 'told of'}"


def _cap(found: Document) -> str:
    return "no limit" if found["concurrency"] is None else str(found["concurrency"])
