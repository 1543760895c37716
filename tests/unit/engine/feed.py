"""A backfill feeder over a held state, with one job of ten seconds and the slots before T0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench import Bench, Holder, holding, run

from cronpad_core.domain.backfill import Backfill
from cronpad_core.domain.job import Job, JobSpec, JobStatus, JobVersion, ScheduleSpec, SinkSpec
from cronpad_core.domain.occurrence import RunKey, Trigger
from cronpad_core.domain.run import Run, RunStatus
from cronpad_core.engine.backfills import BackfillFeeder
from cronpad_core.ports.catalog import JobWrite
from cronpad_core.ports.history import EndRequest
from cronpad_core.runtime.schedules import ScheduleBook

__all__ = ["Feed", "S", "T0", "feeding"]

T0 = 1_767_225_600_000
S = 1_000
EACH_10S = "*/10 * * * * *"


class Feed:
    """A feeder over a held state, with one job and the times that its budget gives."""

    def __init__(self, bench: Bench, holder: Holder) -> None:
        self.bench, self.holder, self.clock = bench, holder, bench.clock
        self.storage = holder.storage
        self.catalog, self.history, self.queue = self.storage.catalog, self.storage.history, self.storage.queue
        self.schedules = ScheduleBook()
        self.delay_ms = 0
        self.woken: list[int] = []
        self.feeder = self.build()

    def build(self, **stores: Any) -> BackfillFeeder:
        """A feeder, as after a start; some stores may be others."""
        self.feeder = BackfillFeeder(
            **{"catalog": self.catalog, "history": self.history, "queue": self.queue, **stores},
            clock=self.clock,
            authority=self.holder.authority,
            patience=self.holder.patience,
            schedules=self.schedules,
            next_ms=lambda now_ms: now_ms + self.delay_ms,
            wake=self.woken.append,
        )
        return self.feeder

    @property
    def term(self) -> int:
        """The term that is held."""
        assert self.holder.authority.term is not None
        return self.holder.authority.term

    async def add_job(self, text: str = EACH_10S, **rest: Any) -> Job:
        """A job with one version."""
        spec = JobSpec(name="a", schedule=ScheduleSpec(texts=(text,)), sink=SinkSpec(type="command"), **rest)
        job = Job(
            id="job_a",
            origin="t",
            version=1,
            status=JobStatus.ACTIVE,
            spec=spec,
            next_run_at_ms=T0 + 10 * S,
            valid_from_ms=T0,
        )
        begins = JobVersion(job_id="job_a", version=1, spec=spec, valid_from_ms=T0)
        await self.catalog.write([JobWrite(job=job, expected=None, begins=begins)], term=self.term)
        return job

    async def change(self, **what: Any) -> Job:
        """Stores the job otherwise; with a ``version`` that one begins."""
        job = await self.job()
        new = replace(job, **what)
        begins = None
        if new.version != job.version:
            begins = JobVersion(job_id="job_a", version=new.version, spec=new.spec, valid_from_ms=T0)
        await self.catalog.write([JobWrite(job=new, expected=job, begins=begins)], term=self.term)
        return new

    async def job(self) -> Job:
        """The job as stored."""
        job = await self.catalog.job("job_a")
        assert job is not None
        return job

    async def add(self, first_s: int, last_s: int, *, id: str = "bf_1", **rest: Any) -> Backfill:
        """A backfill over these seconds before T0."""
        backfill = Backfill(
            id=id,
            job_id="job_a",
            job_version=1,
            from_ms=T0 - first_s * S,
            to_ms=T0 - last_s * S,
            cursor_ms=T0 - first_s * S,
            created_at_ms=self.clock.wall_ms(),
            **rest,
        )
        assert await self.history.add_backfill(backfill, term=self.term)
        return backfill

    async def stored(self, id: str = "bf_1") -> Backfill:
        """The backfill as stored."""
        return next(one for one in await self.history.backfills() if one.id == id)

    async def slot(self, second: int) -> Run | None:
        """The backfill run of the slot that many seconds before T0."""
        return await self.history.run(RunKey(job_id="job_a", scheduled_at_ms=T0 - second * S, trigger=Trigger.BACKFILL))

    async def end(self, second: int, status: RunStatus = RunStatus.CANCELLED) -> None:
        """Ends the run of a slot."""
        found = await self.slot(second)
        assert found is not None
        request = EndRequest(
            key=found.key,
            was=found.status,
            attempt=found.attempt,
            fence=found.fence,
            status=status,
            reason="",
            now_ms=self.clock.wall_ms(),
        )
        assert await self.history.end(request)

    async def slots(self) -> list[tuple[int, str]]:
        """Seconds before T0 and status of all backfill runs, oldest first."""
        found = [one for one in await self.history.runs(limit=1_000) if one.key.trigger is Trigger.BACKFILL]
        found.sort(key=lambda one: one.key)
        return [((T0 - one.key.scheduled_at_ms) // S, one.status.value) for one in found]

    async def entries(self) -> list[tuple[str, int]]:
        """What is queued, and in how many milliseconds it is due."""
        found = await self.queue.scan(after="", limit=1_000)
        return [(one.member.split("|", 1)[1], one.at_ms - self.clock.wall_ms()) for one in found]


def feeding(bench: Bench, story: Callable[[Feed], Any]) -> None:
    """Plays a story with a process that holds the lock."""

    async def play() -> None:
        await story(Feed(bench, await holding(bench)))

    run(play())
