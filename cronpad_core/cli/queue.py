"""``cronpad queue``: what is due, and what is in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Cell, Output, Styled
from cronpad_core.domain.timing import JsonValue, Millis, rfc3339

if TYPE_CHECKING:
    from cronpad_core.domain.dispatch import QueueLook
    from cronpad_core.ports.queue import QueueCounts, QueuedEntry
    from cronpad_core.ports.storage import Storage

__all__ = ["command"]

T = TypeVar("T")


@click.group()
def command() -> None:
    """Look at the queue of a state, or let it be made anew.

    The queue is an index of control and history: nothing is lost with it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stats:
    look: QueueLook
    counts: QueueCounts
    earliest_ms: Millis | None


@command.command("stats")
@click.pass_obj
def stats_command(invocation: Invocation) -> None:
    """How many entries are due or in flight, and who holds the lock."""

    async def read(storage: Storage) -> _Stats:
        return _Stats(
            look=await storage.queue.look(), counts=await storage.queue.counts(), earliest_ms=await storage.queue.earliest()
        )

    out, now_ms = Output(invocation), invocation.now_ms()
    found = _reading(invocation, out, read)
    late_ms = None if found.earliest_ms is None else max(0, now_ms - found.earliest_ms)
    if out.wants_json:
        item: dict[str, JsonValue] = {
            "due": found.counts.due,
            "in_flight": found.counts.in_flight,
            "earliest": rfc3339(found.earliest_ms),
            "late_ms": late_ms,
            "term": found.look.term,
            "locked": found.look.lock is not None,
            "heartbeat": rfc3339(found.look.heartbeat_ms),
        }
        out.document("queue-stats", [item])
        return
    out.line(f"due        {found.counts.due:,}")
    out.line(f"in flight  {found.counts.in_flight:,}")
    late = f"  (late by {late_ms / 1000:,.1f} s)" if late_ms else ""
    out.line(f"earliest   {rfc3339(found.earliest_ms) or '-'}", Styled(late, "warn"))
    out.line(f"lock       {'held' if found.look.lock is not None else 'free'}, term {found.look.term}")
    out.line(f"heartbeat  {rfc3339(found.look.heartbeat_ms) or '-'}")


@command.command("peek")
@click.option("--limit", metavar="N", type=click.IntRange(min=1, max=10_000), default=20, show_default=True, help="How many.")
@click.pass_obj
def peek_command(invocation: Invocation, limit: int) -> None:
    """The next entries, in the order in which they will be claimed."""

    async def read(storage: Storage) -> list[tuple[QueuedEntry, str | None]]:
        names: dict[str, str | None] = {}
        found = []
        for entry in await storage.queue.peek(limit=limit):
            job_id = entry.member.partition("|")[0]
            if job_id not in names:
                job = await storage.catalog.job(job_id)
                names[job_id] = None if job is None else job.spec.name
            found.append((entry, names[job_id]))
        return found

    out = Output(invocation)
    entries = _reading(invocation, out, read)
    if out.wants_json:
        out.document("queue", [_document(entry, name) for entry, name in entries])
        return
    rows: list[Sequence[Cell]] = [
        (
            str(rfc3339(entry.at_ms)),
            Styled(name or "-", "strong"),
            entry.member,
            Styled(f"held since {rfc3339(entry.held_since_ms)}" if entry.held_since_ms is not None else "", "warn"),
        )
        for entry, name in entries
    ]
    out.table(("due", "job", "entry", ""), rows)


def _document(entry: QueuedEntry, name: str | None) -> dict[str, JsonValue]:
    return {"entry": entry.member, "job": name, "due": rfc3339(entry.at_ms), "held_since": rfc3339(entry.held_since_ms)}


@command.command("rebuild")
@click.pass_obj
def rebuild_command(invocation: Invocation) -> None:
    """Set the queue of a state that nobody runs aside, so that the next start fills a new one from control and history.

    An active runner does that by itself where its queue is lost or damaged.
    """
    from cronpad_core.cli.db import caretaker

    out = Output(invocation)
    aside = asyncio.run(caretaker(invocation, out).rebuild_queue())
    if out.wants_json:
        out.document("queue-rebuild", [{"aside": None if aside is None else str(aside)}])
    elif aside is None:
        out.line("there is no queue; the next start makes one")
    else:
        out.line(f"the next start makes a new queue; the old one is {aside}")


def _reading(invocation: Invocation, out: Output, read: Callable[[Storage], Awaitable[T]]) -> T:
    """As ``looking_at``, with a word on a queue that cannot be read."""
    from cronpad_core.cli.state import looking_at
    from cronpad_core.domain.errors import NotFoundError, StoreDamagedError

    async def reading(storage: Storage) -> T:
        if (await storage.queue.look()).identity is None:
            raise NotFoundError("there is no queue that can be read", hint="the next start of 'cronpad run' makes a new one")
        try:
            return await read(storage)
        except StoreDamagedError as error:
            raise StoreDamagedError(
                error.message, hint="a running cronpad replaces it; else call 'cronpad queue rebuild'"
            ) from error

    return looking_at(invocation, out, reading)
