"""The words in which the runner tells of events that concern limits, clocks and retention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, assert_never

from cronpad_core.domain.events import (
    AlertFailed,
    AlertSent,
    ClockStepped,
    HistoryPruned,
    JobsRewound,
    QuotaExceeded,
    RunEnded,
    RunHeld,
    SlaBreached,
)
from cronpad_core.domain.timing import SECOND, JsonValue

__all__ = ["Told", "words_of"]

Told: TypeAlias = (
    AlertSent | AlertFailed | RunEnded | RunHeld | QuotaExceeded | SlaBreached | ClockStepped | JobsRewound | HistoryPruned
)
Words: TypeAlias = tuple[str, str, str, Mapping[str, JsonValue]]


def words_of(event: Told) -> Words:
    """The event's name, a sentence, how loud it is, and what a program wants to know."""
    match event:
        case RunEnded():
            facts: dict[str, JsonValue] = {"job": event.job_name, "run_id": event.run_id, "status": event.status.value}
            return "run_ended", f"{event.job_name}: {event.status.value}, {event.reason}", "warning", facts
        case RunHeld():
            why = "waits for its turn" if event.waiting else f"held, {_scope(event.scope)} is full"
            return "held", f"{event.job_name}: {why}", "debug", {"job": event.job_name, "scope": event.scope}
        case QuotaExceeded():
            text = f"workspace {event.workspace} has used up its quota of {event.max} runs in {event.month}; it only warns"
            return "quota", text, "warning", {"workspace": event.workspace, "month": event.month, "max": event.max}
        case SlaBreached():
            text = f"{event.job_name}: {event.rule} missed by {event.over_ms / SECOND:.1f} s"
            return "sla", text, "warning", {"job": event.job_name, "rule": event.rule, "over_ms": event.over_ms}
        case AlertSent():
            facts = {"alert": event.name, "alert_id": event.alert_id, "kind": event.kind, "tries": event.tries}
            return "alert_sent", f"alert {event.name}: {event.kind} sent", "debug", facts
        case AlertFailed():
            end = "given up" if event.given_up else "it is tried again"
            text = f"alert {event.name}: {event.kind} could not be sent: {event.error}; {end}"
            facts = {"alert": event.name, "alert_id": event.alert_id, "tries": event.tries, "given_up": event.given_up}
            return "alert_failed", text, "warning", facts
        case ClockStepped():
            return "clock", _clock(event), "warning", {"by_ms": event.by_ms, "suspended_ms": event.suspended_ms}
        case JobsRewound():
            text = f"the clock had been ahead: {event.count} jobs go on from now"
            return "rewound", text, "warning", {"count": event.count}
        case HistoryPruned():
            text = f"pruned {event.runs} runs and {event.ranges} ranges of slots, as history.keep says"
            return "pruned", text, "debug", {"runs": event.runs, "ranges": event.ranges}
        case _ as never:
            assert_never(never)


def _scope(scope: str) -> str:
    kind, _, name = scope.partition(":")
    words = {"all": "max_running", "workspace": f"workspace {name}", "key": f"key {name}"}
    return words.get(kind, "the job")


def _clock(event: ClockStepped) -> str:
    parts = []
    if event.by_ms:
        parts.append(f"the clock was set {'forward' if event.by_ms > 0 else 'back'} by {abs(event.by_ms) / SECOND:.1f} s")
    if event.suspended_ms:
        parts.append(f"the machine was suspended for {event.suspended_ms / SECOND:.1f} s")
    return "; ".join(parts)
