"""The value that walks the line, and the book of what this process holds.

::

     reconciler ─put─▶ ┌─────┐                                              ┌────────┐
     advancer ──put──▶ │ due │─claim─▶ gate ─admit─▶ open run ─▶ advance ─▶ │ worker │─Delivery─▶ sink
     settle ─ack+retry▶└─────┘          ├─drop──▶ ack                       └───┬────┘◀─Outcome──
     reaper ──put──▶      ▲             ├─miss──▶ ledger, move, put, ack        ▼
                          │             └─hold──▶ release              recorder ─▶ history (result + retry plan)
                          └─────────────────────────────────────────── settle ─ack (+retry)─▶ queue

A step takes a ticket and returns one; no step calls another. The only ways backwards are a row in ``due`` and a wake-up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cronpad_core.domain.job import Job
from cronpad_core.domain.occurrence import Occurrence, RunKey, Trigger
from cronpad_core.domain.outcome import Outcome
from cronpad_core.domain.run import Run
from cronpad_core.domain.settlement import Settlement
from cronpad_core.domain.timing import Millis
from cronpad_core.domain.values import value
from cronpad_core.ports.queue import Lease
from cronpad_core.ports.sink import CancelSignal

__all__ = ["Holding", "Holdings", "Result", "Ticket"]


@value
class Ticket:
    """One claimed entry on its way. ``job`` is set by the gate, as it stood at ``judged_at_ms``; ``run`` by the opening, or by the
    gate where it has a row already.

    ``holding`` is the one part that changes under way: a worker may take over a newer lease of its own entry.
    """

    occurrence: Occurrence
    holding: Holding
    due_at_ms: Millis
    claimed_at_ms: Millis
    held_since_ms: Millis | None = None
    job: Job | None = None
    judged_at_ms: Millis = 0
    run: Run | None = None
    opened_at_ms: Millis = 0
    redelivery: bool = False

    def judged(self, job: Job | None, at_ms: Millis) -> Ticket:
        """The ticket with its job as it stood then. As ``replace``, which takes five times as long."""
        return Ticket(
            occurrence=self.occurrence,
            holding=self.holding,
            due_at_ms=self.due_at_ms,
            claimed_at_ms=self.claimed_at_ms,
            held_since_ms=self.held_since_ms,
            job=job,
            judged_at_ms=at_ms,
            run=self.run,
            opened_at_ms=self.opened_at_ms,
            redelivery=self.redelivery,
        )

    def opened(self, run: Run | None, at_ms: Millis, *, redelivery: bool) -> Ticket:
        """The ticket with what its opening made of it. As ``replace``."""
        return Ticket(
            occurrence=self.occurrence,
            holding=self.holding,
            due_at_ms=self.due_at_ms,
            claimed_at_ms=self.claimed_at_ms,
            held_since_ms=self.held_since_ms,
            job=self.job,
            judged_at_ms=self.judged_at_ms,
            run=run,
            opened_at_ms=at_ms,
            redelivery=redelivery,
        )

    @property
    def replayed(self) -> bool:
        """Whether this is a slot of a decided catch-up."""
        replay = self.job.replay if self.job is not None and self.occurrence.is_slot else None
        return replay is not None and self.occurrence.scheduled_at_ms <= replay.until_ms

    @property
    def of_the_past(self) -> bool:
        """Whether it is replayed, or part of a backfill, so that the replay budget counts it."""
        return self.occurrence.trigger is Trigger.BACKFILL or self.replayed


@dataclass(slots=True, kw_only=True, eq=False)
class Holding:
    """An entry that this process holds: the fence and term it goes by now.

    ``offered`` is the newest fence under which the same entry was claimed again; until it is taken over (``fence`` reaches it) a
    result may be refused. ``lost`` says that the lease is gone; ``sending`` that its delivery runs. ``wanted``: somebody asked this
    run to be cancelled, by that stage and for that reason.
    """

    occurrence: Occurrence
    fence: int
    term: int
    offered: int = 0
    lost: bool = False
    sending: bool = False
    run_id: str | None = None
    job_name: str = ""
    kill_grace_ms: Millis = 0
    at_once: bool = False
    cancel: CancelSignal | None = None
    wanted: tuple[str, str] | None = None

    @property
    def lease(self) -> Lease:
        """The lease as the queue knows it."""
        return Lease(member=self.occurrence.member, fence=self.fence)

    def tell(self, stage: str, reason: str) -> None:
        """Asks this run to be cancelled: its delivery now, or before it begins."""
        if self.wanted is None or self.wanted[0] != "kill":
            self.wanted = stage, reason
        if self.cancel is not None:
            self.cancel.ask(stage, reason)


class Holdings:
    """What this process holds, by member: at most one line per entry."""

    def __init__(self) -> None:
        self._by_member: dict[str, Holding] = {}
        self._strays: set[Holding] = set()

    def __len__(self) -> int:
        return len(self._by_member)

    def __iter__(self) -> Iterator[Holding]:
        return iter(list(self._by_member.values()))

    def get(self, member: str) -> Holding | None:
        """The holding of that entry, if it is ours."""
        return self._by_member.get(member)

    def add(self, holding: Holding) -> None:
        """Notes an entry whose line begins."""
        self._by_member[holding.occurrence.member] = holding

    def remove(self, holding: Holding) -> None:
        """Forgets an entry whose line ended, unless another line has taken its place."""
        member = holding.occurrence.member
        self._strays.discard(holding)
        if self._by_member.get(member) is holding:
            del self._by_member[member]

    def lose(self, holding: Holding) -> None:
        """The lease of an entry that is held is gone."""
        holding.lost = True
        self._strays.add(holding)

    def outlive(self) -> None:
        """The term under which all of this is held has ended: another holder may have had any of it since."""
        self._strays.update(self._by_member.values())

    def regain(self, holding: Holding, fence: int, term: int) -> None:
        """An entry that is held goes on under a newer lease."""
        holding.fence, holding.term, holding.lost = fence, term, False
        self._strays.discard(holding)

    def members(self) -> frozenset[str]:
        """All entries held."""
        return frozenset(self._by_member)

    def tell(self, key: RunKey, stage: str, reason: str) -> bool:
        """Asks the run of that key to be cancelled, if this process holds it; answers whether it does."""
        held = [holding for holding in self._by_member.values() if holding.occurrence.key == key]
        for holding in held:
            holding.tell(stage, reason)
        return bool(held)

    def tell_others(self, occurrence: Occurrence, stage: str, reason: str) -> None:
        """Asks all other runs of the same job that are being delivered here to be cancelled."""
        for holding in list(self._by_member.values()):
            other = holding.occurrence
            if other.job_id == occurrence.job_id and other.key != occurrence.key and holding.run_id is not None:
                holding.tell(stage, reason)

    def holds_run(self, occurrence: Occurrence) -> bool:
        """Whether any attempt of this run is held."""
        return any(holding.occurrence.key == occurrence.key for holding in self._by_member.values())

    def strays(self, occurrence: Occurrence) -> list[Holding]:
        """Deliveries of other runs of the same job that run here, perhaps for nobody: their lease is lost, or of an old term."""
        if not self._strays:
            return []
        return [
            holding
            for holding in self._strays
            if holding.sending
            and holding.occurrence.job_id == occurrence.job_id
            and holding.occurrence.key != occurrence.key
            and self._by_member.get(holding.occurrence.member) is holding
        ]


@value
class Result:
    """A delivery that has ended: what the sink said, when it was called and when it answered (wall), and what follows."""

    outcome: Outcome
    settlement: Settlement
    sent_at_ms: Millis
    finished_at_ms: Millis
