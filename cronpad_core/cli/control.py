"""Asking for something: of the process that dispatches on the state, or of the state itself where none does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output, Styled
from cronpad_core.domain.errors import NotFoundError, NotRunningError, TermRefusedError
from cronpad_core.domain.timing import SECOND, JsonValue, Millis, to_ms
from cronpad_core.runtime.clock import SystemClock
from cronpad_core.runtime.control_client import ANSWERED_MS, ControlClient
from cronpad_core.runtime.control_protocol import socket_name, socket_path
from cronpad_core.runtime.state import state_url

if TYPE_CHECKING:
    from cronpad_core.runtime.direct import DirectState

__all__ = ["Answer", "ask", "ask_running", "duration_of", "instant_of", "json_of", "show_started"]

_PATIENCE_MS: Final[Millis] = 10 * SECOND
_TAKEOVER_MS: Final[Millis] = 15 * SECOND
_PAUSE_MS: Final[Millis] = SECOND // 4

Document = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the operation answered; ``running`` says that a process dispatches on the state, and did it."""

    result: Document
    running: bool


def ask(invocation: Invocation, out: Output, operation: str, arguments: Document) -> Answer:
    """Has one operation done, and answers once it is durable. What is ``None`` in ``arguments`` must mean something.

    Raises ``NotFoundError`` where there is no state, ``LockHeldError`` where a process holds it that cannot be reached, and
    whatever the operation raises.
    """
    return asyncio.run(_ask(invocation, out, operation, arguments))


async def _ask(invocation: Invocation, out: Output, operation: str, arguments: Document) -> Answer:
    url = _url(invocation)
    path = socket_path(url)
    found = None if path is None else await _reach(path, operation, arguments)
    if found is not None:
        return Answer(result=found, running=True)
    from cronpad_core.control.operations import perform

    clock = SystemClock()
    async with _direct(invocation, out, url, clock) as state:
        if path is None and state.storage.directory is not None:
            path = state.storage.directory / socket_name(url)
        end_ms = clock.boot_ms() + _PATIENCE_MS
        while not await state.take():
            found = None if path is None else await _reach(path, operation, arguments)
            if found is not None:
                return Answer(result=found, running=True)
            if clock.boot_ms() >= end_ms:
                raise await state.refusal()
            await clock.sleep(_PAUSE_MS)
        return Answer(result=await perform(state.desk(), operation, arguments), running=False)


def _url(invocation: Invocation) -> str:
    url = state_url(invocation.state, invocation.environ, [])
    if url.startswith("memory:"):
        raise NotFoundError("a state in memory is known to its own process alone", hint="name a directory with --state")
    return url


def _direct(invocation: Invocation, out: Output, url: str, clock: SystemClock) -> DirectState:
    from cronpad_core.cli.plugin import host_of
    from cronpad_core.config.settings import load_settings
    from cronpad_core.runtime.direct import DirectState

    settings = load_settings(Path(invocation.config) if invocation.config else None, invocation.environ, {})
    return DirectState(host_of(invocation, out).registry, url, settings, clock)


async def _reach(path: Path, operation: str, arguments: Document, *, within_ms: Millis = ANSWERED_MS) -> Document | None:
    """The answer of the process that listens there; ``None`` where none does, or it does not dispatch any more."""
    try:
        client = await ControlClient.connect(path)
    except NotRunningError:
        return None
    async with client:
        try:
            return await client.ask(operation, arguments, within_ms=within_ms)
        except TermRefusedError:
            return None


def ask_running(invocation: Invocation, operation: str, arguments: Document, *, within_ms: Millis = ANSWERED_MS) -> Document:
    """Has an operation done that only a running process can do. Raises ``NotRunningError`` without one."""
    url = _url(invocation)
    path = socket_path(url)
    found = None if path is None else asyncio.run(_reach(path, operation, arguments, within_ms=within_ms))
    if found is None:
        place = url if path is None else path.parent
        if path is not None and not path.parent.is_dir():
            raise NotFoundError(f"there is no state in {place}", hint="name its directory with --state DIR or CRONPAD_STATE")
        raise NotRunningError(f"no cronpad dispatches on {place}", hint="start one with 'cronpad run FILE --state DIR'")
    return found


# --------------------------------------------------------------------------------------------------------- runs that begin


