"""When a job is due: what the engine asks of a parsed schedule."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from cronpad_core.domain.job import ScheduleSpec

__all__ = ["Schedule", "ScheduleReader"]


class Schedule(Protocol):
    """A parsed schedule in its zone. Immutable; every method is pure and safe to call from any thread.

    D1. ``next_after`` answers an instant strictly later than the one given, on the UTC line.
    D2. ``None`` means never again, and stays so for every later instant.
    D3. The answer depends on nothing but the schedule and the instant: not on a clock, not on earlier calls.
    D4. ``count_between(a, b)`` is the number of fires in (a, b], and equals a walk with ``next_after``.
    """

    def next_after(self, instant: datetime) -> datetime | None:
        """The first fire strictly after ``instant``.

        Takes an aware datetime and answers one in the schedule's zone. Raises ``ValueError`` for a naive one.
        """

    def prev_at_or_before(self, instant: datetime) -> datetime | None:
        """The last fire at or before ``instant``, or ``None`` if there was none."""

    def count_between(self, after: datetime, until: datetime) -> int:
        """How many fires lie in (``after``, ``until``]; 0 when ``until`` is not later."""

    def next_after_ms(self, instant_ms: int) -> int | None:
        """``next_after`` in Unix milliseconds, without building datetimes."""

    def prev_at_or_before_ms(self, instant_ms: int) -> int | None:
        """``prev_at_or_before`` in Unix milliseconds."""

    def count_between_ms(self, after_ms: int, until_ms: int) -> int:
        """``count_between`` in Unix milliseconds."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The text, or texts of a union, as the user wrote them."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is accepted but looks like a slip: a large step, two restricted day fields, a time in a clock change."""


class ScheduleReader(Protocol):
    """Turns a job's declared schedule into one that can be asked; cheap when asked again."""

    def __call__(self, job_id: str, version: int, spec: ScheduleSpec) -> Schedule:
        """The schedule of a job version. Raises ``ScheduleError`` for one that cannot be read (any more)."""
