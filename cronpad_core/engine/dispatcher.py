"""The dispatcher lock: standing by, taking, renewing, moving to another queue file, giving back.

A holder is named in control and in history (term, identity, released); the lock row in the queue is {token, term, expiry}. ``H`` is
the holder with the higher term of the two, control's on a tie. A taking is allowed at once where H is nobody or has released,
where H is provably dead and the row is of H's term, or where H is this process itself and had finished that taking. Otherwise only
after file, row and H were seen unchanged for a full lock TTL of looks, one each second: looks are counted, not time, so a process
that slept counts nothing. Every write of the record compares the whole record that was read.

Looks prove H's silence only where its row is there to be watched. Where it is not (no queue, or another row), and H is another
process that is not provably dead, it may renew unseen. Such a taking comes after two TTL of looks and writes the records alone;
from then on H's renewals are refused, and one TTL later its trust has ended and the taking is made again, in full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from cronpad_core.domain.dispatch import LockRow, QueueLook, TermRecord
from cronpad_core.domain.errors import StoreDamagedError, StoreError
from cronpad_core.domain.events import QueueRebuilt
from cronpad_core.domain.timing import MINUTE, Millis
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.ports.catalog import CatalogStore
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import HistoryStore
from cronpad_core.ports.liveness import Liveness
from cronpad_core.ports.queue import QueueStore

__all__ = ["Dispatcher", "Sight"]

_EARLY_MS = 5  # a timer may come back a little early


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One look at everything that a taking is judged by."""

    control: TermRecord
    history: TermRecord
    queue: QueueLook

    @property
    def holder(self) -> TermRecord:
        """H: the record with the higher term, control's on a tie."""
        return self.control if self.control.term >= self.history.term else self.history

    @property
    def evidence(self) -> object:
        """What must not change while a taker waits."""
        return self.queue.identity, self.queue.lock, self.holder

    @property
    def highest_term(self) -> int:
        """No term was ever above this."""
        row = self.queue.lock.term if self.queue.lock else 0
        return max(self.control.term, self.history.term, self.queue.term, row)


