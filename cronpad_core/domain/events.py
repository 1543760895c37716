"""What happened, as values: the engine tells these to whoever listens, and to nobody if nobody does.

An event is a noun and a past participle. Observers, logs and metrics are fed from here and from nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cronpad_core.domain.occurrence import Occurrence
from cronpad_core.domain.run import Attempt, RunStatus, SkipReason
from cronpad_core.domain.timing import Millis

__all__ = [
    "AlertFailed",
    "AlertSent",
    "AttemptFinished",
    "AttemptStarted",
    "ClockStepped",
    "DispatcherChanged",
    "EntriesRepaired",
    "EntryDropped",
    "Event",
    "HistoryPruned",
    "JobUnreadable",
    "JobsRewound",
    "LeaseLost",
    "LineFailed",
    "QueueRebuilt",
    "QuotaExceeded",
    "RunEnded",
    "RunHeld",
    "RunSkipped",
    "SlaBreached",
    "SlotsMissed",
    "StoreFailed",
    "StoreRecovered",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """A sink is about to be called. ``lag_ms`` counts from when the attempt was due."""

    occurrence: Occurrence
    job_name: str
    run_id: str
    at_ms: Millis
    lag_ms: Millis
    redelivery: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFinished:
    """An attempt's result is recorded. ``status`` is the run's status after it."""

    occurrence: Occurrence
    job_name: str
    workspace: str
    run_id: str
    attempt: Attempt
    status: RunStatus
    retry_at_ms: Millis | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSkipped:
    """A slot's time came and it was not run."""

    occurrence: Occurrence
    job_name: str
    run_id: str
    skip_reason: SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeld:
    """A run's time came, and it waits for room: under the cap of ``scope``, or for its turn after other runs of its job.

    Told once for each run; ``waiting`` says that it has a row of its own already.
    """

    occurrence: Occurrence
    job_name: str
    scope: str
    waiting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """A run ended without another attempt: cancelled, poisoned, or past its retry deadline."""

    occurrence: Occurrence
    job_name: str
    run_id: str
    status: RunStatus
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaExceeded:
    """A workspace opened a run although its monthly quota is used up, because the quota only warns."""

    workspace: str
    month: str
    max: int
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaBreached:
    """A run started or finished later than its job's rule allows; ``rule`` is ``start_within`` or ``finish_within``."""

    occurrence: Occurrence
    job_name: str
    run_id: str
    rule: str
    over_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStepped:
    """The wall clock was set: ``by_ms`` forward, or back where negative; ``suspended_ms`` is how long the machine slept."""

    by_ms: Millis
    suspended_ms: Millis = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsRewound:
    """The clock had been ahead: the next fires of these jobs were moved back to the first after now."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPruned:
    """Old rows were removed as ``history.keep`` says."""

    runs: int
    ranges: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsMissed:
    """A misfire policy decided over overdue slots: ``missed`` of them will not run, ``chosen`` will."""

    job_id: str
    job_name: str
    policy: str
    first_ms: Millis
    last_ms: Millis
    missed: int
    chosen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDropped:
    """A queue entry was acknowledged without a run: its job was edited, paused or deleted, or it could not be read."""

    member: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUnreadable:
    """A stored job cannot be scheduled (its zone is unknown here, for instance); others run on. It is looked at again later."""

    job_id: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFailed:
    """A mistake in cronpad itself kept an entry from being handled; it comes up again in a minute, and other jobs run on."""

    member: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost:
    """An entry is no longer ours while its delivery still runs; whatever it answers changes nothing."""

    member: str
    run_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesRepaired:
    """The reconciler found open work without a queue entry and put it back."""

    count: int
    full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRebuilt:
    """The queue file was lost, damaged or replaced, and was filled again from control and history."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherChanged:
    """This process became ``starting``, ``standby``, ``active`` or ``stopped``."""

    state: str
    term: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSent:
    """An alert was sent by its emitter, at the ``tries``-th try."""

    alert_id: str
    name: str
    kind: str
    tries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFailed:
    """A try to send an alert failed; ``given_up`` says that it was the last one."""

    alert_id: str
    name: str
    kind: str
    tries: int
    error: str
    given_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailed:
    """A store began to fail; told once per episode."""

    store: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecovered:
    """A store that had failed answers again."""

    store: str
    after_ms: Millis


Event: TypeAlias = (
    AttemptStarted
    | AttemptFinished
    | RunSkipped
    | RunHeld
    | RunEnded
    | QuotaExceeded
    | SlaBreached
    | ClockStepped
    | JobsRewound
    | HistoryPruned
    | SlotsMissed
    | EntryDropped
    | JobUnreadable
    | LeaseLost
    | LineFailed
    | EntriesRepaired
    | QueueRebuilt
    | DispatcherChanged
    | AlertSent
    | AlertFailed
    | StoreFailed
    | StoreRecovered
)
"""Everything that an observer may be told."""
