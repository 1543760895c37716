"""The end of a lease: acknowledging an entry with its retry, or giving it back."""

from __future__ import annotations

from cronpad_core.domain.retry import RetryPlan
from cronpad_core.domain.timing import Millis
from cronpad_core.engine.patience import Patience
from cronpad_core.engine.ticket import Ticket
from cronpad_core.engine.wakeup import WakeUp
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.queue import Entry, LeaseState, QueueStore

__all__ = ["Settle"]


class Settle:
    """Step 7 of the order of writes, and giving entries back. Assumes that the result, or the outcome of the slot, is durable.

    Dies half-way: the entry is still in flight; the next holder finds the run finished or superseded and does this again.
    """

    def __init__(self, *, queue: QueueStore, clock: Clock, patience: Patience, wake: WakeUp) -> None:
        self._queue = queue
        self._clock = clock
        self._patience = patience
        self._wake = wake

    async def ack(self, ticket: Ticket, retry: RetryPlan | None = None) -> LeaseState:
        """Ends the lease, queueing the planned retry with it; ``LOST`` where another holder has the entry by now."""
        entry: Entry | None = None
        if retry is not None:
            following = ticket.occurrence.with_attempt(retry.attempt)
            entry = Entry(member=following.member, at_ms=retry.at_ms)
        lease = ticket.holding.lease
        state, unknown = await self._patience.insist_knowing("queue", lambda: self._queue.ack(lease, retry=entry))
        if entry is not None:
            self._wake.offer(entry.at_ms)
        return LeaseState.DONE if unknown else state

    async def release(self, ticket: Ticket, *, delay_ms: Millis, held: bool = False) -> None:
        """Gives the entry back, to come up again after ``delay_ms``; ``held`` where a limit keeps it waiting."""
        now = self._clock.wall_ms()
        lease = ticket.holding.lease
        await self._patience.insist(
            "queue", lambda: self._queue.release(lease, at_ms=now + delay_ms, held_since_ms=now if held else None)
        )
        self._wake.offer(now + delay_ms)
