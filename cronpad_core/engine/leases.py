"""Keeping the leases of what runs here, and taking over newer ones."""

from __future__ import annotations

from cronpad_core.domain.errors import StoreError
from cronpad_core.domain.events import LeaseLost
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.engine.ticket import Holding, Holdings
from cronpad_core.ports.history import HistoryStore
from cronpad_core.ports.queue import LeaseState, QueueStore

__all__ = ["LeaseKeeper"]


class LeaseKeeper:
    """Extends all held leases at once. A stuck loop does not get here, and loses its leases as it should.

    Guarantees: a lease that cannot be kept is marked lost and told once. Dies: leases end by themselves and the reaper has them.
    """

    def __init__(
        self,
        *,
        queue: QueueStore,
        history: HistoryStore,
        authority: Authority,
        holdings: Holdings,
        patience: Patience,
        tuning: Tuning,
        owner: str,
        emit: Emit,
    ) -> None:
        self._queue = queue
        self._history = history
        self._authority = authority
        self._holdings = holdings
        self._patience = patience
        self._tuning = tuning
        self._owner = owner
        self._emit = emit

    async def extend(self) -> None:
        """One extension of everything held; a store that does not answer is tried again at the next one."""
        held = {holding.lease: holding for holding in self._holdings if not holding.lost}
        if not held:
            return
        until = self._authority.lease_ms() + self._tuning.lease_ms
        try:
            states = await self._patience.attempt(
                "queue", lambda: self._queue.extend(list(held), owner=self._owner, until_ms=until)
            )
        except StoreError:
            return
        for lease, state in states.items():
            holding = held[lease]
            still = self._holdings.get(lease.member) is holding and holding.fence == lease.fence
            if state is LeaseState.LOST and still and holding.offered <= lease.fence:
                self._holdings.lose(holding)
                self._emit(LeaseLost(member=lease.member, run_id=holding.run_id))

    async def take_over(self, holding: Holding, fence: int, term: int) -> bool:
        """Gives a running worker the newer lease of its own entry; False where the worker has ended: then it is a new line.

        The run row is moved to the new fence first, where it still is this attempt under the old one.
        """
        occurrence = holding.occurrence
        old = holding.fence
        await self._patience.insist(
            "history",
            lambda: self._history.raise_fence(occurrence.key, attempt=occurrence.attempt, old=old, new=fence),
        )
        if self._holdings.get(occurrence.member) is not holding:
            return False
        if fence > holding.fence:
            self._holdings.regain(holding, fence, term)
        return True
