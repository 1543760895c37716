"""The remembered catalogue never answers with a job as it was before a change that has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronpad_core.builtin.memory import CatalogData
from cronpad_core.builtin.memory_catalog import MemoryCatalog
from cronpad_core.domain.dispatch import TermRecord
from cronpad_core.domain.job import Job
from cronpad_core.engine.job_cache import JobCache
from cronpad_core.ports.catalog import JobWrite, Move, MoveKind
from cronpad_testkit import samples


class Held:
    """A catalogue that is asked, and answers, when the test says so: each call waits twice, before and after it is applied."""

    def __init__(self) -> None:
        data = CatalogData()
        data.term.record = TermRecord(term=1, holder="us")
        data.set_job(samples.job())
        self.inner = MemoryCatalog(data)
        self.data, self.reads = data, 0
        self.waiting: list[asyncio.Future[None]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)

        async def held(*args: Any, **rest: Any) -> Any:
            self.reads += name == "job"
            await self._pass()
            try:
                return await found(*args, **rest)
            finally:
                await self._pass()

        return held

    async def _pass(self) -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(gate)
        await gate

    async def step(self, number: int = 0) -> None:
        """Lets the ``number``-th waiting call go on by one step."""
        await asyncio.sleep(0)
        if self.waiting:
            gate = self.waiting.pop(number % len(self.waiting))
            if not gate.done():
                gate.set_result(None)
        for _ in range(3):
            await asyncio.sleep(0)

    async def all(self) -> None:
        """Lets everything end."""
        await asyncio.sleep(0)
        while self.waiting:
            await self.step()


def moving(job: Job, by_ms: int = 10) -> Sequence[Move]:
    """Moves a job on."""
    assert job.next_run_at_ms is not None
    return [
        Move(
            job_id=job.id,
            version=job.version,
            clock_epoch=job.clock_epoch,
            from_ms=job.next_run_at_ms,
            to_ms=job.next_run_at_ms + by_ms,
            replay=None,
            term=1,
        )
    ]


def test_a_job_is_read_once_and_moves_renew_it() -> None:
    """Reading, moving and reading again asks the store once for the job."""

    async def main() -> None:
        store = Held()
        cache = JobCache(store)  # type: ignore[arg-type]  # a stand-in
        first = asyncio.ensure_future(cache.job("job_a"))
        await store.all()
        job = await first
        assert job is not None and await cache.job("job_a") is job
        move = asyncio.ensure_future(cache.move(moving(job)))
        await store.all()
        [answer] = await move
        assert answer.kind is MoveKind.MOVED and await cache.job("job_a") == answer.job
        assert store.reads == 1

    asyncio.run(main())


def test_a_job_that_is_not_there_is_asked_for_each_time() -> None:
    """Only jobs that exist are remembered: one that is added later is found."""

    async def main() -> None:
        store = Held()
        cache = JobCache(store)  # type: ignore[arg-type]  # a stand-in
        missing = asyncio.ensure_future(cache.job("job_b"))
        await store.all()
        assert await missing is None
        store.data.set_job(samples.job("job_b"))
        there = asyncio.ensure_future(cache.job("job_b"))
        await store.all()
        assert await there is not None

    asyncio.run(main())


@pytest.mark.parametrize("change", ["move", "write", "forget"])
def test_an_answer_from_before_a_change_is_not_remembered(change: str) -> None:
    """A read that was answered before the change, and comes back after it, is given to its caller and forgotten."""

    async def main() -> None:
        store = Held()
        cache = JobCache(store)  # type: ignore[arg-type]  # a stand-in
        job = samples.job()
        slow = asyncio.ensure_future(cache.job("job_a"))
        await store.step()  # it is read, and its answer is on the way
        if change == "forget":
            cache.forget()
            store.data.set_job(replace(job, version=2))  # by another process
        elif change == "write":
            write = asyncio.ensure_future(cache.write([JobWrite(job=replace(job, version=2), expected=job)], term=1))
            await store.step(1)
            await store.step(1)
            await write
        else:
            move = asyncio.ensure_future(cache.move(moving(job)))
            await store.step(1)
            await store.step(1)
            await move
        await store.all()
        assert await slow == job
        again = asyncio.ensure_future(cache.job("job_a"))
        await store.all()
        assert await again == store.data.jobs["job_a"] != job

    asyncio.run(main())


@given(
    st.lists(
        st.tuples(st.sampled_from(["read", "page", "move", "write", "step", "step", "step", "forget"]), st.integers(0, 3)),
        max_size=40,
    )
)
def test_whatever_overlaps_no_old_answer_stays(plan: list[tuple[str, int]]) -> None:
    """However reads, pages, moves and writes of one job overlap: when all have ended, the cache answers what the store holds."""

    async def main() -> None:
        store = Held()
        cache = JobCache(store)  # type: ignore[arg-type]  # a stand-in
        calls: list[asyncio.Future[Any]] = []
        for what, number in plan:
            job = store.data.jobs["job_a"]
            if what == "read":
                calls.append(asyncio.ensure_future(cache.job("job_a")))
            elif what == "page":
                calls.append(asyncio.ensure_future(cache.jobs()))
            elif what == "move":
                calls.append(asyncio.ensure_future(cache.move(moving(job))))
            elif what == "write":
                write = JobWrite(job=replace(job, version=job.version + 1), expected=job)
                calls.append(asyncio.ensure_future(cache.write([write], term=1)))
            elif what == "forget":
                cache.forget()
            await store.step(number) if what == "step" else await asyncio.sleep(0)
        await store.all()
        await asyncio.gather(*calls, return_exceptions=True)
        last = asyncio.ensure_future(cache.job("job_a"))
        await store.all()
        assert await last == store.data.jobs["job_a"]

    asyncio.run(main())


def test_a_call_that_fails_or_is_broken_off_leaves_nothing_remembered() -> None:
    """A write of which nobody knows whether it was applied is read anew; so is one whose caller was cancelled."""

    async def main() -> None:
        store = Held()
        cache = JobCache(store)  # type: ignore[arg-type]  # a stand-in
        read = asyncio.ensure_future(cache.job("job_a"))
        await store.all()
        job = await read
        assert job is not None
        broken = asyncio.ensure_future(cache.write([JobWrite(job=replace(job, version=2), expected=job)], term=1))
        await store.step()
        broken.cancel()
        await asyncio.gather(broken, return_exceptions=True)
        again = asyncio.ensure_future(cache.job("job_a"))
        await store.all()
        assert (await again) == store.data.jobs["job_a"]
        assert cache._calls == {} and cache._doubtful == set()

    asyncio.run(main())


def test_a_page_of_jobs_is_remembered_as_far_as_there_is_room() -> None:
    """What a sweep reads is not read again one by one; it drives nothing out that was asked for."""

    async def main() -> None:
        data = CatalogData()
        for number in range(6):
            data.set_job(samples.job(f"job_{number}"))
        cache = JobCache(MemoryCatalog(data), size=4)
        await cache.job("job_5")
        await cache.jobs()
        assert list(cache._jobs) == ["job_5", "job_0", "job_1", "job_2"]

    asyncio.run(main())


@pytest.mark.parametrize("change", ["move", "forget"])
def test_a_page_from_before_a_change_is_not_remembered(change: str) -> None:
    """A page that was read before the change, and comes back after it, is given to its caller and forgotten."""

    async def main() -> None:
        store = Held()
        cache = JobCache(store)  # type: ignore[arg-type]  # a stand-in
        job = samples.job()
        slow = asyncio.ensure_future(cache.jobs())
        await store.step()  # it is read, and its answer is on the way
        if change == "forget":
            cache.forget()
        else:
            move = asyncio.ensure_future(cache.move(moving(job)))
            await store.step(1)
            await store.step(1)
            await move
        await store.all()
        assert await slow == [job]
        assert cache.known("job_a") != job

    asyncio.run(main())


def test_it_holds_no_more_than_its_size() -> None:
    """The oldest of many jobs are forgotten."""

    async def main() -> None:
        data = CatalogData()
        for number in range(20):
            data.set_job(samples.job(f"job_{number:02}"))
        cache = JobCache(MemoryCatalog(data), size=5)
        for number in range(20):
            await cache.job(f"job_{number:02}")
        assert list(cache._jobs) == [f"job_{number:02}" for number in range(15, 20)]

    asyncio.run(main())
