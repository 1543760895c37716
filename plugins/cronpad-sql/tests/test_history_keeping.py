"""What pruning leaves in the file, and what a call that fails half-way leaves of itself."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cronpad_core.api import (
    HistoryStore,
    JobSpec,
    Limit,
    OpenKind,
    OverlapPolicy,
    OverlapRule,
    Pruned,
    PruneRequest,
    Quota,
    RunStatus,
    StreamCapture,
    Trigger,
)
from cronpad_sql.storage import SqliteStorage
from cronpad_testkit.samples import T0, key, opening, pending, ranging, result, slot, spec

Build = Callable[..., SqliteStorage]
_OUTPUT = (StreamCapture(name="stdout", total=20_000, head=b"x" * 20_000),)


def _on(storage: SqliteStorage, body: Callable[[HistoryStore], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await storage.open()
        await storage.prepare()
        try:
            await body(storage.history)
        finally:
            await storage.close()

    asyncio.run(run())


def _count(state: Path, *tables: str) -> list[int]:
    with closing(sqlite3.connect(state / "history.db")) as db:
        return [db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]


async def _end(history: HistoryStore, first: int, last: int, job_spec: JobSpec, *, number: int = 1) -> None:
    """Runs the slots [first, last) of ``job_a`` to their ends, each with output."""
    requests = [opening(slot(T0 + at, number=number), at + 1, job_spec=job_spec) for at in range(first, last)]
    await history.open_runs(requests)
    results = [result(request) for request in requests]
    await history.record([replace(one, attempt=replace(one.attempt, output=_OUTPUT)) for one in results])


def test_what_belongs_to_pruned_runs_goes_with_them(state: Path, build: Build) -> None:
    """Attempts and outputs go; settings go with the last run that had them, and are stored again when one comes back."""
    first, second = spec("first", overlap=99), spec("second", overlap=99)

    async def body(history: HistoryStore) -> None:
        await _end(history, 0, 5, first)
        await _end(history, 5, 9, second, number=2)
        assert await history.prune(PruneRequest(keep=5), term=0) == Pruned(runs=4, ranges=0, more=False)
        assert _count(state, "runs", "attempts", "outputs", "specs") == [5, 5, 5, 2]
        assert await history.prune(PruneRequest(keep=4), term=0) == Pruned(runs=1, ranges=0, more=False)
        assert _count(state, "runs", "attempts", "outputs", "specs") == [4, 4, 4, 1]
        await _end(history, 20, 21, first)
        run = await history.run(key(T0 + 20))
        assert run is not None
        assert run.spec == first
        assert _count(state, "specs") == [2]

    _on(build(state), body)


def test_a_file_that_is_too_large_gives_its_pages_back(state: Path, build: Build) -> None:
    """Runs go, the oldest first and no more than needed, until what the file holds is within its bound."""

    async def body(history: HistoryStore) -> None:
        await _end(history, 0, 200, spec(overlap=999))
        before, after = 200, 0
        pruned = Pruned(runs=0, ranges=0, more=True)
        while pruned.more:
            pruned = await history.prune(PruneRequest(max_bytes=2 << 20, limit=30), term=0)
            assert pruned.runs <= 30
            (after,) = _count(state, "runs")
            assert after == before - pruned.runs
            before = after
        assert 50 < after < 110
        left = await history.runs(limit=999)
        assert {run.key.scheduled_at_ms for run in left} == {T0 + at for at in range(200 - after, 200)}
        assert await history.ledger_from("job_a") == T0 + 200 - after
        assert await history.prune(PruneRequest(max_bytes=2 << 20), term=0) == Pruned(runs=0, ranges=0, more=False)

    _on(build(state), body)


def test_age_goes_before_number_before_size(state: Path, build: Build) -> None:
    """What has no room in one call is the newest of what goes, and runs that only look like too many stay."""

    async def body(history: HistoryStore) -> None:
        wide = spec(overlap=99)
        await _end(history, 0, 6, wide)
        await history.open_runs([opening(slot(T0 + at), at, job_spec=wide) for at in range(50, 60)])
        request = PruneRequest(before_ms=T0 + 1_002, keep=3, limit=2)
        assert await history.prune(request, term=0) == Pruned(runs=2, ranges=0, more=True)
        assert await history.prune(request, term=0) == Pruned(runs=1, ranges=0, more=False)
        assert len(await history.runs(statuses=[RunStatus.SUCCEEDED], limit=99)) == 3
        assert len(await history.unfinished(after="", limit=99)) == 10
        await history.add_ranges([ranging(T0 + 100 * at, T0 + 100 * at + 50) for at in range(1, 5)], term=0)
        request = PruneRequest(keep=1, limit=2)
        assert await history.prune(request, term=0) == Pruned(runs=2, ranges=2, more=True)
        assert await history.prune(request, term=0) == Pruned(runs=0, ranges=1, more=False)
        assert [row.first_ms for row in await history.ranges("job_a")] == [T0 + 400]
        assert await history.ledger_from("job_a") == T0 + 351

    _on(build(state), body)


def test_a_pruned_batch_that_fails_leaves_no_trace(state: Path, build: Build) -> None:
    """Where the file refuses the last write of a batch, runs, outputs and ledger are as before."""

    async def body(history: HistoryStore) -> None:
        await _end(history, 0, 5, spec(overlap=99))
        with closing(sqlite3.connect(state / "history.db", isolation_level=None)) as db:
            db.execute("CREATE TRIGGER no BEFORE DELETE ON specs BEGIN SELECT RAISE(ABORT, 'no'); END").fetchall()
            with pytest.raises(sqlite3.IntegrityError):
                await history.prune(PruneRequest(keep=0), term=0)
            assert _count(state, "runs", "attempts", "outputs", "specs", "ledger") == [5, 5, 5, 1, 0]
            db.execute("DROP TRIGGER no").fetchall()
        assert (await history.prune(PruneRequest(keep=0), term=0)).runs == 5
        assert _count(state, "runs", "attempts", "outputs", "specs", "ledger") == [0, 0, 0, 0, 1]

    _on(build(state), body)


def test_a_request_that_cannot_be_stored_takes_nobody_along(state: Path, build: Build) -> None:
    """A payload that is no JSON fails its own call and leaves nothing, not even settings that the next call would miss."""

    async def body(history: HistoryStore) -> None:
        broken = replace(pending(), payload=object())  # type: ignore[arg-type]  # what a careless caller hands in
        with pytest.raises(TypeError):
            await history.add_pending([pending(), broken], term=0)
        assert _count(state, "runs", "specs") == [0, 0]
        (answer,) = await history.add_pending([replace(pending(), payload={"a": [1, None]})], term=0)
        assert (answer.created, answer.run.key.scheduled_at_ms) == (True, T0)
        run = await history.run(answer.run.key)
        assert run is not None
        assert (run.payload, run.spec) == ({"a": [1, None]}, spec())

    _on(build(state), body)


def test_a_quota_counts_over_calls_that_share_a_transaction(state: Path, build: Build) -> None:
    """Callers whose requests are carried out together use up one quota and one cap, in order, and what was counted is stored."""

    async def body(history: HistoryStore) -> None:
        quota, cap = Quota(max=5), (Limit(scope="workspace:default", max=4),)
        requests = [
            replace(opening(slot(T0, job_id=f"job_{number}"), number + 1, job_spec=spec(overlap=None)), quota=quota, limits=cap)
            for number in range(10)
        ]
        answers = await asyncio.gather(*(history.open_runs([request]) for request in requests))
        kinds = [answer.kind for (answer,) in answers]
        assert kinds == [OpenKind.OPENED] * 4 + [OpenKind.HELD] * 6
        await history.record([result(request) for request in requests[:4]])
        answers = await asyncio.gather(*(history.open_runs([request]) for request in requests[4:]))
        assert [answer.kind for (answer,) in answers] == [OpenKind.OPENED] + [OpenKind.SKIPPED] * 5
        assert await history.used("default", "2026-01") == 5

    _on(build(state), body)


def test_a_run_of_another_workspace_than_its_job_is_counted_there(state: Path, build: Build) -> None:
    """A batch that opens a run again after its job moved to another workspace finds the quota of the run's own."""

    async def body(history: HistoryStore) -> None:
        moved = replace(spec(), workspace="new")
        (answer,) = await history.add_pending([pending()], term=0)
        manual = slot(answer.run.key.scheduled_at_ms, trigger=Trigger.MANUAL)
        fresh, again = opening(slot(T0 + 1), 1), replace(opening(slot(T0 + 1), 1, job_spec=moved), quota=Quota(max=9))
        asked = replace(opening(manual, 2, job_spec=moved), quota=Quota(max=9))
        decisions = await history.open_runs([fresh, again, asked])
        assert [decision.kind for decision in decisions] == [OpenKind.OPENED] * 3
        assert (await history.used("default", "2026-01"), await history.used("new", "2026-01")) == (2, 0)

    _on(build(state), body)


