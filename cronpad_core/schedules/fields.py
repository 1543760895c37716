"""The seven cron fields: their names, bounds and words, and the refusals that are phrased from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from cronpad_core.domain.errors import ScheduleError

__all__ = ["FIELDS", "LAYOUTS", "MONTHS", "WEEKDAYS", "CronField", "Place"]

MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True, kw_only=True)
class CronField:
    """One field of a cron text: ``low`` to ``high`` are the values that may be written, ``star_high`` is where ``*`` ends.

    The two differ for the weekday alone: 7 may be written for Sunday, but ``*`` and ``N/s`` stop at Saturday.
    """

    name: str
    low: int
    high: int
    star_high: int
    allowed: str
    words: tuple[str, ...] = ()

    def number_of(self, word: str) -> int | None:
        """The value of a three-letter name in any case, or ``None``."""
        upper = word.upper()
        return self.words.index(upper) + self.low if upper in self.words else None


SECOND: Final = CronField(name="second", low=0, high=59, star_high=59, allowed="0-59")
MINUTE: Final = CronField(name="minute", low=0, high=59, star_high=59, allowed="0-59")
HOUR: Final = CronField(name="hour", low=0, high=23, star_high=23, allowed="0-23")
DAY: Final = CronField(name="day-of-month", low=1, high=31, star_high=31, allowed="1-31, also L, L-3, LW and 15W")
MONTH: Final = CronField(name="month", low=1, high=12, star_high=12, allowed="1-12 or JAN-DEC", words=MONTHS)
WEEKDAY: Final = CronField(
    name="day-of-week",
    low=0,
    high=7,
    star_high=6,
    allowed="0-7 (0 and 7 are Sunday) or SUN-SAT, also 5L and 2#3",
    words=WEEKDAYS,
)
YEAR: Final = CronField(name="year", low=1970, high=2199, star_high=2199, allowed="1970-2199")

FIELDS: Final = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, YEAR)
LAYOUTS: Final = {5: FIELDS[1:6], 6: FIELDS[:6], 7: FIELDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a text the parser stands: a field and its 1-based position, from which every refusal is phrased."""

    field: CronField
    position: int

    def refuse(self, code: str, token: str, message: str, *, suggestion: str | None = None) -> NoReturn:
        """Raise the ``ScheduleError`` of this place; a suggestion is also put in words unless the message has it already."""
        said = ("Did you mean", f"rite {suggestion}", f"Use '{suggestion}'")
        if suggestion is not None and not any(words in message for words in said):
            message = f"{message} Did you mean {suggestion}?"
        raise ScheduleError(
            f"{self.field.name} field: {message}",
            code=code,
            field=self.field.name,
            position=self.position,
            token=token,
            suggestion=suggestion,
        )
