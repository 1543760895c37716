"""Retention, one batch a step, by the holder of the lock alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench import Bench, Failing, Holder, holding, run

from cronpad_core.domain.admission import OpenRequest
from cronpad_core.domain.errors import StoreBusyError, TermRefusedError
from cronpad_core.domain.events import HistoryPruned, StoreFailed
from cronpad_core.domain.job import Job, JobSpec, JobStatus, ScheduleSpec, SinkSpec
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.run import AttemptStatus, RunStatus
from cronpad_core.domain.timing import DAY
from cronpad_core.engine.retention import Keep, Pruner
from cronpad_core.ports.history import RecordRequest

SPEC = JobSpec(
    name="n",
    schedule=ScheduleSpec(texts=("@daily",)),
    sink=SinkSpec(type="x"),
    overlap=OverlapRule(policy=OverlapPolicy.ALLOW, max=100),
)


def pruner(holder: Holder, keep: Keep, batch: int = 500) -> Pruner:
    """A pruner of this process."""
    return Pruner(
        history=holder.storage.history,
        clock=holder.bench.clock,
        authority=holder.authority,
        patience=holder.patience,
        keep=keep,
        emit=holder.bench.events.append,
        batch=batch,
    )


async def filled(bench: Bench, *, ended: int, running: int = 0) -> Holder:
    """A process that holds the lock over runs of one job, one a day until today."""
    holder = await holding(bench)
    first = bench.clock.wall_ms() - (ended + running - 1) * DAY
    job = Job(id="j", origin="o", version=1, status=JobStatus.ACTIVE, spec=SPEC, next_run_at_ms=first, valid_from_ms=0)
    for number in range(ended + running):
        at_ms = first + number * DAY
        term = holder.authority.term
        assert term is not None
        request = OpenRequest(
            occurrence=job.slot(at_ms),
            spec=SPEC,
            fence=(term << 32) + number,
            now_ms=at_ms,
            due_at_ms=at_ms,
            claimed_at_ms=at_ms,
        )
        [decision] = await holder.storage.history.open_runs([request])
        assert decision.run is not None
        if number < ended:
            [attempt] = await holder.storage.history.attempts(decision.run.id)
            done = replace(attempt, status=AttemptStatus.DELIVERED, finished_at_ms=at_ms)
            await holder.storage.history.record(
                [RecordRequest(key=decision.run.key, attempt=done, status=RunStatus.SUCCEEDED, retry=None)]
            )
    bench.events.clear()
    return holder


async def left(holder: Holder) -> int:
    """How many runs there are."""
    return len(await holder.storage.history.runs(limit=1_000))


def test_old_runs_go_batch_by_batch_and_are_told(bench: Bench) -> None:
    """Each step removes at most a batch, says so, and answers whether there is more."""

    async def main() -> None:
        holder = await filled(bench, ended=10)
        step = pruner(holder, Keep(for_ms=3 * DAY), batch=4).step
        assert [await step(), await step(), await step()] == [True, False, False]
        assert await left(holder) == 4, "of today and of the three days before"
        assert bench.events == [HistoryPruned(runs=4, ranges=0), HistoryPruned(runs=2, ranges=0)]
        assert await holder.storage.history.ledger_from("j") == bench.clock.wall_ms() - 4 * DAY + 1

    run(main())


def test_the_newest_of_each_job_are_kept_and_what_runs_always(bench: Bench) -> None:
    """By number: the newest ended ones stay; runs that have not ended are never counted among what goes."""

    async def main() -> None:
        holder = await filled(bench, ended=5, running=3)
        assert await pruner(holder, Keep(runs=2)).step() is False
        assert await left(holder) == 5
        assert await pruner(holder, Keep(for_ms=0)).step() is False
        statuses = {one.status for one in await holder.storage.history.runs()}
        assert statuses == {RunStatus.RUNNING}

    run(main())


def test_the_size_of_the_store_is_kept(bench: Bench) -> None:
    """Beyond so many bytes the oldest go."""

    async def main() -> None:
        holder = await filled(bench, ended=5)
        await pruner(holder, Keep(max_bytes=1)).step()
        assert await left(holder) == 0

    run(main())


def test_nothing_goes_without_trust_or_where_everything_is_kept(bench: Bench) -> None:
    """A process that does not hold the lock touches nothing; nor does one that is told to keep all."""

    async def main() -> None:
        holder = await filled(bench, ended=5)
        assert await pruner(holder, Keep()).step() is False
        bench.clock.move(bench.tuning.lock_ttl_ms)
        assert await pruner(holder, Keep(for_ms=0)).step() is False
        holder.authority.revoke()
        assert await pruner(holder, Keep(for_ms=0)).step() is False
        assert (await left(holder), bench.events) == (5, [])

    run(main())


def test_a_process_that_was_followed_removes_nothing(bench: Bench) -> None:
    """The term is compared in the transaction that removes."""

    async def main() -> None:
        holder = await filled(bench, ended=5)
        record = await holder.storage.history.read_term()
        assert await holder.storage.history.swap_term(record, replace(record, term=record.term + 1))
        with pytest.raises(TermRefusedError):
            await pruner(holder, Keep(for_ms=0)).step()
        assert await left(holder) == 5

    run(main())


def test_trouble_is_the_callers_and_is_told(bench: Bench) -> None:
    """A store that is busy: the step raises, and the book of failing stores has it."""

    async def main() -> None:
        holder = await filled(bench, ended=1)
        holder.storage.history = Failing(holder.storage.history, StoreBusyError("busy"), "prune")
        with pytest.raises(StoreBusyError):
            await pruner(holder, Keep(for_ms=0)).step()
        assert bench.events == [StoreFailed(store="history", error="busy")]

    run(main())
