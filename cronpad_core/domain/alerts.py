"""Who is told of what: the rules of alerts, as one pure decision over what happened and what was told before.

Whoever writes an outcome calls :func:`judge` in the same transaction: what is told is decided once, and survives a crash with the
outcome itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cronpad_core.domain.ids import alert_id_for
from cronpad_core.domain.timing import MINUTE, JsonValue, Millis

__all__ = [
    "DEFAULT_EVENTS",
    "AlertCase",
    "AlertItem",
    "AlertKind",
    "AlertRate",
    "AlertRule",
    "AlertSpec",
    "AlertState",
    "judge",
]


class AlertKind(StrEnum):
    """What an alert tells. The last two are cronpad's own; the three before them are heartbeats."""

    RUN_FAILED = "run_failed"
    RUN_RECOVERED = "run_recovered"
    RUN_POISONED = "run_poisoned"
    RUN_LATE = "run_late"
    RUN_SLOW = "run_slow"
    SLOT_MISSED = "slot_missed"
    QUOTA_EXCEEDED = "quota_exceeded"
    RUN_STARTED = "run_started"
    RUN_SUCCEEDED = "run_succeeded"
    RUNNER_ALIVE = "runner_alive"
    EMITTER_FAILING = "emitter_failing"
    TEST = "test"


