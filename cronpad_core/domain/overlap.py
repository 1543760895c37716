"""What happens when a run is due while one of its job is still running."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["BOUNDED", "NO_BOUND", "OverlapPolicy", "OverlapRule"]


class OverlapPolicy(StrEnum):
    """What becomes of the new run.

    ``SKIP``: recorded as skipped. ``ALLOW``: up to ``max`` run at once, further ones are skipped. ``QUEUE_ONE``, ``QUEUE_ALL``: it
    waits for its turn, with at most ``max`` waiting. ``CANCEL_RUNNING``, ``KILL_RUNNING``: the running one is told to end, in an
    orderly way or at once, and the new one waits for its recorded end; of several that wait only the newest runs.
    """

    SKIP = "skip"
    ALLOW = "allow"
    QUEUE_ONE = "queue_one"
    QUEUE_ALL = "queue_all"
    CANCEL_RUNNING = "cancel_running"
    KILL_RUNNING = "kill_running"


NO_BOUND: Final = 1_000_000
"""``allow`` without a ``max``: as many as there are workers."""

BOUNDED: Final = {OverlapPolicy.ALLOW: NO_BOUND, OverlapPolicy.QUEUE_ALL: 100}
"""The policies for which ``max`` means something, with the one that they have where none is given."""

_REPLACING = {OverlapPolicy.CANCEL_RUNNING: "stop", OverlapPolicy.KILL_RUNNING: "kill"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapRule:
    """The job's overlap policy; ``max`` is how many may run at once under ``ALLOW``, and how many may wait under ``QUEUE_ALL``."""

    policy: OverlapPolicy = OverlapPolicy.SKIP
    max: int = 1

    @property
    def limit(self) -> int:
        """How many runs of the job may be running at once."""
        return self.max if self.policy is OverlapPolicy.ALLOW else 1

    @property
    def waiting(self) -> int:
        """How many runs of the job may wait for their turn."""
        if self.policy is OverlapPolicy.QUEUE_ALL:
            return self.max
        return 1 if self.policy is OverlapPolicy.QUEUE_ONE else 0

    @property
    def replaces(self) -> str | None:
        """The stage that a running predecessor is asked for (``"stop"`` or ``"kill"``), or ``None`` where it is left alone."""
        return _REPLACING.get(self.policy)
