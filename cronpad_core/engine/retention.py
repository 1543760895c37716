"""How long the past is kept: old rows go in small batches, so that nobody waits behind them."""

from __future__ import annotations

from dataclasses import dataclass

from cronpad_core.domain.events import HistoryPruned
from cronpad_core.domain.timing import Millis
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import HistoryStore
from cronpad_core.ports.keeping import PruneRequest

__all__ = ["Keep", "Pruner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """What is kept of history: runs created within ``for_ms``, of each job the newest ``runs``, in all ``max_bytes``.

    A run goes as soon as one of the three says so; ``None`` says nothing. Runs that have not ended always stay.
    """

    for_ms: Millis | None = None
    runs: int | None = None
    max_bytes: int | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing ever goes."""
        return self.for_ms is None and self.runs is None and self.max_bytes is None

    def request(self, now_ms: Millis, *, limit: int) -> PruneRequest:
        """One batch of at most ``limit`` runs, as of ``now_ms``."""
        before = None if self.for_ms is None else now_ms - self.for_ms
        return PruneRequest(before_ms=before, keep=self.runs, max_bytes=self.max_bytes, limit=limit)


class Pruner:
    """Prunes history while this process holds the lock, one batch a step; calls after each other find less and less.

    Dies half-way: a batch is one transaction, and the next step finds what is left. Assumes nothing of other steps.
    """

    def __init__(
        self,
        *,
        history: HistoryStore,
        clock: Clock,
        authority: Authority,
        patience: Patience,
        keep: Keep,
        emit: Emit,
        batch: int = 500,
    ) -> None:
        self._history = history
        self._clock = clock
        self._authority = authority
        self._patience = patience
        self._keep = keep
        self._emit = emit
        self._batch = batch

    async def step(self) -> bool:
        """Removes one batch and tells of it; answers whether another step would find more.

        False without trust, and where everything is kept. Raises ``StoreError`` and ``TermRefusedError``.
        """
        term = self._authority.term
        if self._keep.everything or term is None or not self._authority.trusted():
            return False
        request = self._keep.request(self._clock.wall_ms(), limit=self._batch)
        pruned = await self._patience.attempt("history", lambda: self._history.prune(request, term=term))
        if pruned.runs or pruned.ranges:
            self._emit(HistoryPruned(runs=pruned.runs, ranges=pruned.ranges))
        return pruned.more
