"""The door for plugin authors: everything a plugin needs, and nothing else of cronpad.

Names here are stable within an API number; a class that a plugin registers states the number it was written for (``api = 1``).
"""

from __future__ import annotations

from cronpad_core.domain.admission import OpenDecision, OpenKind, OpenRequest, OpenSnapshot, decide_open, term_of
from cronpad_core.domain.dispatch import LockRow, QueueLook, TermRecord
from cronpad_core.domain.errors import (
    CommitUnknownError,
    ConfigurationError,
    CronpadError,
    MalformedMemberError,
    NotFoundError,
    NotRunningError,
    PluginError,
    ScheduleError,
    StateError,
    StateRefusedError,
    StateUnwritableError,
    StateVanishedError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    TermRefusedError,
)
from cronpad_core.domain.ids import idempotency_key, job_id_for, run_id_for
from cronpad_core.domain.job import (
    Guarantee,
    Job,
    JobSpec,
    JobStatus,
    JobVersion,
    Replay,
    ScheduleSpec,
    ShutdownStyle,
    SinkSpec,
)
from cronpad_core.domain.ledger import RangeKind, SlotRange
from cronpad_core.domain.misfire import MisfireRule, MissedWindow, ReplayPlan
from cronpad_core.domain.occurrence import Occurrence, RunKey, Trigger
from cronpad_core.domain.outcome import Cancelled, Delivered, Failed, Outcome, Report, StreamCapture, TimedOut, Unknown
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.retry import RetryPlan, RetryRule, retry_delay_ms
from cronpad_core.domain.run import MOVES, Attempt, AttemptStatus, Run, RunStatus, SkipReason
from cronpad_core.domain.timing import DAY, HOUR, MINUTE, SECOND, JsonValue, Millis, from_ms, rfc3339, to_ms
from cronpad_core.hookspecs import hookimpl
from cronpad_core.ports.alerts import Alert, AlertEmitter
from cronpad_core.ports.catalog import (
    CatalogStore,
    JobWrite,
    Move,
    MoveAnswer,
    MoveKind,
    StaleWriteError,
    TermStore,
)
from cronpad_core.ports.history import (
    EndRequest,
    HistoryStore,
    RangeRequest,
    RecordAnswer,
    RecordKind,
    RecordRequest,
    SlotCounter,
)
from cronpad_core.ports.misfire import MisfirePolicy
from cronpad_core.ports.queue import Claimed, Entry, Lease, LeaseState, QueueCounts, QueuedEntry, QueueStore
from cronpad_core.ports.schedule import Schedule
from cronpad_core.ports.sink import CancelSignal, Delivery, Sink, SinkContext
from cronpad_core.ports.spawner import Child, Ended, Spawner, SpawnError, SpawnRequest
from cronpad_core.ports.storage import Storage, StorageOptions
from cronpad_core.schedules import parse_schedule

__all__ = [
    "API",
    "Alert",
    "AlertEmitter",
    "Attempt",
    "AttemptStatus",
    "CancelSignal",
    "Cancelled",
    "CatalogStore",
    "Child",
    "Claimed",
    "CommitUnknownError",
    "ConfigurationError",
    "CronpadError",
    "DAY",
    "Delivered",
    "Delivery",
    "EndRequest",
    "Ended",
    "Entry",
    "Failed",
    "Guarantee",
    "HOUR",
    "HistoryStore",
    "Job",
    "JobSpec",
    "JobStatus",
    "JobVersion",
    "JobWrite",
    "JsonValue",
    "Lease",
    "LeaseState",
    "LockRow",
    "MINUTE",
    "MOVES",
    "MalformedMemberError",
    "Millis",
    "MisfirePolicy",
    "MisfireRule",
    "MissedWindow",
    "Move",
    "MoveAnswer",
    "MoveKind",
    "NotFoundError",
    "NotRunningError",
    "Occurrence",
    "OpenDecision",
    "OpenKind",
    "OpenRequest",
    "OpenSnapshot",
    "Outcome",
    "OverlapPolicy",
    "OverlapRule",
    "PluginError",
    "QueueCounts",
    "QueueLook",
    "QueueStore",
    "QueuedEntry",
    "RangeKind",
    "RangeRequest",
    "RecordAnswer",
    "RecordKind",
    "RecordRequest",
    "Replay",
    "ReplayPlan",
    "Report",
    "RetryPlan",
    "RetryRule",
    "Run",
    "RunKey",
    "RunStatus",
    "SECOND",
    "Schedule",
    "ScheduleError",
    "ScheduleSpec",
    "ShutdownStyle",
    "Sink",
    "SinkContext",
    "SinkSpec",
    "SkipReason",
    "SlotCounter",
    "SlotRange",
    "SpawnError",
    "SpawnRequest",
    "Spawner",
    "StaleWriteError",
    "StateError",
    "StateRefusedError",
    "StateUnwritableError",
    "StateVanishedError",
    "Storage",
    "StorageOptions",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreError",
    "StreamCapture",
    "TermRecord",
    "TermRefusedError",
    "TermStore",
    "TimedOut",
    "Trigger",
    "Unknown",
    "decide_open",
    "from_ms",
    "hookimpl",
    "idempotency_key",
    "job_id_for",
    "parse_schedule",
    "retry_delay_ms",
    "rfc3339",
    "run_id_for",
    "term_of",
    "to_ms",
]

API = 1
"""The API number that this version of cronpad offers."""
