"""Taking due entries out of the queue, no more than can start at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from cronpad_core.domain.errors import CommitUnknownError, MalformedMemberError, StoreError, TermRefusedError
from cronpad_core.domain.events import EntryDropped
from cronpad_core.domain.occurrence import Occurrence
from cronpad_core.domain.timing import Millis
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.engine.ticket import Holding, Holdings, Ticket
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.queue import Claimed, Lease, LeaseState, QueueStore

__all__ = ["Catch", "Claimer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catch:
    """What one claim brought: lines to begin, and leases that a running worker takes over."""

    tickets: tuple[Ticket, ...] = ()
    handovers: tuple[tuple[Holding, int, int], ...] = ()


class Claimer:
    """Claims at most as many entries as there are free workers, under trust before and after.

    Guarantees: a claimed entry is either in the catch, acknowledged as unreadable, or still in flight under our name for the reaper
    and the next start. Leaves behind when it dies: in-flight entries, which the next start requeues.
    """

    def __init__(
        self,
        *,
        queue: QueueStore,
        clock: Clock,
        authority: Authority,
        holdings: Holdings,
        patience: Patience,
        tuning: Tuning,
        owner: str,
        emit: Emit,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._authority = authority
        self._holdings = holdings
        self._patience = patience
        self._tuning = tuning
        self._owner = owner
        self._emit = emit
        self._term = -1
        self._next_fence = 0
        self._discarding: set[asyncio.Future[LeaseState]] = set()

    def free(self) -> int:
        """How many more lines may begin."""
        return self._tuning.workers - len(self._holdings)

    async def claim(self, most: int | None = None) -> Catch:
        """One claim, of ``most`` entries at the most where that is given.

        Raises ``StoreError`` (told already; try later) and ``TermRefusedError`` (somebody came after us).
        """
        term = self._authority.term
        limit = min(self._tuning.claim_batch if most is None else most, self.free())
        if term is None or limit <= 0 or not self._authority.may_claim():
            return Catch()
        if not self._queue.present():
            self._authority.doubt()
            return Catch()
        if term != self._term:
            self._term, self._next_fence = term, (term << 32) + 1
        claimed = await self._take(term, limit)
        now = self._clock.wall_ms()
        if not self._queue.present():
            self._authority.doubt()
        return self._sort(claimed, term, now)

    async def _take(self, term: int, limit: int) -> list[Claimed]:
        fence_from = self._next_fence
        self._next_fence += limit
        now, until = self._clock.wall_ms(), self._authority.lease_ms() + self._tuning.lease_ms
        try:
            return await self._patience.attempt(
                "queue",
                lambda: self._queue.claim(
                    term=term, owner=self._owner, now_ms=now, limit=limit, lease_until_ms=until, fence_from=fence_from
                ),
            )
        except CommitUnknownError:
            return await self._patience.insist(
                "queue", lambda: self._queue.claimed_since(owner=self._owner, fence_from=fence_from)
            )

    def _sort(self, claimed: list[Claimed], term: int, now: Millis) -> Catch:
        # Nothing is waited for in here: a claim that is broken off must not leave holdings behind that no line works on.
        tickets: list[Ticket] = []
        handovers: list[tuple[Holding, int, int]] = []
        for entry in claimed:
            running = self._holdings.get(entry.member)
            if running is not None:
                running.offered = max(running.offered, entry.fence)
                handovers.append((running, entry.fence, term))
                continue
            try:
                occurrence = Occurrence.parse(entry.member)
            except MalformedMemberError as error:
                self._discard(entry, str(error))
                continue
            holding = Holding(occurrence=occurrence, fence=entry.fence, term=term)
            self._holdings.add(holding)
            tickets.append(
                Ticket(
                    occurrence=occurrence,
                    holding=holding,
                    due_at_ms=entry.due_at_ms,
                    claimed_at_ms=now,
                    held_since_ms=entry.held_since_ms,
                )
            )
        return Catch(tickets=tuple(tickets), handovers=tuple(handovers))

    def _discard(self, entry: Claimed, reason: str) -> None:
        self._emit(EntryDropped(member=entry.member, reason=reason))
        lease = Lease(member=entry.member, fence=entry.fence)
        ack = asyncio.ensure_future(self._patience.insist("queue", lambda: self._queue.ack(lease)))
        self._discarding.add(ack)
        ack.add_done_callback(self._discarding.discard)

    async def earliest(self) -> Millis | None:
        """When the next entry is due, wall; ``None`` for an empty queue, or one that does not answer."""
        try:
            return await self._patience.attempt("queue", self._queue.earliest)
        except (StoreError, TermRefusedError):
            return self._clock.wall_ms()
