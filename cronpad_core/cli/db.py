"""``cronpad db``: looking after the files of a state."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output, Styled
from cronpad_core.domain.timing import JsonValue, Millis

if TYPE_CHECKING:
    from cronpad_core.ports.storage import FileFacts, Storage, StorageTools
    from cronpad_core.runtime.care import Caretaker

__all__ = ["caretaker", "command"]


@click.group()
def command() -> None:
    """Check, back up, restore, prune and upgrade the files of a state.

    The state is what --state or CRONPAD_STATE names, else .cronpad in the current directory.
    """


def caretaker(invocation: Invocation, out: Output) -> Caretaker:
    """What works on the state that the invocation names."""
    from cronpad_core.cli.plugin import host_of
    from cronpad_core.config.settings import load_settings
    from cronpad_core.runtime.care import Caretaker
    from cronpad_core.runtime.clock import SystemClock
    from cronpad_core.runtime.state import state_url

    settings = load_settings(Path(invocation.config) if invocation.config else None, invocation.environ, {})
    url = state_url(invocation.state, invocation.environ, [])
    return Caretaker(host_of(invocation, out).registry, url, settings, SystemClock(), say=out.say)


def _tools(invocation: Invocation, out: Output) -> StorageTools:
    from cronpad_core.cli.plugin import host_of
    from cronpad_core.config.settings import load_settings
    from cronpad_core.runtime.care import tools_of
    from cronpad_core.runtime.clock import SystemClock
    from cronpad_core.runtime.state import open_storage, state_url

    settings = load_settings(Path(invocation.config) if invocation.config else None, invocation.environ, {})
    url = state_url(invocation.state, invocation.environ, [])
    return tools_of(open_storage(host_of(invocation, out).registry, url, settings, SystemClock(), read_only=True))


@command.command("check")
@click.pass_context
def check_command(context: click.Context) -> None:
    """Read everything and name what cannot be right: exit 0 if nothing, 1 if something.

    Only reads, and may be called while a runner is active. Whether every slot has its outcome is what 'cronpad audit' checks.
    """
    invocation = context.ensure_object(Invocation)
    out = Output(invocation)
    tools = _tools(invocation, out)
    problems = asyncio.run(tools.check())
    facts = asyncio.run(tools.facts())
    if out.wants_json:
        items: list[dict[str, JsonValue]] = [{"file": one.file, "what": one.what, "detail": one.detail} for one in problems]
        out.document("db-check", items, files=[_facts_document(one) for one in facts])
    else:
        out.table(("file", "size", "log", "schema", "path"), [_facts_row(one) for one in facts])
        out.line()
        if problems:
            out.table(
                ("file", "what", "detail"),
                [(Styled(one.file, "strong"), Styled(one.what, "bad"), one.detail) for one in problems],
            )
        word = "problem" if len(problems) == 1 else "problems"
        out.line("checked: ", Styled(f"{len(problems):,} {word}", "bad" if problems else "good"))
    if problems:
        context.exit(1)


@command.command("backup")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.pass_obj
def backup_command(invocation: Invocation, directory: Path) -> None:
    """Copy control and history to DIR, a new directory. Works while a runner is active; the queue is not needed."""
    out = Output(invocation)
    copies = asyncio.run(_tools(invocation, out).backup(directory))
    if out.wants_json:
        out.document("db-backup", [{"path": str(path.absolute()), "bytes": path.stat().st_size} for path in copies])
        return
    for path in copies:
        out.line(f"{path}  {_size(path.stat().st_size)}")


@command.command("restore")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Take the place of a state that is there; its files are kept under other names.")
@click.pass_obj
def restore_command(invocation: Invocation, directory: Path, force: bool) -> None:
    """Put the backup in DIR in the place of the state, which nobody may have open.

    The queue is removed: the next start makes a new one. The ledger of every job begins with the restore, since what became of
    slots between the backup and now is not known; slots that are due since the backup are decided by their misfire policies.
    """
    out = Output(invocation)
    restored = asyncio.run(caretaker(invocation, out).restore(directory, aside=force))
    if out.wants_json:
        items: list[dict[str, JsonValue]] = [{"path": str(path)} for path in restored.files]
        out.document("db-restore", items, aside=[str(path) for path in restored.aside])
        return
    for path in restored.files:
        out.line(f"restored  {path}")
    for path in restored.aside:
        out.line(f"kept as   {path}")


@command.command("prune")
@click.option("--keep-for", metavar="DURATION", help="Keep runs of this long, such as 90d (history.keep_for).")
@click.option("--keep-runs", metavar="N", type=click.IntRange(min=0), help="Keep so many runs of each job (history.keep_runs).")
@click.option("--keep-mb", metavar="N", type=click.IntRange(min=0), help="Keep so many megabytes in all (history.keep_mb).")
@click.option("--dry-run", is_flag=True, help="Only count what would go; what goes for its size is not known before.")
@click.pass_obj
def prune_command(
    invocation: Invocation, keep_for: str | None, keep_runs: int | None, keep_mb: int | None, dry_run: bool
) -> None:
    """Remove old runs now, from a state that nobody runs; an active runner prunes by itself, as its settings say.

    What is not given is taken from the settings, and 0 is no limit. Runs that have not ended always stay.
    """
    from cronpad_core.config.settings import load_settings
    from cronpad_core.runtime.chores import keep_of

    out = Output(invocation)
    settings = load_settings(Path(invocation.config) if invocation.config else None, invocation.environ, {})
    keep = keep_of(settings, for_ms=_duration(keep_for), runs=keep_runs, mb=keep_mb)
    if dry_run:
        from cronpad_core.cli.state import looking_at
        from cronpad_core.control.pruning import Going, would_go

        async def read(storage: Storage) -> Going:
            return await would_go(storage, keep=keep, now_ms=invocation.now_ms())

        going = looking_at(invocation, out, read)
        runs, ranges = going.runs, going.ranges
    else:
        pruned = asyncio.run(caretaker(invocation, out).prune(keep))
        runs, ranges = pruned.runs, pruned.ranges
    if out.wants_json:
        out.document("db-prune", [{"runs": runs, "ranges": ranges}], dry_run=dry_run)
        return
    verb = "would remove" if dry_run else "removed"
    out.line(f"{verb} {_many(runs, 'run')} and {_many(ranges, 'range')} of missed or dropped slots")


@command.command("upgrade")
@click.pass_obj
def upgrade_command(invocation: Invocation) -> None:
    """Bring a state that nobody runs to the present schema, after a copy. 'cronpad run' does the same when it starts."""
    out = Output(invocation)
    done = asyncio.run(caretaker(invocation, out).upgrade())
    if out.wants_json:
        items: list[dict[str, JsonValue]] = [
            {"file": one.name, "from": one.before, "to": one.after, "copies": [str(path) for path in one.copies]} for one in done
        ]
        out.document("db-upgrade", items)
        return
    for one in done:
        if one.before == one.after:
            out.line(f"{one.name}: schema {one.after}, nothing to do")
        else:
            copies = "".join(f"; copied before to {path}" for path in one.copies)
            out.line(f"{one.name}: ", Styled(f"schema {one.before} to {one.after}", "good"), copies)


def _duration(text: str | None) -> Millis | None:
    from cronpad_core.config.durations import DurationFault, parse_duration

    if text is None or text == "0":
        return None if text is None else 0
    try:
        return parse_duration(text)
    except DurationFault as fault:
        near = f"; write {fault.suggestion}" if fault.suggestion else ""
        raise click.BadParameter(f"{text!r}: {fault}{near}", param_hint="'--keep-for'") from fault


def _facts_document(one: FileFacts) -> dict[str, JsonValue]:
    return {
        "file": one.name,
        "path": str(one.path),
        "bytes": one.size,
        "wal_bytes": one.log_size,
        "schema": one.found,
        "known_schema": one.known,
    }


def _facts_row(one: FileFacts) -> tuple[str | Styled, ...]:
    schema = "-" if one.found is None else str(one.found) if one.found == one.known else f"{one.found} (known: {one.known})"
    return Styled(one.name, "strong"), _size(one.size), _size(one.log_size), schema, str(one.path)


def _size(size: int) -> str:
    return f"{size:,} B" if size < 10_000 else f"{size / 1_000:,.0f} kB" if size < 10_000_000 else f"{size / 1_000_000:,.0f} MB"


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
