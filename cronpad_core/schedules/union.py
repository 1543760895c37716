"""Several texts of one job: the union of their fires, equal instants once."""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

from cronpad_core.schedules.facts import ScheduleFacts
from cronpad_core.schedules.timeline import Timeline

__all__ = ["COUNT_CAP", "UnionSchedule"]

COUNT_CAP: Final = 100_000
"""A union counts its fires by walking them; from this many on its count means "at least"."""


class UnionSchedule(Timeline):
    """The fires of all members; an instant that several members name is one fire."""

    def __init__(self, *, members: tuple[Timeline, ...], timezone: str, zone: tzinfo) -> None:
        super().__init__(text=members[0].texts[0], timezone=timezone, zone=zone)
        self._members = members

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts as the user wrote them, in order."""
        return tuple(text for member in self._members for text in member.texts)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all members, each once."""
        return tuple(dict.fromkeys(warning for member in self._members for warning in member.warnings))

    def next_after_ms(self, instant_ms: int) -> int | None:
        """The earliest of the members' next fires."""
        fires = [fire for member in self._members if (fire := member.next_after_ms(instant_ms)) is not None]
        return min(fires, default=None)

    def prev_at_or_before_ms(self, instant_ms: int) -> int | None:
        """The latest of the members' previous fires."""
        fires = [fire for member in self._members if (fire := member.prev_at_or_before_ms(instant_ms)) is not None]
        return max(fires, default=None)

    def count_between_ms(self, after_ms: int, until_ms: int) -> int:
        """How many fires lie in the range, by a merging walk; ``COUNT_CAP`` means at least that many."""
        total = 0
        heads = [member.next_after_ms(after_ms) for member in self._members]
        while total < COUNT_CAP:
            fires = [head for head in heads if head is not None and head <= until_ms]
            if not fires:
                break
            fire = min(fires)
            total += 1
            for index, head in enumerate(heads):
                if head == fire:
                    heads[index] = self._members[index].next_after_ms(fire)
        return total

    def count_is_exact(self, after_ms: int, until_ms: int) -> bool:
        """False where the walk stopped at the cap."""
        return self.count_between_ms(after_ms, until_ms) < COUNT_CAP

    def note_for_ms(self, instant_ms: int) -> str | None:
        """The note of the first member that fires at this instant and has one."""
        for member in self._members:
            if member.prev_at_or_before_ms(instant_ms) == instant_ms:
                note = member.note_for_ms(instant_ms)
                if note is not None:
                    return note
        return None

    def facts(self) -> ScheduleFacts:
        """The facts of every member."""
        members = tuple(member.facts() for member in self._members)
        sentence = f"The union of {len(members)} texts; an instant that several of them name is one run."
        return ScheduleFacts(kind="union", sentences=(sentence,), members=members)

    def __repr__(self) -> str:
        return f"UnionSchedule({list(self.texts)!r}, timezone={self._timezone!r})"
