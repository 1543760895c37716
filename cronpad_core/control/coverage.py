"""Which version of a job covers which slots, and whether one that is overdue waits on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cronpad_core.domain.errors import StoreError
from cronpad_core.domain.job import Job, JobVersion
from cronpad_core.domain.timing import Millis
from cronpad_core.ports.queue import QueueStore

__all__ = ["Coverage", "coverage_of", "held_since"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """A version is in force for the slots in (``after_ms``, ``until_ms``]; ``None``: with no end yet."""

    version: JobVersion
    after_ms: Millis
    until_ms: Millis | None

    def covers(self, at_ms: Millis, margin_ms: Millis = 0) -> bool:
        """Whether the instant lies within, or at most so long behind its end."""
        return self.after_ms < at_ms and (self.until_ms is None or at_ms <= self.until_ms + margin_ms)


def coverage_of(versions: Sequence[JobVersion]) -> list[Coverage]:
    """Every version with its bounds, oldest first.

    A job whose schedule was used up has a version without an end; where a later one follows, that begins where it ends.
    """
    found: list[Coverage] = []
    following: JobVersion | None = None
    for version in reversed(versions):
        until = version.valid_until_ms
        if until is None and following is not None:
            until = max(following.valid_from_ms, version.valid_from_ms)
        found.insert(0, Coverage(version=version, after_ms=version.valid_from_ms, until_ms=until))
        following = version
    return found


async def held_since(queue: QueueStore, job: Job) -> Millis | None:
    """Since when a limit keeps the job's next slot waiting; ``None`` where none does, or the queue cannot be read."""
    if job.next_run_at_ms is None:
        return None
    member = job.slot(job.next_run_at_ms).member
    try:
        entries = await queue.scan(after=member[:-1], limit=8)
    except StoreError:
        return None
    return next((entry.held_since_ms for entry in entries if entry.member == member), None)
