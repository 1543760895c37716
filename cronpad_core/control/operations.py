"""The one table of control operations: every surface (socket, command line, later the API) goes through :func:`perform`.

====================  ================================================================================================
operation             arguments (those with a ? may be left out)
====================  ================================================================================================
``trigger``           ``job``, ``payload``? (JSON), ``token``?, ``overlap``?
``backfill``          ``job``, ``from_ms``, ``to_ms``, ``overlap``?, ``dry_run``?, ``force``?
``backfill-cancel``   ``backfill`` (its id)
``job-pause``         ``job``, ``reason``?, ``until_ms``?
``job-resume``        ``job``
``run-cancel``        ``run``, ``reason``?
``run-retry``         ``run``, ``token``?
``alert-snooze``      ``alert``, ``for_ms`` (0 ends it)
``workspace-set``     ``workspace``, ``suspended``?, ``reason``?, ``quota``?, ``quota_blocking``?, ``concurrency``?
====================  ================================================================================================

``job`` is a name or an id; ``run`` an id, the beginning of one, or a job's name for its newest run. ``overlap`` is a policy's
word or ``{"policy": word, "max": number}``. ``…_ms`` are Unix milliseconds. ``quota`` and ``concurrency`` are numbers;
``null`` takes the limit away, and what is left out stays as it is.

Answers are JSON documents. Each instant is in them twice: ``x_at`` in RFC 3339 and ``x_at_ms`` as a number; ``null`` for none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from cronpad_core.control.alerts import snooze
from cronpad_core.control.arguments import Arguments
from cronpad_core.control.backfills import cancel_backfill, plan_backfill, start_backfill
from cronpad_core.control.desk import Desk
from cronpad_core.control.documents import backfill_document, channel_document, job_document, run_document, workspace_document
from cronpad_core.control.pausing import pause, resume
from cronpad_core.control.queries import find_job, find_run
from cronpad_core.control.runs import cancel, retry
from cronpad_core.control.trigger import trigger
from cronpad_core.control.workspaces import CLEAR, LimitChange, set_workspace, show_workspace
from cronpad_core.domain.errors import ConfigurationError
from cronpad_core.domain.timing import JsonValue

__all__ = ["OPERATIONS", "perform"]

Document = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class _Operation:
    call: Callable[[Desk, Arguments], Awaitable[Document]]
    arguments: tuple[str, ...]


async def perform(desk: Desk, name: str, arguments: Mapping[str, JsonValue]) -> Document:
    """Does it, and answers a JSON document once what it did is durable.

    Raises ``ConfigurationError`` for an unknown operation or a wrong argument, ``NotFoundError``, ``CronpadError`` where the
    state of a thing does not allow it, ``TermRefusedError`` where this process does not dispatch, and ``StoreError``.
    """
    operation = _TABLE.get(name)
    if operation is None:
        raise ConfigurationError(f'unknown operation "{name[:60]}"', hint=f"there are {', '.join(_TABLE)}")
    return await operation.call(desk, Arguments(name, arguments, operation.arguments))


async def _trigger(desk: Desk, given: Arguments) -> Document:
    word, payload, token, overlap = (
        given.text("job"),
        given.json("payload"),
        given.text_or_none("token"),
        given.overlap("overlap"),
    )
    job = await find_job(desk.catalog, word)
    answer = await trigger(desk, job, payload=payload, token=token, overlap=overlap)
    return {**run_document(answer.run), "created": answer.created}


async def _backfill(desk: Desk, given: Arguments) -> Document:
    word, from_ms, to_ms = given.text("job"), given.instant("from_ms"), given.instant("to_ms")
    overlap, dry_run, force = given.overlap("overlap"), given.flag("dry_run"), given.flag("force")
    job = await find_job(desk.catalog, word)
    plan = plan_backfill(job, from_ms, to_ms, schedules=desk.schedules, now_ms=desk.now_ms())
    if dry_run:
        return {**backfill_document(job, plan, None), "created": False}
    answer = await start_backfill(desk, plan, overlap=overlap, force=force)
    return {**backfill_document(job, plan, answer.backfill), "created": answer.created}


async def _backfill_cancel(desk: Desk, given: Arguments) -> Document:
    found = await cancel_backfill(desk, given.text("backfill"))
    job = await desk.catalog.job(found.job_id)
    return backfill_document(job, None, found)


async def _job_pause(desk: Desk, given: Arguments) -> Document:
    word, reason, until_ms = given.text("job"), given.text_or_none("reason"), given.instant_or_none("until_ms")
    job = await find_job(desk.catalog, word)
    return job_document(await pause(desk, job, reason=reason, until_ms=until_ms))


async def _job_resume(desk: Desk, given: Arguments) -> Document:
    job = await find_job(desk.catalog, given.text("job"))
    return job_document(await resume(desk, job))


async def _run_cancel(desk: Desk, given: Arguments) -> Document:
    word, reason = given.text("run"), given.text_or_none("reason")
    run = await find_run(desk.catalog, desk.history, word)
    answer = await cancel(desk, run, reason=reason)
    return {**run_document(answer.run), "told": answer.told}


async def _run_retry(desk: Desk, given: Arguments) -> Document:
    word, token = given.text("run"), given.text_or_none("token")
    run = await find_run(desk.catalog, desk.history, word)
    answer = await retry(desk, run, token=token)
    return {**run_document(answer.run), "created": answer.created}


async def _alert_snooze(desk: Desk, given: Arguments) -> Document:
    return channel_document(await snooze(desk, given.text("alert"), for_ms=given.instant("for_ms")))


async def _workspace_set(desk: Desk, given: Arguments) -> Document:
    name, suspended, reason = given.text("workspace"), given.flag_or_none("suspended"), given.text_or_none("reason")
    quota, concurrency = _limit(given, "quota", 0), _limit(given, "concurrency", 1)
    blocking = given.flag_or_none("quota_blocking")
    stored = await set_workspace(
        desk, name, suspended=suspended, reason=reason, quota=quota, quota_blocking=blocking, concurrency=concurrency
    )
    shown = await show_workspace(desk.catalog, desk.history, stored.name, now_ms=desk.now_ms())
    return workspace_document(shown)


def _limit(given: Arguments, name: str, low: int) -> LimitChange:
    value = given.count(name, low=low)
    return CLEAR if value is None and given.has(name) else value


_TABLE: Final[Mapping[str, _Operation]] = {
    "trigger": _Operation(_trigger, ("job", "payload", "token", "overlap")),
    "backfill": _Operation(_backfill, ("job", "from_ms", "to_ms", "overlap", "dry_run", "force")),
    "backfill-cancel": _Operation(_backfill_cancel, ("backfill",)),
    "job-pause": _Operation(_job_pause, ("job", "reason", "until_ms")),
    "job-resume": _Operation(_job_resume, ("job",)),
    "run-cancel": _Operation(_run_cancel, ("run", "reason")),
    "run-retry": _Operation(_run_retry, ("run", "token")),
    "alert-snooze": _Operation(_alert_snooze, ("alert", "for_ms")),
    "workspace-set": _Operation(_workspace_set, ("workspace", "suspended", "reason", "quota", "quota_blocking", "concurrency")),
}

OPERATIONS: Final = tuple(_TABLE)
"""The names of all operations."""