def show_started(
    invocation: Invocation, out: Output, thing: str, answer: Answer, *, wait: bool, timeout_ms: Millis | None = None
) -> int:
    """Prints the run that was asked for and, with ``wait``, how it ended; the exit code that says so too.

    Raises ``NotRunningError`` where it is to be waited for and nobody runs it.
    """
    run_id = str(answer.result["run_id"])
    if not out.wants_json:
        out.line(run_id)
    if answer.result.get("created") is False:
        out.say("the run was there before: it was asked for with the same token", "dim")
    end: Document | None = None
    if wait and answer.running:
        end = asyncio.run(_wait(_url(invocation), run_id, timeout_ms))
    if out.wants_json:
        more: Document = {} if end is None else {"end": dict(end)}
        out.document(thing, [{**answer.result, **more}], running=answer.running)
    if not answer.running:
        if wait:
            raise NotRunningError(
                f"run {run_id} is stored, and nobody runs it yet", hint="it runs when a runner starts on this state"
            )
        out.say("no runner is active: it is stored, and runs when one starts on this state", "warn")
    if end is None:
        return 0
    if not out.wants_json:
        _show_end(out, end)
    return _code(end)


async def _wait(url: str, run_id: str, timeout_ms: Millis | None) -> Document:
    """Waits at the active process, and at the next one where that ends meanwhile."""
    path, clock = socket_path(url), SystemClock()
    begun_ms = seen_ms = clock.boot_ms()
    while True:
        try:
            if path is None:
                raise NotRunningError("this kind of state has no control socket")
            async with await ControlClient.connect(path) as client:
                seen_ms = clock.boot_ms()
                left_ms = None if timeout_ms is None else max(0, begun_ms + timeout_ms - seen_ms)
                within_ms = None if left_ms is None else left_ms + ANSWERED_MS
                try:
                    return await client.ask("wait", {"run_id": run_id, "timeout_ms": left_ms}, within_ms=within_ms)
                finally:
                    seen_ms = clock.boot_ms()
        except NotRunningError as error:
            if clock.boot_ms() - seen_ms > _TAKEOVER_MS:
                raise NotRunningError(
                    f"the runner has ended before run {run_id} did",
                    hint=f"it goes on when one starts on this state; 'cronpad runs show {run_id}' says how it went",
                ) from error
            await clock.sleep(_PAUSE_MS)


def _show_end(out: Output, end: Document) -> None:
    status, reason = str(end["status"]), end["skip_reason"] or end["reason"] or end["attempt_reason"] or ""
    if not end["ended"]:
        out.say(f"it has not ended yet: {status}", "warn")
        return
    out.line(Styled(status, "good" if status == "succeeded" else "bad"), f"  {reason}" if reason else "")


def _code(end: Document) -> int:
    """0 for success, 124 for a time-out of either kind, else the command's own code, or 1."""
    if end["status"] == "succeeded":
        return 0
    if not end["ended"] or end["attempt_status"] == "timed_out":
        return 124
    code = end["exit_code"]
    return code if isinstance(code, int) and code else 1


# -------------------------------------------------------------------------------------------------------- what people write


def instant_of(text: str, option: str, now_ms: Millis, *, ahead: bool, zone: str | None = None) -> Millis:
    """A time, or a duration from now: into the future where ``ahead``, else into the past.

    A time without an offset is one of ``zone``, or local. Raises ``click.BadParameter``.
    """
    from cronpad_core.config.durations import DurationFault, parse_duration

    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None and zone is not None:
            from cronpad_core.schedules.zones import load_zone

            moment = moment.replace(tzinfo=load_zone(zone))
        return to_ms(moment.astimezone() if moment.tzinfo is None else moment)
    except (ValueError, OverflowError):
        pass
    try:
        return now_ms + parse_duration(text) * (1 if ahead else -1)
    except DurationFault as fault:
        raise click.BadParameter(
            f"{text!r} is neither a time, such as 2026-03-29T01:30, nor a duration, such as 24h or 7d", param_hint=f"'{option}'"
        ) from fault


def duration_of(text: str, option: str) -> Millis:
    """A duration. Raises ``click.BadParameter``."""
    from cronpad_core.config.durations import DurationFault, parse_duration

    try:
        return parse_duration(text)
    except DurationFault as fault:
        meant = f"; did you mean {fault.suggestion}?" if fault.suggestion else ""
        raise click.BadParameter(f"{text!r}: {fault}{meant}", param_hint=f"'{option}'") from fault


def json_of(text: str, option: str) -> JsonValue:
    """A JSON document. Raises ``click.BadParameter``."""

    def refuse(word: str) -> JsonValue:
        raise ValueError(f"{word} is no JSON")

    try:
        value: JsonValue = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"this is no JSON: {error}", param_hint=f"'{option}'") from error
    return value