DEFAULT_EVENTS = (AlertKind.RUN_FAILED, AlertKind.RUN_RECOVERED, AlertKind.RUN_POISONED, AlertKind.SLOT_MISSED)
"""What an alert that names no events is sent for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRate:
    """At most ``max`` alerts in ``per_ms``; what is more is told together afterwards."""

    max: int
    per_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """When the alert ``name`` is sent: for which events, after how many failures in a row, together with what else.

    ``each`` tells of every such event, otherwise of changes alone. ``group_for_ms`` is how long the first waits for others.
    """

    name: str
    events: tuple[AlertKind, ...] = DEFAULT_EVENTS
    after: int = 1
    each: bool = False
    group_for_ms: Millis = 0
    rate: AlertRate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSpec:
    """An alert as declared: its rule, the emitter type that sends it, and the emitter's settings with secrets as references.

    ``alive_every_ms`` is how often ``runner_alive`` is sent, where the rule asks for it.
    """

    rule: AlertRule
    type: str
    settings: Mapping[str, JsonValue] = field(default_factory=dict)
    alive_every_ms: Millis = MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """What one alert knows of one job: failures in a row, and which troubles it was told of and are not over."""

    job_id: str
    name: str
    failures: int = 0
    open: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCase:
    """What happened to a job, for the rules that may tell of it.

    ``kinds`` are what happened, ``over`` the troubles that this ends, ``period`` within which the same is not told again.
    """

    rules: tuple[AlertRule, ...]
    job_id: str
    job_name: str
    run_id: str | None
    at_ms: Millis
    kinds: tuple[AlertKind, ...]
    over: tuple[AlertKind, ...] = ()
    period: str = ""
    reason: str = ""
    facts: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertItem:
    """One thing to tell. Its ``id`` follows from what it is about, so that it is the same however often it is told."""

    id: str
    kind: AlertKind
    job_id: str
    job_name: str
    run_id: str | None
    at_ms: Millis
    text: str
    facts: Mapping[str, JsonValue] = field(default_factory=dict)


_FAILURES = frozenset({AlertKind.RUN_FAILED, AlertKind.RUN_POISONED})
_TROUBLES = frozenset({AlertKind.RUN_LATE, AlertKind.RUN_SLOW, AlertKind.SLOT_MISSED, AlertKind.QUOTA_EXCEEDED})


def judge(case: AlertCase, rule: AlertRule, state: AlertState | None) -> tuple[AlertState, tuple[AlertItem, ...]]:
    """What the rule knows of the job after this, and what it tells: a change of state, unless it tells of each event."""
    before = state or AlertState(job_id=case.job_id, name=rule.name)
    known = replace(before, open=before.open - {kind.value for kind in case.over})
    told: list[AlertKind] = []
    for step in (_succeed, _fail, _trouble):
        known, more = step(case, rule, known)
        told += more
    if AlertKind.RUN_STARTED in case.kinds:
        told.append(AlertKind.RUN_STARTED)
    return known, tuple(_item(case, rule, kind, before, known) for kind in told if kind in rule.events)


def _succeed(case: AlertCase, rule: AlertRule, known: AlertState) -> tuple[AlertState, list[AlertKind]]:
    if AlertKind.RUN_SUCCEEDED not in case.kinds:
        return known, []
    told = [AlertKind.RUN_SUCCEEDED]
    if AlertKind.RUN_FAILED.value in known.open:
        told.append(AlertKind.RUN_RECOVERED)
    return replace(known, failures=0, open=known.open - {kind.value for kind in _FAILURES}), told


def _fail(case: AlertCase, rule: AlertRule, known: AlertState) -> tuple[AlertState, list[AlertKind]]:
    if not _FAILURES.intersection(case.kinds):
        return known, []
    told: list[AlertKind] = []
    failures, now = known.failures + 1, set(known.open)
    poisoned = AlertKind.RUN_POISONED in case.kinds and AlertKind.RUN_POISONED in rule.events
    if poisoned:
        if rule.each or AlertKind.RUN_POISONED.value not in now:
            told.append(AlertKind.RUN_POISONED)
        now |= {AlertKind.RUN_POISONED.value, AlertKind.RUN_FAILED.value}
    elif failures >= rule.after:
        if rule.each or AlertKind.RUN_FAILED.value not in now:
            told.append(AlertKind.RUN_FAILED)
        now.add(AlertKind.RUN_FAILED.value)
    return replace(known, failures=failures, open=frozenset(now)), told


def _trouble(case: AlertCase, rule: AlertRule, known: AlertState) -> tuple[AlertState, list[AlertKind]]:
    found = [kind for kind in case.kinds if kind in _TROUBLES]
    if not found:
        return known, []
    names = {kind: f"{kind.value}:{case.period}" if case.period else kind.value for kind in found}
    told = [kind for kind in found if rule.each or names[kind] not in known.open]
    stale = {name for name in known.open for kind in found if name.startswith(f"{kind.value}:")}
    return replace(known, open=(known.open - stale) | set(names.values())), told


def _item(case: AlertCase, rule: AlertRule, kind: AlertKind, before: AlertState, known: AlertState) -> AlertItem:
    about = case.run_id or str(case.at_ms)
    facts = dict(case.facts)
    if kind is AlertKind.RUN_FAILED:
        facts["failures"] = known.failures
    return AlertItem(
        id=alert_id_for(rule.name, kind.value, case.job_id, about),
        kind=kind,
        job_id=case.job_id,
        job_name=case.job_name,
        run_id=case.run_id,
        at_ms=case.at_ms,
        text=_text(case, kind, before, known),
        facts=facts,
    )


def _text(case: AlertCase, kind: AlertKind, before: AlertState, known: AlertState) -> str:
    because = f": {case.reason}" if case.reason else ""
    match kind:
        case AlertKind.RUN_FAILED:
            often = f" {known.failures} times in a row" if known.failures > 1 else ""
            return f"{case.job_name} failed{often}{because}"
        case AlertKind.RUN_RECOVERED:
            often = f" after {before.failures} failures" if before.failures > 1 else ""
            return f"{case.job_name} has recovered{often}"
        case AlertKind.RUN_POISONED:
            return f"{case.job_name} is not tried again{because}"
        case AlertKind.RUN_LATE:
            return f"{case.job_name} started later than its sla allows"
        case AlertKind.RUN_SLOW:
            return f"{case.job_name} finished later than its sla allows"
        case AlertKind.SLOT_MISSED:
            return f"{case.job_name} missed slots{because}"
        case AlertKind.QUOTA_EXCEEDED:
            return f"{case.job_name}: the quota of its workspace is used up{because}"
        case _:
            return f"{case.job_name}: {kind.value.replace('_', ' ')}"