class Dispatcher:
    """One holder at a time, proved on a model: two trusted holders never, a stuck take-over never.

    Writes nothing until it takes. Dies at any point: its record stays, and the next taker judges it by the same rules.
    """

    def __init__(
        self,
        *,
        catalog: CatalogStore,
        history: HistoryStore,
        queue: QueueStore,
        clock: Clock,
        liveness: Liveness,
        authority: Authority,
        patience: Patience,
        tuning: Tuning,
        draw: Callable[[], str],
        emit: Emit,
    ) -> None:
        self._catalog = catalog
        self._history = history
        self._queue = queue
        self._clock = clock
        self._liveness = liveness
        self._authority = authority
        self._patience = patience
        self._tuning = tuning
        self._draw = draw
        self._emit = emit
        self.token = draw()
        self._begun_term: int | None = None
        self._finished_term: int | None = None
        self._evidence: object = None
        self._looks = 0
        self._counted_ms: Millis = 0
        self._epoch = ""
        self.lost_because = ""
        self.clock_was_ahead = False

    async def try_take(self) -> bool:
        """One look, and a taking where it is allowed. False: stand by and look again in a second."""
        try:
            sight = await self._look()
        except StoreError:
            self._evidence, self._looks = None, 0
            return False
        if not self._allowed(sight):
            return False
        try:
            return await self._take(sight)
        except StoreError:
            return False

    async def _look(self) -> Sight:
        control = await self._patience.attempt("control", self._catalog.read_term)
        history = await self._patience.attempt("history", self._history.read_term)
        return Sight(control=control, history=history, queue=await self._patience.attempt("queue", self._queue.look))

    def _allowed(self, sight: Sight) -> bool:
        holder, lock, now = sight.holder, sight.queue.lock, self._clock.boot_ms()
        if sight.evidence != self._evidence:
            self._evidence, self._looks, self._counted_ms = sight.evidence, 0, now
        elif now - self._counted_ms >= self._tuning.look_ms - _EARLY_MS:
            # Who looks more often than that sees the same, and has not waited longer.
            self._looks, self._counted_ms = self._looks + 1, now
        if holder.holder is None or holder.released:
            return True
        if holder.term == self._finished_term:
            return True
        if lock is not None and lock.term == holder.term and self._liveness.dead(holder.holder):
            return True
        # Whoever has written the records and waits for its second half must get there before another begins with its first.
        patience = 2 if self._unseen(sight) else 1
        return self._looks * self._tuning.look_ms > patience * self._tuning.lock_ttl_ms

    def _unseen(self, sight: Sight) -> bool:
        """Whether H may hold a lock that we do not see."""
        holder, lock = sight.holder, sight.queue.lock
        if holder.holder is None or holder.released or holder.term == self._begun_term:
            return False
        return (lock is None or lock.term != holder.term) and not self._liveness.dead(holder.holder)

    async def _take(self, sight: Sight) -> bool:
        began = self._clock.boot_ms()
        trust_until = began + self._tuning.lock_ttl_ms - self._tuning.trust_margin_ms
        term = sight.highest_term + 1
        record, unseen = TermRecord(term=term, holder=self._liveness.me(), released=False), self._unseen(sight)
        if not await self._patience.attempt("control", lambda: self._catalog.swap_term(sight.control, record)):
            return False
        self._begun_term = term
        if not await self._patience.attempt("history", lambda: self._history.swap_term(sight.history, record)):
            return False
        self._evidence, self._looks = None, 0
        if unseen:
            return False
        reason = await self._patience.attempt("queue", self._queue.open)
        seen = sight.queue
        if seen.identity is None:
            # There was no queue to judge by; the one that was just created must still be nobody's.
            seen = await self._patience.attempt("queue", self._queue.look)
            if seen.lock is not None:
                return False
        self.clock_was_ahead = (seen.heartbeat_ms or 0) > self._clock.wall_ms() + MINUTE
        base = self._base(seen)
        epoch = self._draw()
        row = LockRow(token=self.token, term=term, expires_ms=base + began + self._tuning.lock_ttl_ms)
        acquire = partial(self._queue.acquire, row, seen=seen, boot_id=self._clock.boot_id(), boot_base_ms=base, epoch=epoch)
        if not await self._patience.attempt("queue", lambda: acquire(guard=partial(self._before, trust_until))):
            return False
        self._epoch, self._finished_term = epoch, term
        self._authority.grant(term, trust_until_ms=trust_until, lease_base_ms=base)
        if reason is not None and sight.control.term > 0:
            self._emit(QueueRebuilt(reason=reason))
        return True

    def _base(self, look: QueueLook) -> Millis:
        """Where lease time begins: as stored since this boot, or wall time anew after another one."""
        if look.boot_id == self._clock.boot_id():
            return look.boot_base_ms
        return self._clock.wall_ms() - self._clock.boot_ms()

    async def renew(self) -> bool:
        """One renewal; False on any "no": stop claiming, and begin again at the look. An error is tried again while trust lasts."""
        term = self._authority.term
        while term is not None and self._authority.term == term and self._authority.trusted():
            began = self._clock.boot_ms()
            if not self._queue.present():
                self._authority.doubt()
                return True
            try:
                if (await self._patience.attempt("control", self._catalog.read_term)).term != term:
                    return False
                row = LockRow(token=self.token, term=term, expires_ms=self._authority.lease_ms(began) + self._tuning.lock_ttl_ms)
                now, heartbeat = self._authority.lease_ms(), self._clock.wall_ms()
                renew = partial(self._queue.renew, row, now_lease_ms=now, heartbeat_ms=heartbeat)
                renewed = await self._patience.attempt("queue", renew)
            except StoreError:
                if self._authority.doubts.is_set():
                    # Trying again does not mend a damaged file: the caller has it looked at, and moves on while trust lasts.
                    await self._clock.sleep(100)
                    return True
                await self._clock.sleep(self._tuning.look_ms)
                continue
            if renewed:
                self._trust(term, began)
            return renewed
        return False

    def _trust(self, term: int, began: Millis) -> None:
        if self._authority.term != term:
            return  # given back, or lost, while the store was answering: trust does not come back
        self._authority.grant(
            term,
            trust_until_ms=began + self._tuning.lock_ttl_ms - self._tuning.trust_margin_ms,
            lease_base_ms=self._authority.lease_ms(0),
        )

    async def whole(self) -> bool:
        """Whether the queue at its place is ours and readable; one that is merely busy is."""
        if not self._queue.present():
            return False
        try:
            return await self._queue.verify()
        except StoreError as error:
            self._patience.failed("queue", error)
            return not isinstance(error, StoreDamagedError)

    async def move(self) -> bool:
        """Another file stands at the queue's place, or ours is damaged: goes on in it under the same term.

        Only while the old trust lasts, and never over a higher term. The caller requeues and sweeps before claiming goes on.
        """
        term = self._authority.term
        self._authority.rebuilding = True
        while term is not None and self._authority.term == term and self._authority.trusted():
            began, old_trust = self._clock.boot_ms(), self._authority.trust_until_ms
            try:
                if (await self._patience.attempt("control", self._catalog.read_term)).term != term:
                    return False
                reason = await self._patience.attempt("queue", self._queue.open)
                row = LockRow(token=self.token, term=term, expires_ms=self._authority.lease_ms(began) + self._tuning.lock_ttl_ms)
                reassert = partial(
                    self._queue.reassert,
                    row,
                    boot_id=self._clock.boot_id(),
                    boot_base_ms=self._authority.lease_ms(0),
                    epoch=self._epoch,
                    guard=partial(self._before, old_trust),
                )
                moved = await self._patience.attempt("queue", reassert)
            except StoreError:
                await self._clock.sleep(100)
                continue
            if moved:
                self._trust(term, began)
                self._emit(QueueRebuilt(reason=reason or "replaced"))
            return moved
        return False

    def _before(self, boot_ms: Millis) -> bool:
        return self._clock.boot_ms() < boot_ms

    async def give_back(self) -> None:
        """A clean stop: no more trust, control says released, then the row goes. A store that fails leaves it to the next taker."""
        term = self._authority.term
        self._authority.revoke()
        if term is None:
            return
        try:
            record = await self._patience.attempt("control", self._catalog.read_term)
            if record.term == term:
                released = replace(record, released=True)
                await self._patience.attempt("control", lambda: self._catalog.swap_term(record, released))
            await self._patience.attempt("queue", lambda: self._queue.release_lock(token=self.token, term=term))
        except StoreError:
            return

    def lose(self, reason: str) -> None:
        """The lock is somebody else's, or trust has ended."""
        self.lost_because = reason
        self._authority.revoke()
