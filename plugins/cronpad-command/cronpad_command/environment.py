"""The environment of a command: what it inherits, what it is told of its run, what stays with cronpad."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from cronpad_command.nursery.wire import VARIABLE
from cronpad_core.api import SECOND, Delivery, Millis, from_ms

__all__ = ["RESERVED", "RUN_FACTS", "child_environment", "inherited", "scheduled_at"]

RUN_FACTS = frozenset(
    {
        "CRONPAD_JOB",
        "CRONPAD_RUN_ID",
        "CRONPAD_OCCURRENCE",
        "CRONPAD_ATTEMPT",
        "CRONPAD_SCHEDULED_AT",
        "CRONPAD_TIMEZONE",
        "CRONPAD_TRIGGER",
        "CRONPAD_FENCE",
        "CRONPAD_IDEMPOTENCY_KEY",
        "CRONPAD_PAYLOAD",
    }
)
"""What a command is told of its run."""

RESERVED = RUN_FACTS | {VARIABLE}
"""Names that a job cannot set: a run is known by them, and what is left of it is found."""

_SECRETS = "CRONPAD_SECRET_"
_STATE = "CRONPAD_STATE"
_TRACE = {"traceparent": "TRACEPARENT", "tracestate": "TRACESTATE"}

_CLEAN = frozenset({"PATH", "HOME", "LOGNAME", "USER", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"})
_CLEAN_PREFIX = "LC_"
_CLEAN_PATH = "/usr/local/bin:/usr/bin:/bin"


def child_environment(environ: Mapping[str, str], delivery: Delivery, *, own: Mapping[str, str], clean: bool) -> dict[str, str]:
    """Everything that the command will find in its environment; ``own`` is what its job sets, and wins over what is inherited."""
    env = inherited(environ, clean=clean)
    if delivery.trace is not None:
        env.update(_traced(env, delivery.trace))
    env.update(own)
    # A payload that was inherited is that of another run, whose command started this cronpad.
    env.pop("CRONPAD_PAYLOAD", None)
    env.update(_facts(delivery))
    return env


def inherited(environ: Mapping[str, str], *, clean: bool) -> dict[str, str]:
    """What a command finds of the environment that cronpad was started with: nothing that is cronpad's alone."""
    env = {name: value for name, value in environ.items() if name != _STATE and not name.startswith(_SECRETS)}
    if clean:
        env = {name: value for name, value in env.items() if name in _CLEAN or name.startswith(_CLEAN_PREFIX)}
        env.setdefault("PATH", _CLEAN_PATH)
    return env


def scheduled_at(slot_at_ms: Millis, timezone: str) -> str:
    """RFC 3339 with the offset that the job's zone had at that instant: its date and time are the local ones."""
    moment = _local(slot_at_ms, timezone)
    return moment.isoformat(timespec="milliseconds" if slot_at_ms % SECOND else "seconds")


def _local(slot_at_ms: Millis, timezone: str) -> datetime:
    instant = from_ms(slot_at_ms)
    try:
        return instant.astimezone(ZoneInfo(timezone))
    except (KeyError, ValueError, OSError):
        # Zone data can go away under a running process; the instant is the same in UTC, and a run is worth more than its offset.
        return instant


def _traced(env: dict[str, str], trace: Mapping[str, str]) -> dict[str, str]:
    # An inherited trace belongs to whoever started cronpad; half of it beside the run's own would be a false link.
    for variable in _TRACE.values():
        env.pop(variable, None)
    return {variable: trace[key] for key, variable in _TRACE.items() if key in trace}


def _facts(delivery: Delivery) -> dict[str, str]:
    payload = {} if delivery.payload is None else {"CRONPAD_PAYLOAD": json.dumps(delivery.payload, separators=(",", ":"))}
    return payload | {
        "CRONPAD_JOB": delivery.job_name,
        "CRONPAD_RUN_ID": delivery.run_id,
        "CRONPAD_OCCURRENCE": delivery.occurrence,
        "CRONPAD_ATTEMPT": str(delivery.attempt),
        "CRONPAD_SCHEDULED_AT": scheduled_at(delivery.slot_at_ms, delivery.timezone),
        "CRONPAD_TIMEZONE": delivery.timezone,
        "CRONPAD_TRIGGER": delivery.trigger.name.lower(),
        "CRONPAD_FENCE": delivery.fence,
        "CRONPAD_IDEMPOTENCY_KEY": delivery.idempotency_key,
    }
