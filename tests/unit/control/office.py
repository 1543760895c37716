"""A state in memory with a desk over it, a clock that is set by hand, and a small line that walks what is due."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from cronpad_core.builtin.memory import MemoryStorage
from cronpad_core.control.apply import Declared, apply
from cronpad_core.control.audit import audit
from cronpad_core.control.audit_version import Finding
from cronpad_core.control.desk import Desk
from cronpad_core.control.operations import perform
from cronpad_core.domain.admission import OpenKind, OpenRequest
from cronpad_core.domain.dispatch import LockRow, TermRecord
from cronpad_core.domain.ids import job_id_for
from cronpad_core.domain.job import Job, JobSpec, ScheduleSpec, SinkSpec
from cronpad_core.domain.ledger import RangeKind, SlotRange
from cronpad_core.domain.occurrence import Occurrence, RunKey, Trigger
from cronpad_core.domain.retry import RetryPlan
from cronpad_core.domain.run import Attempt, AttemptStatus, Run, RunStatus
from cronpad_core.engine.advancer import next_step
from cronpad_core.engine.gate import ending, is_stale
from cronpad_core.ports.catalog import Move
from cronpad_core.ports.history import EndRequest, RangeRequest, RecordRequest
from cronpad_core.ports.queue import Claimed, Entry, Lease
from cronpad_core.ports.storage import StorageOptions
from cronpad_core.runtime.schedules import ScheduleBook

__all__ = ["FILE", "T0", "Failing", "Office", "declared"]

T = TypeVar("T")

T0 = 1_767_225_600_000
FILE = "/etc/jobs.toml"
TERM = 7


def declared(name: str = "a", text: str = "every 10s", *, timezone: str = "UTC", **rest: Any) -> Declared:
    """A job of the file."""
    schedule = ScheduleSpec(texts=(text,), timezone=timezone)
    return Declared(spec=JobSpec(name=name, schedule=schedule, sink=SinkSpec(type="command"), **rest), origin=FILE)


class Failing:
    """A store of which some methods raise."""

    def __init__(self, inner: Any, error: Exception, *methods: str) -> None:
        self._inner, self._error, self._methods = inner, error, methods

    def __getattr__(self, name: str) -> Any:
        if name in self._methods:

            async def fail(*args: object, **rest: object) -> None:
                raise self._error

            return fail
        return getattr(self._inner, name)


class Office:
    """What a process has that dispatches under term 7, a millisecond being one only where a test says so."""

    def __init__(self) -> None:
        self.now = T0
        self.storage = MemoryStorage(StorageOptions(url="memory://", wall_ms=self.wall_ms))
        self.catalog, self.history, self.queue = self.storage.catalog, self.storage.history, self.storage.queue
        self.schedules = ScheduleBook()
        self.term: int | None = TERM
        self.woken: list[int] = []
        self.told: list[tuple[RunKey, str, str]] = []
        self.delivering: set[RunKey] = set()
        self.keeps_running = False
        self._fence = TERM << 32
        self.desk = Desk(
            catalog=self.catalog,
            history=self.history,
            queue=self.queue,
            schedules=self.schedules,
            clock=self,
            term=lambda: self.term,
            wake=self.woken.append,
            tell=self._tell,
        )
        self.run(self._take())

    async def _take(self) -> None:
        for store in (self.catalog, self.history):
            assert await store.swap_term(TermRecord(), TermRecord(term=TERM, holder="us"))
        await self.queue.open()
        row = LockRow(token="us", term=TERM, expires_ms=2**60)
        seen = await self.queue.look()
        assert await self.queue.acquire(row, seen=seen, boot_id="b", boot_base_ms=0, epoch="e", guard=lambda: True)

    def _tell(self, key: RunKey, stage: str, reason: str) -> bool:
        self.told.append((key, stage, reason))
        return key in self.delivering

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for it."""
        return asyncio.run(work)

    # the clock

    def wall_ms(self) -> int:
        """Unix time."""
        return self.now

    def boot_ms(self) -> int:
        """Since the beginning."""
        return self.now - T0

    def boot_id(self) -> str:
        """This start."""
        return "boot"

    async def sleep(self, duration_ms: int) -> None:
        """Moves time on."""
        self.now += duration_ms

    async def until(self, wall_ms: int) -> None:
        """Moves time on."""
        self.now = max(self.now, wall_ms)

    # jobs

    def apply(self, *jobs: Declared, prune: bool = True) -> None:
        """Applies these as the whole file, and queues the next fires as a start does."""
        self.run(self._apply(jobs, prune))

    async def _apply(self, jobs: tuple[Declared, ...], prune: bool) -> None:
        applied = await apply(
            jobs,
            origins=[FILE],
            prune=prune,
            catalog=self.catalog,
            history=self.history,
            schedules=self.schedules,
            now=lambda: self.now,
            term=TERM,
        )
        for change in applied.changes:
            await self._put_next(change.job)

    async def _put_next(self, job: Job | None) -> None:
        if job is not None and job.next_run_at_ms is not None:
            at_ms = job.next_run_at_ms
            await self.queue.put([Entry(member=job.slot(at_ms).member, at_ms=at_ms)], term=TERM)

    def job(self, name: str = "a") -> Job:
        """The job as stored."""
        found = self.run(self.catalog.job(job_id_for(FILE, name)))
        assert found is not None
        return found

    def runs(self, name: str = "a") -> list[Run]:
        """Its runs, newest first."""
        return self.run(self.history.runs(job_id=job_id_for(FILE, name), limit=10_000))

    def members(self) -> list[tuple[str, int]]:
        """What is in the queue: the end of each member (from the scheduled time on) and when it is due, in seconds from T0."""
        entries = self.run(self.queue.scan(after="", limit=1_000))
        return sorted((one.member.split("|", 1)[1], one.at_ms) for one in entries)

    def perform(self, operation: str, /, **arguments: Any) -> dict[str, Any]:
        """An operation by name."""
        return self.run(perform(self.desk, operation, arguments))

    # a line

    def work(self, until_ms: int) -> None:
        """Walks every entry that is due by then, each at its time, and sets the clock there."""
        self.run(self._work(until_ms))

    async def _work(self, until_ms: int) -> None:
        while True:
            first = await self.queue.earliest()
            if first is None or first > until_ms:
                self.now = max(self.now, until_ms)
                return
            self.now = max(self.now, first)
            claimed = await self.queue.claim(
                term=TERM, owner="us", now_ms=self.now, limit=1, lease_until_ms=2**60, fence_from=self._fence
            )
            self._fence += 1
            for one in claimed:
                await self._walk(one)

    async def _walk(self, claimed: Claimed) -> None:
        occurrence = Occurrence.parse(claimed.member)
        job, run = await self.catalog.job(occurrence.job_id), await self.history.run(occurrence.key)
        lease = Lease(member=claimed.member, fence=claimed.fence)
        end = None if run is None or run.status.terminal else ending(occurrence, run, job, self.now)
        if run is not None and end is not None:
            request = EndRequest(
                key=run.key,
                was=run.status,
                attempt=run.attempt,
                fence=claimed.fence,
                status=end[0],
                reason=end[1],
                now_ms=self.now,
            )
            await self.history.end(request)
        elif run is None and (job is None or not occurrence.is_slot or is_stale(occurrence, job)):
            pass
        elif run is None or not run.status.terminal:
            assert job is not None
            if await self._open(occurrence, job, claimed):
                return
        if job is not None and occurrence.is_slot:
            await self._advance(occurrence, job)
        await self.queue.ack(lease)

    async def _open(self, occurrence: Occurrence, job: Job, claimed: Claimed) -> bool:
        """Opens the run; answers whether it goes on running."""
        request = OpenRequest(
            occurrence=occurrence,
            spec=job.spec,
            fence=claimed.fence,
            now_ms=self.now,
            due_at_ms=claimed.due_at_ms,
            claimed_at_ms=self.now,
        )
        [decision] = await self.history.open_runs([request])
        if decision.kind is not OpenKind.OPENED:
            return False
        if self.keeps_running:
            if occurrence.is_slot:
                await self._advance(occurrence, job)
            return True
        assert decision.run is not None
        await self._record(decision.run, RunStatus.SUCCEEDED, AttemptStatus.DELIVERED)
        return False

    async def _record(self, run: Run, status: RunStatus, attempt: AttemptStatus, retry: RetryPlan | None = None) -> None:
        row = Attempt(
            run_id=run.id,
            attempt=run.attempt,
            fence=run.fence,
            status=attempt,
            due_at_ms=self.now,
            claimed_at_ms=self.now,
            opened_at_ms=self.now,
            finished_at_ms=self.now,
        )
        await self.history.record([RecordRequest(key=run.key, attempt=row, status=status, retry=retry)])

    def end(
        self,
        run: Run,
        status: RunStatus = RunStatus.SUCCEEDED,
        attempt: AttemptStatus = AttemptStatus.DELIVERED,
        retry: RetryPlan | None = None,
    ) -> None:
        """Ends the attempt that runs."""
        self.run(self._record(run, status, attempt, retry))

    async def _advance(self, occurrence: Occurrence, job: Job) -> None:
        if job.next_run_at_ms != occurrence.scheduled_at_ms or job.version != occurrence.job_version:
            return
        schedule = self.schedules(job.id, job.version, job.spec.schedule)
        to_ms, replay = next_step(job, occurrence.scheduled_at_ms, schedule)
        move = Move(
            job_id=job.id,
            version=job.version,
            clock_epoch=job.clock_epoch,
            from_ms=occurrence.scheduled_at_ms,
            to_ms=to_ms,
            replay=replay,
            term=TERM,
        )
        [answer] = await self.catalog.move([move])
        await self._put_next(answer.job)

    # the ledger

    def drop(self) -> None:
        """Writes what ended versions left open, as the reconciler does."""
        self.run(self._drop())

    async def _drop(self) -> None:
        versions = await self.catalog.ended_versions(limit=1_000)
        for one in versions:
            assert one.open_from_ms is not None and one.valid_until_ms is not None
            schedule = self.schedules(one.job_id, one.version, one.spec.schedule)
            row = SlotRange(
                job_id=one.job_id,
                version=one.version,
                kind=RangeKind.DROPPED,
                first_ms=one.open_from_ms,
                last_ms=one.valid_until_ms,
                count=0,
            )
            request = RangeRequest(range=row, slots=lambda a, b, of=schedule: of.count_between_ms(a - 1, b))
            await self.history.add_ranges([request], term=TERM)
        await self.catalog.mark_ledgered(versions)

    def findings(self) -> list[Finding]:
        """What the audit finds, once ended versions are in the ledger."""
        self.drop()

        async def auditing() -> list[Finding]:
            found = audit(self.storage, schedules=ScheduleBook(), now_ms=self.now, handling_ms=0)
            return [finding async for one in found for finding in one.findings]

        return self.run(auditing())

    def slots(self, name: str = "a") -> list[float]:
        """The slots that ran, in seconds from T0."""
        runs = [run for run in self.runs(name) if run.key.trigger is Trigger.SCHEDULED]
        return sorted((run.key.scheduled_at_ms - T0) / 1000 for run in runs)

    def with_store(self, **stores: Any) -> Desk:
        """The desk with other stores."""
        return replace(self.desk, **stores)
