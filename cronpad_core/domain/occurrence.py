"""One attempt at one slot of one job: what a queue member names."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from cronpad_core.domain.errors import MalformedMemberError
from cronpad_core.domain.timing import Millis
from cronpad_core.domain.values import value

__all__ = ["Occurrence", "RunKey", "Trigger"]


_MOST = 2**63 - 1  # no store keeps a larger number


class Trigger(StrEnum):
    """Why a run exists. Only ``SCHEDULED`` advances the schedule and counts in the ledger."""

    SCHEDULED = "s"
    MANUAL = "m"
    RETRY = "r"
    BACKFILL = "b"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RunKey:
    """What makes a run unique: ``(job, scheduled_at, trigger)``."""

    job_id: str
    scheduled_at_ms: Millis
    trigger: Trigger


@value
class Occurrence:
    """``{job_id}|{scheduled_at_ms}|{attempt}|{job_version}|{trigger}``; attempt 0 is the first try.

    ``member`` is that text, the primary key in the queue.
    """

    job_id: str
    scheduled_at_ms: Millis
    attempt: int
    job_version: int
    trigger: Trigger

    member: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = f"{self.job_id}|{self.scheduled_at_ms}|{self.attempt}|{self.job_version}|{self.trigger}"
        object.__setattr__(self, "member", text)

    @property
    def key(self) -> RunKey:
        """The run that this attempt belongs to."""
        return RunKey(job_id=self.job_id, scheduled_at_ms=self.scheduled_at_ms, trigger=self.trigger)

    @property
    def is_slot(self) -> bool:
        """Whether handling this entry moves the job's schedule on (written s/0 in the design)."""
        return self.attempt == 0 and self.trigger is Trigger.SCHEDULED

    def with_attempt(self, attempt: int) -> Occurrence:
        """The same slot, another attempt."""
        return replace(self, attempt=attempt)

    def _storable(self) -> bool:
        numbers = abs(self.scheduled_at_ms), self.attempt, self.job_version
        return bool(self.job_id) and self.attempt >= 0 and self.job_version > 0 and max(numbers) <= _MOST

    @classmethod
    def parse(cls, member: str) -> Occurrence:
        """Reads a queue member back. Raises :class:`MalformedMemberError` unless it is exactly what ``member`` writes."""
        parts = member.split("|")
        if len(parts) == 5:
            job_id, scheduled, attempt, version, trigger = parts
            try:
                found = cls(
                    job_id=job_id,
                    scheduled_at_ms=int(scheduled),
                    attempt=int(attempt),
                    job_version=int(version),
                    trigger=Trigger(trigger),
                )
            except ValueError:
                found = None
            if found is not None and found.member == member and found._storable():
                return found
        raise MalformedMemberError(f"not an occurrence: {member[:200]!r}")
