"""What happens when a run is due while one of its job is still running."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["OverlapPolicy", "OverlapRule"]


class OverlapPolicy(StrEnum):
    """``SKIP``: the new one is recorded as skipped. ``ALLOW``: up to ``max`` run at once, further ones are skipped."""

    SKIP = "skip"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapRule:
    """The job's overlap policy; ``max`` is how many runs of it may be running at once under ``ALLOW``."""

    policy: OverlapPolicy = OverlapPolicy.SKIP
    max: int = 1

    @property
    def limit(self) -> int:
        """How many runs of the job may be running at once."""
        return 1 if self.policy is OverlapPolicy.SKIP else self.max
