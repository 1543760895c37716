"""What a running cronpad shows: a line per attempt on stdout, what else happens on stderr; JSON lines off a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final

from cronpad_core.cli.event_words import words_of
from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Cell, Output, OutputClosed, Styled
from cronpad_core.control.apply import Applied, ChangeKind, Declared
from cronpad_core.domain.events import (
    AlertFailed,
    AlertSent,
    AttemptFinished,
    ClockStepped,
    DispatcherChanged,
    EntriesRepaired,
    EntryDropped,
    Event,
    HistoryPruned,
    JobsRewound,
    JobUnreadable,
    LeaseLost,
    LineFailed,
    QueueRebuilt,
    QuotaExceeded,
    RunEnded,
    RunHeld,
    RunSkipped,
    SlaBreached,
    SlotsMissed,
    StoreFailed,
    StoreRecovered,
)
from cronpad_core.domain.run import Attempt, AttemptStatus
from cronpad_core.domain.timing import JsonValue, Millis, from_ms, rfc3339
from cronpad_core.ports.clock import Clock
from cronpad_core.runtime.lifecycle import Listener

__all__ = ["RunView"]

_STYLES: Final = {
    AttemptStatus.DELIVERED: "good",
    AttemptStatus.INTERRUPTED: "warn",
    AttemptStatus.CANCELLED: "warn",
    AttemptStatus.STALE: "warn",
}
_SHOWN_LINES: Final = 10


class RunView(Listener):
    """Fed by the runner. ``quiet`` leaves out what a single ``--once`` need not say; ``passthrough`` shows all kept output."""

    def __init__(self, invocation: Invocation, out: Output, *, quiet: bool = False, passthrough: bool = False) -> None:
        self._out = out
        self._quiet = quiet
        self._passthrough = passthrough
        wanted = invocation.log_format
        self._json = invocation.json or wanted == "json" or (wanted == "auto" and not sys.stdout.isatty())
        self._json_stderr = wanted == "json" or (wanted == "auto" and not sys.stderr.isatty())
        self._clock: Clock | None = None
        self._began: tuple[str, int] | None = None
        self._deaf = False

    def began(self, url: str, declared: Sequence[Declared], clock: Clock) -> None:
        """The runner is about to open its state."""
        self._clock = clock
        self._began = url, len(declared)

    def opened(self) -> None:
        """The state is open; what was refused before that is an error alone, and no start."""
        if self._began is not None:
            url, jobs = self._began
            self._say("started", f"{jobs} jobs; state in {url.removeprefix('sqlite://')}", jobs=jobs, state=url)

    def applied(self, applied: Applied) -> None:
        """The files were applied."""
        if self._quiet:
            return
        counts: dict[str, JsonValue] = {kind.value: len(applied.of(kind)) for kind in ChangeKind}
        words = ", ".join(f"{count} {_PAST[kind]}" for kind, count in counts.items() if count)
        self._say("applied", f"jobs: {words or 'none'}", jobs=counts)

    def note(self, text: str) -> None:
        """Something worth a line."""
        self._say("note", text, level="warning")

    def event(self, event: Event) -> None:
        """Shows what a person wants to see of it; a reader of stdout who has gone away does not stop the runner."""
        if self._deaf:
            return
        try:
            self._show(event)
        except OutputClosed:
            self._deaf = True

    def _show(self, event: Event) -> None:
        match event:
            case AttemptFinished():
                self._attempt(event)
            case RunSkipped():
                reason = event.skip_reason.value
                self._say(
                    "skipped", f"{event.job_name}: skipped, {reason}", job=event.job_name, reason=reason, run_id=event.run_id
                )
            case SlotsMissed():
                self._missed(event)
            case DispatcherChanged():
                self._dispatcher(event)
            case (
                RunEnded()
                | RunHeld()
                | QuotaExceeded()
                | SlaBreached()
                | ClockStepped()
                | JobsRewound()
                | HistoryPruned()
                | AlertSent()
                | AlertFailed()
            ):
                name, text, level, facts = words_of(event)
                self._say(name, text, level=level, **facts)
            case StoreFailed():
                self._say("store_failed", f"{event.store}: {event.error}; trying again", level="error", store=event.store)
            case StoreRecovered():
                after = event.after_ms / 1000
                self._say("store_recovered", f"{event.store} answers again after {after:.1f} s", store=event.store)
            case QueueRebuilt():
                self._say("queue_rebuilt", f"the queue was {event.reason} and is rebuilt", level="warning", reason=event.reason)
            case EntriesRepaired():
                level = "debug" if event.full else "warning"
                self._say("repaired", f"{event.count} queue entries put back", level=level, count=event.count, full=event.full)
            case LeaseLost():
                self._say("lease_lost", f"lost the lease of {event.member}", level="warning", member=event.member)
            case LineFailed():
                self._say("line_failed", f"{event.member}: {event.error}", level="error", member=event.member)
            case JobUnreadable():
                self._say("job_unreadable", f"job {event.job_id} cannot be scheduled: {event.error}", level="error")
            case EntryDropped():
                self._say("entry_dropped", f"dropped {event.member}: {event.reason}", level="debug", member=event.member)
            case _:
                pass

    def _dispatcher(self, event: DispatcherChanged) -> None:
        if self._quiet:
            return
        reason = f": {event.reason}" if event.reason else ""
        self._say("dispatcher", f"{event.state}{reason}", state=event.state, term=event.term, reason=event.reason)

    def _missed(self, event: SlotsMissed) -> None:
        text = (
            f"{event.job_name}: {event.missed + event.chosen} slots were missed; {event.chosen} will run now "
            f"(misfire {event.policy})"
        )
        self._say("missed", text, level="warning", job=event.job_name, missed=event.missed, chosen=event.chosen)

    def _attempt(self, event: AttemptFinished) -> None:
        if self._passthrough and not self._json:
            self._pass(event.attempt)
            return
        if self._json:
            self._out.raw(json.dumps(_attempt_document(event)))
            return
        attempt = event.attempt
        began = attempt.sent_at_ms or attempt.opened_at_ms
        took = (attempt.finished_at_ms or began) - began
        mark = _STYLES.get(attempt.status, "bad")
        retry = f", attempt {attempt.attempt + 2} at {_clock_time(event.retry_at_ms)}" if event.retry_at_ms else ""
        parts: list[Cell] = [
            Styled(_clock_time(began), "dim"),
            "  ",
            Styled(f"{event.job_name:<16}", "strong"),
            "  ",
            Styled(f"{attempt.status.value:<11}", mark),
            f"  {took / 1000:7.3f} s",
            Styled(f"  lag {began - attempt.due_at_ms} ms", "dim"),
        ]
        if attempt.attempt:
            parts.append(Styled(f"  attempt {attempt.attempt + 1}", "info"))
        if attempt.reason:
            parts.append(Styled(f"  {attempt.reason}", mark if mark != "good" else "dim"))
        parts.append(Styled(retry, "warn"))
        self._out.line(*parts)
        self._output_lines(attempt)

    def _output_lines(self, attempt: Attempt) -> None:
        for stream in attempt.output:
            lines = (stream.head + stream.tail).decode("utf-8", "backslashreplace").splitlines()
            for line in lines[:_SHOWN_LINES]:
                self._out.line("          ", Styled(line, "dim" if stream.name == "stdout" else "warn"))
            if len(lines) > _SHOWN_LINES or stream.truncated:
                self._out.line("          ", Styled(f"… {stream.total} bytes in all on {stream.name}", "dim"))

    def _pass(self, attempt: Attempt) -> None:
        """All that was kept of the child's own output, where the child would have written it."""
        for stream in attempt.output:
            target = sys.stderr if stream.name == "stderr" else sys.stdout
            target.flush()
            target.buffer.write(stream.head + stream.tail)
            target.buffer.flush()
        if attempt.status is not AttemptStatus.DELIVERED:
            self._say("attempt", f"{attempt.status.value}: {attempt.reason}", level="warning")

    def _say(self, event: str, text: str, *, level: str = "info", **facts: JsonValue) -> None:
        loudness = {"debug": 1, "info": 0, "warning": -1, "error": -2}[level]
        if self._json_stderr:
            if self._out.loud(loudness):
                self._out.message_line(
                    json.dumps({"time": self._now(), "level": level, "event": event, "message": text, **facts})
                )
            return
        style = {"warning": "warn", "error": "bad"}.get(level, "dim")
        self._out.say(text, style, level=loudness)

    def _now(self) -> str | None:
        return rfc3339(self._clock.wall_ms()) if self._clock else None


