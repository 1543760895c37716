"""What is done beside the line: each chore does its work under the lock, and says when it wants to be called again."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from cronpad_core.builtin.memory import MemoryStorage
from cronpad_core.config.settings import Settings
from cronpad_core.control.apply import Declared, apply
from cronpad_core.control.backfills import plan_backfill, start_backfill
from cronpad_core.control.pausing import pause
from cronpad_core.control.trigger import trigger
from cronpad_core.domain.errors import StoreBusyError
from cronpad_core.domain.events import Event
from cronpad_core.domain.job import Job, JobSpec, JobStatus, ScheduleSpec, SinkSpec
from cronpad_core.domain.run import RunStatus
from cronpad_core.domain.timing import DAY, HOUR, MINUTE
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.retention import Keep
from cronpad_core.ports.history import EndRequest
from cronpad_core.ports.storage import StorageOptions
from cronpad_core.runtime.chores import Chores, keep_of
from cronpad_core.runtime.compose import Parts, compose
from cronpad_core.runtime.schedules import ScheduleBook
from cronpad_testkit.clock import VirtualClock, run_virtual

BEFORE, UPDATED = "Europe/Athens", "Europe/Istanbul"
AUTUMN = 1_477_742_400_000
"""2016-10-29T12:00Z, the day before the clocks of Athens went back, and those of Istanbul did not."""


class _Nobody:
    """No other process, and no sink."""

    def me(self) -> str:
        return "us"

    def dead(self, holder: str) -> bool:
        return False

    def available(self, sink_type: str) -> bool:
        return False

    def graceful(self, sink_type: str) -> bool:
        return False


class Home:
    """An engine that nobody drives, and its chores."""

    def __init__(self, clock: VirtualClock, keep: Keep) -> None:
        self.clock, self.events = clock, list[Event]()
        self.storage = MemoryStorage(StorageOptions(url="memory://", wall_ms=clock.wall_ms))
        self.schedules = ScheduleBook()
        nobody: Any = _Nobody()
        self.engine = compose(
            Parts(
                storage=self.storage,
                sinks=nobody,
                policies={},
                schedules=self.schedules,
                clock=clock,
                liveness=nobody,
                draw=lambda: "word",
                emit=self.events.append,
                tuning=Tuning(),
                owner="us",
            )
        )
        self.desk = self.engine.desk
        self.chores = Chores(self.engine, self.desk, self.schedules, keep)
        self.feed, self.resume, self.prune, self.update_zones, self.send = self.chores.all

    async def add(self, *texts: str, timezone: str = "UTC") -> Job:
        """The only job."""
        spec = JobSpec(name="a", schedule=ScheduleSpec(texts=texts, timezone=timezone), sink=SinkSpec(type="none"))
        await apply(
            [Declared(spec=spec, origin="t")],
            origins=["t"],
            prune=True,
            catalog=self.engine.catalog,
            history=self.storage.history,
            schedules=self.schedules,
            now=self.clock.wall_ms,
            term=self.engine.authority.term,
        )
        return await self.job()

    async def job(self) -> Job:
        """The job as stored."""
        [job] = await self.storage.catalog.jobs(limit=10)
        return job

    async def entries(self) -> list[str]:
        """What is queued, without the job."""
        return [one.member.split("|", 1)[1] for one in await self.storage.queue.scan(after="", limit=100)]


def at_home(
    story: Callable[[Home], Awaitable[None]], *, keep: Keep | None = None, wall_ms: int = AUTUMN, taken: bool = True
) -> None:
    """Plays a story in a process that holds the lock, unless it is not ``taken``."""

    async def main(clock: VirtualClock) -> None:
        home = Home(clock, keep or Keep())
        if taken:
            assert await home.engine.dispatcher.try_take()
        await story(home)

    run_virtual(main, wall_ms=wall_ms)


def test_without_the_lock_nothing_is_done() -> None:
    """Each asks again later, and no store was touched."""

    async def story(home: Home) -> None:
        assert [await one() for one in home.chores.all] == [1_000, 2_000, 10 * MINUTE, DAY, 1_000]
        assert home.events == [] and await home.entries() == []

    at_home(story, keep=Keep(runs=1), taken=False)


def test_backfills_are_fed_and_looked_for_each_second() -> None:
    """A slot is put at once, and while there is more to do the next look comes soon, never in less than 50 ms."""

    async def story(home: Home) -> None:
        job = await home.add("0 * * * *")
        assert await home.feed() == 1_000
        plan = plan_backfill(job, AUTUMN - 5 * HOUR, AUTUMN - HOUR, schedules=home.schedules, now_ms=AUTUMN)
        await start_backfill(home.desk, plan)
        pause_ms = await home.feed()
        assert 50 <= pause_ms <= 1_000
        assert [one[-1] for one in await home.entries()] == ["b"]

    at_home(story)


def test_pauses_that_are_over_end() -> None:
    """Looked at every two seconds: the job goes on with its next fire, which is queued."""

    async def story(home: Home) -> None:
        job = await home.add("0 * * * *")
        await pause(home.desk, job, until_ms=AUTUMN + 5_000)
        assert await home.resume() == 2_000
        assert (await home.job()).status is JobStatus.PAUSED
        await home.clock.sleep(5_000)
        assert await home.resume() == 2_000
        resumed = await home.job()
        assert (resumed.status, resumed.next_run_at_ms) == (JobStatus.ACTIVE, AUTUMN + HOUR)
        assert await home.entries() == [f"{AUTUMN + HOUR}|0|{resumed.version}|s"]

    at_home(story)


def test_history_is_pruned_batch_by_batch() -> None:
    """While a batch leaves something the next one comes in a quarter of a second; then it is looked at every ten minutes."""

    async def story(home: Home) -> None:
        job = await home.add("0 * * * *")
        for number in range(502):
            run = (await trigger(home.desk, job, token=str(number))).run
            request = EndRequest(
                key=run.key,
                was=run.status,
                attempt=0,
                fence=1,
                status=RunStatus.CANCELLED,
                reason="",
                now_ms=home.clock.wall_ms(),
            )
            assert await home.storage.history.end(request)
        assert [await home.prune(), await home.prune(), await home.prune()] == [250, 10 * MINUTE, 10 * MINUTE]
        assert len(await home.storage.history.runs(limit=1_000)) == 1

    at_home(story, keep=Keep(runs=1))


def test_new_zone_data_moves_jobs_at_the_next_look(city: Any) -> None:
    """Looked at once a day: without new data no job is; with it the moved fire is queued at once under its new version."""

    async def story(home: Home) -> None:
        city.becomes(BEFORE)
        home.schedules.forget()
        home.chores._zone_data.updated()
        job = await home.add("0 5 * * *", timezone=city.name)
        assert await home.update_zones() == DAY
        assert await home.job() == job
        city.becomes(UPDATED)
        assert await home.update_zones() == DAY
        moved = await home.job()
        assert job.next_run_at_ms is not None
        assert (moved.version, moved.next_run_at_ms) == (2, job.next_run_at_ms - HOUR)
        assert f"{moved.next_run_at_ms}|0|2|s" in await home.entries()
        assert await home.update_zones() == DAY
        assert await home.job() == moved

    at_home(story)


def test_a_look_at_new_zone_data_that_fails_is_made_again(city: Any) -> None:
    """A store that does not answer just then costs a moment, not a day with the old rules."""

    async def story(home: Home) -> None:
        city.becomes(BEFORE)
        home.schedules.forget()
        home.chores._zone_data.updated()
        job = await home.add("0 5 * * *", timezone=city.name)
        city.becomes(UPDATED)
        write = home.engine.catalog.write

        async def busy(*_: object, **__: object) -> None:
            raise StoreBusyError("locked")

        home.engine.catalog.write = busy  # type: ignore[method-assign]  # the store is busy for one look
        with contextlib.suppress(StoreBusyError):
            await home.update_zones()
        assert await home.job() == job
        home.engine.catalog.write = write  # type: ignore[method-assign]  # as above
        assert await home.update_zones() == DAY
        assert (await home.job()).version == 2

    at_home(story)


def test_what_is_kept() -> None:
    """By the settings, or by what is given instead; 0 is no limit."""
    kept = Keep(for_ms=DAY, runs=7, max_bytes=3_000_000)
    settings = Settings(history_keep_for_ms=DAY, history_keep_runs=7, history_keep_mb=3)
    assert keep_of(settings) == kept
    assert keep_of(settings, for_ms=0, runs=0, mb=0).everything
    assert keep_of(settings, runs=2) == Keep(for_ms=DAY, runs=2, max_bytes=3_000_000)
