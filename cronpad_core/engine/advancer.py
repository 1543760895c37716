"""Moving a job on to its next fire, and queueing that fire."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from cronpad_core.domain.errors import StoreError, TermRefusedError
from cronpad_core.domain.job import Job, JobStatus, Replay
from cronpad_core.domain.occurrence import Occurrence
from cronpad_core.domain.timing import Millis
from cronpad_core.engine.budget import ReplayBudget
from cronpad_core.engine.patience import Patience
from cronpad_core.engine.wakeup import WakeUp
from cronpad_core.ports.catalog import CatalogStore, Move, MoveAnswer, MoveKind
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.queue import Entry, QueueStore
from cronpad_core.ports.schedule import Schedule, ScheduleReader

__all__ = ["Advancer", "next_step"]


def next_step(job: Job, scheduled_at_ms: Millis, schedule: Schedule) -> tuple[Millis | None, Replay | None]:
    """Where a job goes after a slot: the schedule after the *scheduled* time; past a decided catch-up, to the slot behind it."""
    following = schedule.next_after_ms(scheduled_at_ms)
    replay = job.replay
    if replay is not None and (following is None or following > replay.until_ms):
        following = None if following is None or replay.then_ms is None else max(following, replay.then_ms)
        replay = None
    return following, replay


class Advancer:
    """Steps 3 and 4 of the order of writes. Assumes that the slot's run row, or its outcome, is durable.

    Guarantees: when ``advance`` answers True the job stands past the slot or was found changed, and its next entry is queued or
    owed. Dies half-way: the job has moved and its entry is missing, which the reconciler and the next start repair.
    """

    def __init__(
        self,
        *,
        catalog: CatalogStore,
        queue: QueueStore,
        clock: Clock,
        patience: Patience,
        schedules: ScheduleReader,
        budget: ReplayBudget,
        wake: WakeUp,
    ) -> None:
        self._catalog = catalog
        self._queue = queue
        self._clock = clock
        self._patience = patience
        self._schedules = schedules
        self._owed: dict[str, tuple[Occurrence, Entry]] = {}
        self._budget = budget
        self._wake = wake

    async def advance(self, occurrence: Occurrence, job: Job | None, term: int) -> bool:
        """Moves the job past this slot; False where another dispatcher holds the term.

        ``job`` is a snapshot; it is read again where it turns out to be old.
        """
        while job is not None and job.status is JobStatus.ACTIVE and job.version == occurrence.job_version:
            if job.next_run_at_ms != occurrence.scheduled_at_ms:
                answer = await self._current(job.id)
                if answer is not None and answer.next_run_at_ms == occurrence.scheduled_at_ms:
                    job = answer
                    continue
                await self.put_next(answer, occurrence, term)
                return True
            try:
                moved = await self._move(occurrence, job, term)
            except TermRefusedError:
                return False
            if moved.kind is MoveKind.CHANGED:
                job = await self._current(occurrence.job_id)
                continue
            if moved.job is not None and moved.job.next_run_at_ms == occurrence.scheduled_at_ms:
                job = moved.job
                continue
            await self.put_next(moved.job, occurrence, term)
            return True
        return True

    async def advance_all(self, slots: Sequence[tuple[Occurrence, Job]], term: int) -> list[bool]:
        """As :meth:`advance`, with one transaction in control and one in the queue for all that go the usual way."""
        moves = [self._planned(occurrence, job, term) for occurrence, job in slots]
        try:
            answers = await self._patience.insist("control", lambda: self._catalog.move(moves))
        except TermRefusedError:
            return [False] * len(slots)
        entries: list[tuple[Occurrence, Entry]] = []
        results = [True] * len(slots)
        for index, ((occurrence, job), answer) in enumerate(zip(slots, answers, strict=True)):
            moved = answer.job
            if answer.kind is MoveKind.MOVED and moved is not None:
                following = self._next(moved, occurrence)
                entries += [following] if following is not None else []
            else:
                results[index] = await self.advance(occurrence, job, term)
        await self._put_all(entries, term)
        return results

    async def _current(self, job_id: str) -> Job | None:
        return await self._patience.insist("control", lambda: self._catalog.job(job_id))

    async def _move(self, occurrence: Occurrence, job: Job, term: int) -> MoveAnswer:
        move = self._planned(occurrence, job, term)
        [answer] = await self._patience.insist("control", lambda: self._catalog.move([move]))
        return answer

    def _planned(self, occurrence: Occurrence, job: Job, term: int) -> Move:
        schedule = self._schedules(job.id, job.version, job.spec.schedule)
        following, replay = next_step(job, occurrence.scheduled_at_ms, schedule)
        return Move(
            job_id=job.id,
            version=job.version,
            clock_epoch=job.clock_epoch,
            from_ms=occurrence.scheduled_at_ms,
            to_ms=following,
            replay=replay,
            term=term,
        )

    async def put_next(self, job: Job | None, after: Occurrence, term: int) -> None:
        """Queues the job's next fire as it stands; what cannot be queued now is owed. Never beside ``after``'s own entry."""
        following = None if job is None else self._next(job, after)
        if following is not None:
            await self._put_all([following], term)

    async def put_fire(self, job: Job, term: int) -> None:
        """Queues the job's next fire whatever came before it; where that fails, or it is in flight, it is owed."""
        at_ms = job.next_run_at_ms
        if job.status is JobStatus.ACTIVE and at_ms is not None:
            occurrence = job.slot(at_ms)
            await self._put_all([(occurrence, Entry(member=occurrence.member, at_ms=self.start_at(job, at_ms)))], term)

    def _next(self, job: Job, after: Occurrence) -> tuple[Occurrence, Entry] | None:
        at_ms = job.next_run_at_ms
        if job.status is not JobStatus.ACTIVE or at_ms is None:
            return None
        if job.version != after.job_version or at_ms == after.scheduled_at_ms:
            return None
        occurrence = job.slot(at_ms)
        return occurrence, Entry(member=occurrence.member, at_ms=self.start_at(job, at_ms))

    def start_at(self, job: Job, slot_ms: Millis) -> Millis:
        """When the slot's entry is due: slot, offset and jitter; a slot of a decided catch-up as the budget has it."""
        if job.replay is not None and slot_ms <= job.replay.until_ms:
            return max(slot_ms, self._budget.next_ms(self._clock.wall_ms()))
        spec = job.spec
        if not spec.jitter_ms and not spec.offset_ms:
            return slot_ms
        schedule = self._schedules(job.id, job.version, spec.schedule)
        return spec.start_at_ms(job.slot(slot_ms), schedule.next_after_ms(slot_ms))

    async def _put_all(self, entries: Sequence[tuple[Occurrence, Entry]], term: int) -> None:
        """Puts entries; what fails, or is in flight, is owed."""
        if not entries:
            return
        wanted = [entry for _, entry in entries]
        try:
            in_flight = await self._patience.attempt("queue", lambda: self._queue.put(wanted, term=term))
        except (StoreError, TermRefusedError):
            in_flight = frozenset(entry.member for entry in wanted)
        for occurrence, entry in entries:
            if entry.member in in_flight:
                self._owed[entry.member] = occurrence, entry
            else:
                self._wake.offer(entry.at_ms)

    async def hurry(self, members: Sequence[str], term: int) -> None:
        """Makes entries that wait for room due now; one that is in flight, or cannot be moved, comes up by itself."""
        now = self._clock.wall_ms()
        entries = [Entry(member=member, at_ms=now) for member in members]
        try:
            await self._patience.attempt("queue", lambda: self._queue.put(entries, term=term))
        except (StoreError, TermRefusedError):
            return
        self._wake.offer(now)

    @property
    def owed(self) -> int:
        """How many puts are still to be repeated."""
        return len(self._owed)

    async def repay(self, term: int) -> None:
        """Repeats owed puts until they are taken or their job has moved on. Raises ``TermRefusedError``."""
        for member, (occurrence, entry) in list(self._owed.items()):
            job = await self._patience.attempt("control", partial(self._catalog.job, occurrence.job_id))
            waiting = (
                job is not None
                and job.status is JobStatus.ACTIVE
                and job.version == occurrence.job_version
                and job.next_run_at_ms == occurrence.scheduled_at_ms
            )
            if waiting:
                in_flight = await self._patience.attempt("queue", partial(self._queue.put, [entry], term=term))
                if member in in_flight:
                    continue
                self._wake.offer(entry.at_ms)
            self._owed.pop(member, None)

    def forget(self) -> None:
        """Drops what is owed: under another term somebody else repairs."""
        self._owed.clear()