def test_waiting_is_counted_within_a_batch(state: Path, build: Build) -> None:
    """Of runs that open together one starts, as many as may wait do, and a predecessor is asked to end at once."""

    async def body(history: HistoryStore) -> None:
        queued = spec(overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=2))
        requests = [opening(slot(T0 + at), at + 1, job_spec=queued) for at in range(4)]
        kinds = [decision.kind for decision in await history.open_runs([*requests, requests[1]])]
        assert kinds == [OpenKind.OPENED, OpenKind.WAITING, OpenKind.WAITING, OpenKind.SKIPPED, OpenKind.WAITING]
        killing = spec(overlap=OverlapRule(policy=OverlapPolicy.KILL_RUNNING))
        pair = [opening(slot(T0 + at, job_id="job_b"), at + 1, job_spec=killing) for at in range(2)]
        decisions = await history.open_runs([*pair, opening(slot(T0, job_id="job_b"), 1, term=2, job_spec=killing)])
        assert [decision.kind for decision in decisions] == [OpenKind.OPENED, OpenKind.WAITING, OpenKind.FINISHED]
        run = await history.run(key(job_id="job_b"))
        assert run == decisions[2].run
        assert run is not None
        assert (run.status, run.cancel_requested) == (RunStatus.CANCELLED, True)

    _on(build(state), body)
