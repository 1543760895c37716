"""What every control operation works with, whoever asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cronpad_core.domain.errors import TermRefusedError
from cronpad_core.domain.events import Event
from cronpad_core.domain.occurrence import RunKey
from cronpad_core.domain.timing import Millis
from cronpad_core.ports.catalog import CatalogStore
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import HistoryStore
from cronpad_core.ports.queue import QueueStore
from cronpad_core.ports.schedule import ScheduleReader

__all__ = ["Desk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The stores of the process that holds the dispatcher lock, and its ears.

    ``catalog`` is the one that its line reads through, so that no old answer is remembered. ``term`` answers the term that is
    held at this moment. ``wake`` says that something is due at that wall time. ``tell`` asks the delivery of a run in this
    process to end, by a stage (``"stop"`` or ``"kill"``) and for a reason; it answers whether there is one. ``emit`` tells
    whoever listens to the engine.
    """

    catalog: CatalogStore
    history: HistoryStore
    queue: QueueStore
    schedules: ScheduleReader
    clock: Clock
    term: Callable[[], int | None]
    wake: Callable[[Millis], None]
    tell: Callable[[RunKey, str, str], bool]
    emit: Callable[[Event], None] = lambda event: None

    def require_term(self) -> int:
        """The term that is held. Raises ``TermRefusedError`` where none is: a standby changes nothing."""
        term = self.term()
        if term is None:
            raise TermRefusedError(
                "this process stands by, or has just lost the dispatcher lock: nothing was changed",
                hint="ask the process that dispatches on this state; 'cronpad health' says whether one does",
            )
        return term

    def now_ms(self) -> Millis:
        """Unix time."""
        return self.clock.wall_ms()