_PAST: Final = {"add": "added", "change": "changed", "remove": "removed", "keep": "unchanged"}


def _clock_time(instant_ms: Millis) -> str:
    return from_ms(instant_ms).astimezone().strftime("%H:%M:%S")


def _attempt_document(event: AttemptFinished) -> dict[str, JsonValue]:
    attempt = event.attempt
    began = attempt.sent_at_ms or attempt.opened_at_ms
    sizes = {stream.name: stream.total for stream in attempt.output}
    return {
        "time": rfc3339(attempt.finished_at_ms),
        "event": "attempt",
        "job": event.job_name,
        "job_id": event.occurrence.job_id,
        "run_id": event.run_id,
        "occ": event.occurrence.member,
        "attempt": attempt.attempt,
        "workspace_id": event.workspace,
        "trigger": event.occurrence.trigger.name.lower(),
        "scheduled_at": rfc3339(event.occurrence.scheduled_at_ms),
        "status": attempt.status.value,
        "run_status": event.status.value,
        "exit_code": attempt.exit_code,
        "reason": attempt.reason,
        "duration_ms": (attempt.finished_at_ms or began) - began,
        "lag_ms": began - attempt.due_at_ms,
        "stdout_bytes": sizes.get("stdout", 0),
        "stderr_bytes": sizes.get("stderr", 0),
        "retry_at": rfc3339(event.retry_at_ms),
    }
