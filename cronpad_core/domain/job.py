"""A job: what a user declares, and what the scheduler keeps about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from enum import StrEnum
from typing import cast

from cronpad_core.domain.ids import digest_below
from cronpad_core.domain.limits import ConcurrencyRule, SlaRule
from cronpad_core.domain.misfire import MisfireRule
from cronpad_core.domain.occurrence import Occurrence, Trigger
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.retry import RetryRule
from cronpad_core.domain.timing import HOUR, MINUTE, JsonValue, Millis
from cronpad_core.domain.values import value

__all__ = [
    "Guarantee",
    "Job",
    "JobSpec",
    "JobStatus",
    "JobVersion",
    "Replay",
    "ScheduleSpec",
    "ShutdownStyle",
    "SinkSpec",
]


class JobStatus(StrEnum):
    """``COMPLETED``: its schedule has no further fire. ``DELETED``: kept for its history only."""

    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    DELETED = "deleted"


class Guarantee(StrEnum):
    """What a crash in the middle of a delivery means: deliver again, or record that nobody knows."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class ShutdownStyle(StrEnum):
    """When a graceful stop tells a running delivery: near the end of the grace, or at once (jobs of the runner's JSON)."""

    GRACE = "grace"
    AT_ONCE = "at_once"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """The schedule as declared: one text or several (their union), the zone, and the rule for clock changes.

    ``anchor_ms`` is where ``every …`` counts from; set when the job is first stored and kept by later edits.
    """

    texts: tuple[str, ...]
    timezone: str = "UTC"
    gap: str | None = None
    fold: str | None = None
    anchor_ms: Millis | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSpec:
    """Where runs go: a sink type by name, with the settings that it understands."""

    type: str
    settings: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """All that a user declares of a job. Durations are in milliseconds.

    ``jitter_ms`` delays each start by a share of it that depends on the slot; ``offset_ms`` by a fixed amount. ``grace_ms`` is
    how late a start may be before the slot counts as missed. ``overlap`` says what happens while a run of the job itself is
    running, ``concurrency`` caps what runs at once, of the job or of a key.
    """

    name: str
    schedule: ScheduleSpec
    sink: SinkSpec
    workspace: str = "default"
    timeout_ms: Millis = HOUR
    kill_grace_ms: Millis = 10_000
    retry: RetryRule = field(default_factory=RetryRule)
    overlap: OverlapRule = field(default_factory=OverlapRule)
    concurrency: ConcurrencyRule | None = None
    misfire: MisfireRule = field(default_factory=MisfireRule)
    jitter_ms: Millis = 0
    offset_ms: Millis = 0
    grace_ms: Millis = MINUTE
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    shutdown: ShutdownStyle = ShutdownStyle.GRACE
    sla: SlaRule | None = None
    tags: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()

    def start_at_ms(self, occurrence: Occurrence, next_slot_ms: Millis | None) -> Millis:
        """When this slot's first attempt is due: the slot, its offset and its jitter, and never as late as the next slot."""
        delay = self.offset_ms + digest_below(self.jitter_ms, occurrence)
        if next_slot_ms is not None:
            delay = min(delay, max(0, next_slot_ms - occurrence.scheduled_at_ms - 1))
        return occurrence.scheduled_at_ms + delay

    def to_json(self) -> dict[str, JsonValue]:
        """A JSON document from which :meth:`from_json` makes an equal spec."""
        return cast("dict[str, JsonValue]", _plain(self))

    @classmethod
    def from_json(cls, document: Mapping[str, JsonValue]) -> JobSpec:
        """Reads :meth:`to_json` back. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for a document of another shape."""
        raw = dict(document)
        schedule = dict(cast("Mapping[str, JsonValue]", raw.pop("schedule")))
        schedule["texts"] = tuple(cast("list[str]", schedule["texts"]))  # type: ignore[assignment]  # JSON has no tuples
        overlap = cast("Mapping[str, JsonValue]", raw.pop("overlap"))
        for name, build in (("concurrency", ConcurrencyRule), ("sla", SlaRule)):
            if raw.get(name) is not None:
                raw[name] = build(**cast("dict[str, JsonValue]", raw[name]))  # type: ignore[arg-type,assignment]  # as below
        for name in ("tags", "alerts"):
            raw[name] = tuple(cast("list[str]", raw[name]))  # type: ignore[assignment]  # JSON has no tuples
        return cls(
            schedule=ScheduleSpec(**schedule),  # type: ignore[arg-type]  # checked by the caller's version
            sink=SinkSpec(**cast("dict[str, JsonValue]", raw.pop("sink"))),  # type: ignore[arg-type]  # as above
            retry=RetryRule(**cast("dict[str, JsonValue]", raw.pop("retry"))),  # type: ignore[arg-type]  # as above
            misfire=MisfireRule(**cast("dict[str, JsonValue]", raw.pop("misfire"))),  # type: ignore[arg-type]  # as above
            overlap=OverlapRule(policy=OverlapPolicy(cast("str", overlap["policy"])), max=cast("int", overlap["max"])),
            guarantee=Guarantee(cast("str", raw.pop("guarantee"))),
            shutdown=ShutdownStyle(cast("str", raw.pop("shutdown"))),
            **raw,  # type: ignore[arg-type]  # as above
        )


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value.value if isinstance(value, StrEnum) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A decided catch-up: slots up to ``until_ms`` run without asking again; after it the schedule goes on at ``then_ms``."""

    until_ms: Millis
    then_ms: Millis | None


@value
class Job:
    """A stored job. ``version`` grows with each change of the spec; ``next_run_at_ms`` is the slot that is due next.

    ``origin`` says who owns the job (a file's path, ``api``, ``code``): only that owner's ``apply`` may change it.
    ``valid_from_ms``: the present version covers the slots after it.
    """

    id: str
    origin: str
    version: int
    status: JobStatus
    spec: JobSpec
    next_run_at_ms: Millis | None
    valid_from_ms: Millis
    replay: Replay | None = None
    clock_epoch: int = 0
    paused_reason: str | None = None
    paused_until_ms: Millis | None = None

    def slot(self, scheduled_at_ms: Millis) -> Occurrence:
        """The first scheduled attempt at a slot, under the present version."""
        return Occurrence(
            job_id=self.id, scheduled_at_ms=scheduled_at_ms, attempt=0, job_version=self.version, trigger=Trigger.SCHEDULED
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVersion:
    """One version of a job's schedule: it covers the slots in (``valid_from_ms``, ``valid_until_ms``].

    When it ended before its next fire came up, ``open_from_ms`` is that fire: the slots from there to the end were dropped.
    """

    job_id: str
    version: int
    spec: JobSpec
    valid_from_ms: Millis
    valid_until_ms: Millis | None = None
    open_from_ms: Millis | None = None
