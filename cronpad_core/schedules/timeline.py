"""The methods every kind of schedule shares: datetimes in and out around the computation in milliseconds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime, tzinfo

from cronpad_core.schedules.facts import ScheduleFacts
from cronpad_core.schedules.moments import LAST_MS, to_datetime, to_ms

__all__ = ["Timeline"]


class Timeline(ABC):
    """A schedule of one text in one zone; subclasses answer in milliseconds and get the datetime half of the protocol."""

    def __init__(self, *, text: str, timezone: str, zone: tzinfo) -> None:
        self._text = text
        self._timezone = timezone
        self._zone = zone

    @property
    def texts(self) -> tuple[str, ...]:
        """The text as the user wrote it."""
        return (self._text,)

    @property
    def timezone(self) -> str:
        """The name of the zone that the schedule reads its clock in."""
        return self._timezone

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is accepted but looks like a slip."""
        return ()

    @abstractmethod
    def facts(self) -> ScheduleFacts:
        """The rules that hold, for ``explain``."""

    @abstractmethod
    def next_after_ms(self, instant_ms: int) -> int | None:
        """The first fire strictly after the instant, or ``None``."""

    @abstractmethod
    def prev_at_or_before_ms(self, instant_ms: int) -> int | None:
        """The last fire at or before the instant, or ``None``."""

    @abstractmethod
    def count_between_ms(self, after_ms: int, until_ms: int) -> int:
        """How many fires lie in (``after_ms``, ``until_ms``]."""

    def count_is_exact(self, after_ms: int, until_ms: int) -> bool:
        """Whether ``count_between_ms`` of this range is the number itself, not "at least" that many."""
        return True

    def note_for_ms(self, instant_ms: int) -> str | None:
        """What a clock change has to do with the fire at this instant: ``dst_gap: …``, ``dst_overlap: …`` or ``None``."""
        return None

    def next_after(self, instant: datetime) -> datetime | None:
        """The first fire strictly after ``instant``, in the schedule's zone."""
        return self._to_datetime(self.next_after_ms(to_ms(instant)))

    def prev_at_or_before(self, instant: datetime) -> datetime | None:
        """The last fire at or before ``instant``, in the schedule's zone."""
        return self._to_datetime(self.prev_at_or_before_ms(to_ms(instant)))

    def count_between(self, after: datetime, until: datetime) -> int:
        """How many fires lie in (``after``, ``until``]."""
        return self.count_between_ms(to_ms(after), to_ms(until))

    def note_for(self, instant: datetime) -> str | None:
        """What a clock change has to do with the fire at ``instant``, or ``None``."""
        return self.note_for_ms(to_ms(instant))

    def _to_datetime(self, instant_ms: int | None) -> datetime | None:
        if instant_ms is None or not -62135596800000 <= instant_ms <= LAST_MS:
            return None
        return to_datetime(instant_ms, self._zone)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._text!r}, timezone={self._timezone!r})"
