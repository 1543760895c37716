"""What the process that dispatches does beside its line: feed backfills, end pauses, prune, keep up with time-zone data."""

from __future__ import annotations

from cronpad_core.config.settings import Settings
from cronpad_core.control.desk import Desk
from cronpad_core.control.pausing import due_resumes
from cronpad_core.control.refit import refit
from cronpad_core.domain.timing import DAY, MINUTE, SECOND, Millis
from cronpad_core.engine.backfills import BackfillFeeder
from cronpad_core.engine.retention import Keep, Pruner
from cronpad_core.runtime.compose import Engine
from cronpad_core.runtime.loops import Chore
from cronpad_core.runtime.schedules import ScheduleBook
from cronpad_core.runtime.zone_data import ZoneData

__all__ = ["Chores", "keep_of"]

_MEGABYTE = 1_000_000
_RESUME_EVERY, _PRUNE_EVERY, _PRUNE_AGAIN = 2 * SECOND, 10 * MINUTE, SECOND // 4


class Chores:
    """Each is idempotent and works under the term; one that fails is tried again in a second by whoever calls it."""

    def __init__(self, engine: Engine, desk: Desk, schedules: ScheduleBook, keep: Keep) -> None:
        parts = engine.parts
        self._engine = engine
        self._desk = desk
        self._schedules = schedules
        self._zone_data = ZoneData()
        self._refit_due = False
        self._feeder = BackfillFeeder(
            catalog=engine.catalog,
            history=parts.storage.history,
            queue=parts.storage.queue,
            clock=parts.clock,
            authority=engine.authority,
            patience=engine.patience,
            schedules=parts.schedules,
            next_ms=engine.budget.next_ms,
            wake=engine.wake.offer,
        )
        self._pruner = Pruner(
            history=parts.storage.history,
            clock=parts.clock,
            authority=engine.authority,
            patience=engine.patience,
            keep=keep,
            emit=parts.emit,
        )

    @property
    def all(self) -> tuple[Chore, ...]:
        """All of them."""
        return self._feed, self._resume, self._prune, self._update_zones, self._engine.sender.step

    async def _feed(self) -> Millis:
        if not self._engine.authority.may_claim():
            return SECOND
        at_ms = await self._feeder.step()
        return SECOND if at_ms is None else max(50, min(SECOND, at_ms - self._engine.parts.clock.wall_ms()))

    async def _resume(self) -> Millis:
        if self._engine.authority.may_claim():
            await due_resumes(self._desk)
        return _RESUME_EVERY

    async def _prune(self) -> Millis:
        return _PRUNE_AGAIN if await self._pruner.step() else _PRUNE_EVERY

    async def _update_zones(self) -> Millis:
        """Once a day, and only where there is other data."""
        if self._zone_data.updated():
            self._schedules.forget()
            self._refit_due = True
        if self._refit_due:
            await self.refit()
            self._refit_due = False
        return DAY

    async def refit(self) -> None:
        """Moves jobs whose next fire is no fire of their schedule any more; at a start the data may be other than at the stop."""
        engine, parts = self._engine, self._engine.parts
        moved = await refit(
            catalog=engine.catalog,
            history=parts.storage.history,
            schedules=parts.schedules,
            now_ms=parts.clock.wall_ms(),
            term=engine.authority.term,
        )
        if moved:
            await engine.reconciler.sweep()
            engine.wake.ring()


def keep_of(settings: Settings, *, for_ms: Millis | None = None, runs: int | None = None, mb: int | None = None) -> Keep:
    """What is kept by the settings, or by what is given instead of one; 0 is no limit."""
    chosen_ms = settings.history_keep_for_ms if for_ms is None else for_ms
    chosen_runs = settings.history_keep_runs if runs is None else runs
    chosen_mb = settings.history_keep_mb if mb is None else mb
    return Keep(for_ms=chosen_ms or None, runs=chosen_runs or None, max_bytes=chosen_mb * _MEGABYTE or None)
