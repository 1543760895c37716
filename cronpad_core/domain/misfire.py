"""Slots that could not start in time: what a policy is shown, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cronpad_core.domain.timing import DAY, JsonValue, Millis

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MisfireRule", "MissedWindow", "ReplayPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MisfireRule:
    """The job's misfire policy by name, with the settings that the policy itself understands.

    ``window_ms`` bounds how old a slot may be and still be run; the engine widens it to the job's own period.
    """

    policy: str = "latest"
    window_ms: Millis = DAY
    settings: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedWindow:
    """What is overdue: the slots of one job in [``first_ms``, ``newest_ms``], never listed one by one.

    ``earliest_ms`` is the first of them that is still within the job's window, or ``None`` if all are too old. ``next_after``
    and ``count_between`` (over (a, b]) ask the job's schedule.
    """

    job_id: str
    first_ms: Millis
    newest_ms: Millis
    earliest_ms: Millis | None
    now_ms: Millis
    rule: MisfireRule
    next_after: Callable[[Millis], Millis | None]
    count_between: Callable[[Millis, Millis], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """Which of the overdue slots run: those in [``first_ms``, ``until_ms``], oldest first. All others are missed.

    ``None`` for both is none of them.
    """

    first_ms: Millis | None = None
    until_ms: Millis | None = None
