"""``cronpad plugin``: what is installed, what became of it, and what it can be told."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Cell, Output, Styled
from cronpad_core.domain.errors import PluginError
from cronpad_core.domain.timing import JsonValue

if TYPE_CHECKING:
    from cronpad_core.host.entries import Entry
    from cronpad_core.host.loader import PluginHost
    from cronpad_core.host.records import PluginRecord
    from cronpad_core.host.report import PluginDetails, TypeDetails

__all__ = ["command", "host_of"]

_ANSWERS = {"good": "good", "bad": "bad", "unknown": "dim"}
_STYLES = {"loaded": "good", "disabled": "dim", "failed": "bad", "incompatible": "bad"}


@click.group()
def command() -> None:
    """List, show, check and begin plugins."""


@command.command("list")
@click.pass_context
def list_plugins(context: click.Context) -> None:
    """All installed plugins and what they bring.

    Exit 5 if two of them claim one name, 1 if one is not as it should be.
    """
    invocation = context.ensure_object(Invocation)
    out = Output(invocation)
    host = host_of(invocation, out, for_report=True)
    if out.wants_json:
        out.document("plugins", [_row(one) for one in host.plugins], notes=list(host.notes), clashes=list(host.clashes))
    else:
        rows: list[list[Cell]] = []
        for one in host.plugins:
            brings = ", ".join(f"{kind} {name}" for kind, name in one.types)
            state = Styled(one.state.value, _STYLES[one.state.value])
            source = f"{one.distribution} {one.version}"
            rows.append([Styled(one.name, "strong"), state, source, f"{one.load_ms:.1f} ms", brings or one.reason])
        out.table(("plugin", "state", "distribution", "loaded in", "brings"), rows)
        for note in host.notes:
            out.warn(note)
    if host.clashes:
        raise PluginError("; ".join(host.clashes), hint="uninstall one, or name it in CRONPAD_PLUGINS_DISABLED")
    if host.notes:
        context.exit(1)


@command.command("show")
@click.argument("name")
@click.pass_context
def show_plugin(context: click.Context, name: str) -> None:
    """One plugin and the settings of its types.

    NAME is a plugin, its distribution or one of its types. With --json the settings are JSON Schemas.
    """
    invocation = context.ensure_object(Invocation)
    out = Output(invocation)
    from cronpad_core.host.report import plugin_details

    details = plugin_details(host_of(invocation, out, for_report=True), name)
    if out.wants_json:
        out.document("plugin", [{**_row(details.plugin), "hooks": list(details.hooks), "details": _schemas(details)}])
        return
    one = details.plugin
    out.line(Styled(one.name, "strong"), "   ", Styled(one.state.value, _STYLES[one.state.value]))
    out.line(f"distribution  {one.distribution} {one.version}")
    out.line(f"entry point   {one.entry_point}")
    if one.api is not None:
        out.line(f"API           {one.api}")
        out.line(f"loaded in     {one.load_ms:.1f} ms")
    if one.reason:
        out.line(f"reason        {one.reason}")
    if details.hooks:
        out.line(f"listens to    {', '.join(details.hooks)}")
    for note in one.notes:
        out.line("- ", Styled("warning:", "warn"), f" {note}")
    for each in details.types:
        _show_type(out, each)


@command.command("new")
@click.argument("kind", type=click.Choice(["sink", "misfire", "alert", "storage"]))
@click.argument("name")
@click.option(
    "--into", type=click.Path(path_type=Path), default=Path(), help="The folder to write it in (this one).", metavar="DIR"
)
@click.pass_obj
def new_plugin(invocation: Invocation, kind: str, name: str, into: Path) -> None:
    """Write a package to start a plugin from: cronpad-NAME, with settings, tests and a README.

    Nothing is fetched. Its tests pass at once; they need cronpad-testkit. An existing folder is never touched.
    """
    from cronpad_core.control.new_plugin import NewPlugin, write_plugin

    out = Output(invocation)
    wanted = NewPlugin(kind=kind, name=name, into=into, version=version("cronpad-core"))
    written = write_plugin(wanted, host_of(invocation, out, for_report=True))
    if out.wants_json:
        out.document("plugin-new", [{"path": str(path)} for path in written], folder=str(wanted.folder))
        return
    for path in written:
        out.line(f"wrote {path}")
    out.say(f"next: cd {wanted.folder} && python -m pytest, then pip install .")


@command.command("check")
@click.argument("which", metavar="PATH|NAME")
@click.pass_context
def check(context: click.Context, which: str) -> None:
    """Whether a plugin is as it should be: an installed one, or the project in a folder.

    It is loaded, its hooks are held against those that there are, its settings are looked at, and the tests of a project are run,
    which adopt the conformance suites of cronpad-testkit. Exit 0 if nothing is wrong, 1 with findings, 5 if it cannot be loaded.
    """
    from cronpad_core.control.plugin_check import Answer, check_plugin
    from cronpad_core.host.one_off import entries_of_project
    from cronpad_core.host.report import plugin_details

    invocation = context.ensure_object(Invocation)
    out = Output(invocation)
    project = Path(which) if os.sep in which or Path(which).is_dir() else None
    further = entries_of_project(project) if project is not None else ()
    host = host_of(invocation, out, for_report=True, further=further)
    names = {(one.name, one.distribution) for one in further}
    plugins = [one for one in host.plugins if (one.name, one.distribution) in names]
    if project is None:
        plugins = [plugin_details(host, which).plugin]
    code, items = 0, list[dict[str, JsonValue]]()
    for plugin in plugins:
        for one in check_plugin(host, plugin, project, invocation.environ):
            if one.answer is Answer.BAD:
                code = max(code, 5 if one.check == "loads" else 1)
            items.append({"plugin": plugin.name, "check": one.check, "answer": one.answer.value, "text": one.text})
            if not out.wants_json:
                out.line(Styled(f"{one.answer.value:7}", _ANSWERS[one.answer.value]), f"  {one.check:11}  {one.text}")
    if out.wants_json:
        out.document("plugin-check", items)
    context.exit(code)


def host_of(
    invocation: Invocation, out: Output, *, for_report: bool = False, files: Iterable[Path] = (), further: Iterable[Entry] = ()
) -> PluginHost:
    """Loads the plugins as the global options say; each that is not as it should be is said on stderr (not ``for_report``).

    With those of ``--plugins-dir``, of ``cronpad_plugins.py`` beside each of ``files``, and ``further`` ones.
    """
    from cronpad_core.host import load_plugins
    from cronpad_core.host.one_off import entries_beside, entries_in_folder

    def trace(hook: str, plugin: str, ms: float, raised: str | None) -> None:
        out.say(f"trace: {hook} of {plugin}: {ms:.2f} ms" + (f", raised {raised}" if raised else ""), "dim", level=-9)

    folder = invocation.plugins_dir
    host = load_plugins(
        invocation.environ,
        further=(*entries_beside(files), *(entries_in_folder(Path(folder)) if folder else ()), *further),
        disabled_all=invocation.no_plugins,
        trace=trace if invocation.trace_plugins else None,
        for_report=for_report,
    )
    if not for_report:
        for note in host.notes:
            out.warn(note)
    return host


def _show_type(out: Output, each: TypeDetails) -> None:
    out.line()
    out.line(Styled(f"{each.kind} {each.name}", "strong"), f"   {each.doc}")
    if each.capabilities:
        out.line(f"can: {', '.join(each.capabilities)}")
    if not each.settings:
        out.line("no settings")
        return
    rows = [(one.name, one.values, "(required)" if one.required else one.default or "", one.doc) for one in each.settings]
    out.table(("setting", "values", "default", ""), rows)


def _row(one: PluginRecord) -> dict[str, JsonValue]:
    return {
        "name": one.name,
        "state": one.state.value,
        "reason": one.reason,
        "distribution": one.distribution,
        "version": one.version,
        "entry_point": one.entry_point,
        "api": one.api,
        "load_ms": round(one.load_ms, 3),
        "types": [{"kind": kind, "name": name} for kind, name in one.types],
        "notes": list(one.notes),
    }


def _schemas(details: PluginDetails) -> list[JsonValue]:
    return [
        {
            "kind": one.kind,
            "name": one.name,
            "doc": one.doc,
            "capabilities": list(one.capabilities),
            "settings": dict(one.schema),
        }
        for one in details.types
    ]
