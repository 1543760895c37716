"""Putting back what nobody keeps alive any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cronpad_core.domain.timing import Millis
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.patience import Patience
from cronpad_core.engine.ticket import Holdings
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.queue import QueueStore

__all__ = ["Reaper"]


class Reaper:
    """Rescues on the lease, never on age. Every batch is one transaction under our term; dying between them leaves the rest."""

    def __init__(
        self,
        *,
        queue: QueueStore,
        clock: Clock,
        authority: Authority,
        holdings: Holdings,
        patience: Patience,
        tuning: Tuning,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._authority = authority
        self._holdings = holdings
        self._patience = patience
        self._tuning = tuning

    async def reap(self) -> int:
        """Puts back entries whose lease ended. Raises ``StoreError`` and ``TermRefusedError``; answers how many."""
        term = self._authority.term
        if term is None or not self._authority.may_claim():
            return 0
        if not self._queue.present():
            self._authority.doubt()
            return 0
        now, lease_now = self._clock.wall_ms(), self._authority.lease_ms()
        limit = self._tuning.batch
        return await self._batches(lambda: self._queue.reap(term=term, now_lease_ms=lease_now, now_ms=now, limit=limit), limit)

    async def requeue(self, now_ms: Millis | None = None) -> int:
        """At a start, or in another queue file: puts back all that no worker here runs. Raises as ``reap`` does."""
        term = self._authority.term
        if term is None:
            return 0
        now, limit = self._clock.wall_ms() if now_ms is None else now_ms, self._tuning.batch
        return await self._batches(
            lambda: self._queue.requeue(term=term, now_ms=now, limit=limit, spare=self._holdings.members()), limit
        )

    async def _batches(self, call: Callable[[], Awaitable[list[str]]], limit: int) -> int:
        total = 0
        while True:
            members = await self._patience.attempt("queue", call)
            total += len(members)
            if len(members) < limit:
                return total
