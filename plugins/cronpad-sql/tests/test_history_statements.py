"""What history asks of SQLite: few statements where many runs open, and an index for each of them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cronpad_core.api import (
    Backfill,
    ConcurrencyRule,
    CutRequest,
    EndRequest,
    JobSpec,
    Limit,
    Millis,
    OpenRequest,
    OverlapPolicy,
    OverlapRule,
    PruneRequest,
    Quota,
    RunStatus,
    Trigger,
)
from cronpad_sql import connections, state_file
from cronpad_sql.storage import SqliteStorage
from cronpad_testkit.samples import T0, key, opening, pending, ranging, result, slot, spec

Build = Callable[..., SqliteStorage]


@contextmanager
def _told(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """All statements of connections that are opened meanwhile, with the values in them."""
    said: list[str] = []

    def wrap(connect: Callable[..., sqlite3.Connection]) -> Callable[..., sqlite3.Connection]:
        def connected(path: Path, mode: object) -> sqlite3.Connection:
            db = connect(path, mode)
            if path.name == "history.db":
                db.set_trace_callback(said.append)
            return db

        return connected

    with patch.context() as within:
        within.setattr(state_file, "connect_write", wrap(connections.connect_write))
        within.setattr(state_file, "connect_read", wrap(connections.connect_read))
        yield said


def _on(storage: SqliteStorage, body: Callable[[SqliteStorage], Awaitable[None]]) -> None:
    async def run() -> None:
        await storage.open()
        await storage.prepare()
        await body(storage)
        await storage.close()

    asyncio.run(run())


def _many(at_ms: Millis, jobs: str, settings: Sequence[JobSpec]) -> list[OpenRequest]:
    slots = [slot(at_ms, job_id=f"{jobs}_{number}") for number in range(len(settings))]
    return [opening(each, number, job_spec=one) for number, (each, one) in enumerate(zip(slots, settings, strict=True), 1)]


def test_plain_openings_ask_four_questions(state: Path, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few statements however many runs open at once: two more for new settings, one for caps, one for a quota, one for queues."""
    settings = [spec(overlap=None) for _ in range(50)]
    capped = (Limit(scope="all", max=999), Limit(scope="key:db", max=999))
    plain, again, other = _many(T0, "job", settings), _many(T0 + 1, "job", settings), _many(T0, "more", settings)
    last = _many(T0 + 2, "more", [spec(overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ONE))] * 50)
    batches = [plain, again, [replace(one, limits=capped) for one in other], [replace(one, quota=Quota(max=999)) for one in last]]
    batches.append([replace(one, now_ms=one.now_ms + 1) for one in last])
    asked = []

    async def body(storage: SqliteStorage) -> None:
        for batch in batches:
            said.clear()
            await storage.history.open_runs(batch)
            asked.append(sum(statement.startswith(("SELECT", "WITH")) for statement in said))

    with _told(monkeypatch) as said:
        _on(build(state), body)
    assert asked == [6, 4, 7, 7, 5]


def test_a_batch_counts_what_it_opens_in_one_statement_a_month(
    state: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Usage is written once for a workspace and month, with the whole count."""
    with _told(monkeypatch) as said:

        async def body(storage: SqliteStorage) -> None:
            requests = [opening(slot(T0 + number, job_id=f"job_{number}"), number + 1) for number in range(30)]
            await storage.history.open_runs(requests)
            assert sum("INTO usage" in statement for statement in said) == 1
            assert await storage.history.used("default", "2026-01") == 30

        _on(build(state), body)


async def _use_everything(storage: SqliteStorage) -> None:
    history = storage.history
    keyed = replace(spec(overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=9)), concurrency=ConcurrencyRule(max=1, key="k"))
    replacing = spec(overlap=OverlapRule(policy=OverlapPolicy.KILL_RUNNING))
    limited = [
        replace(opening(slot(T0 + number), number + 1, job_spec=keyed), limits=(Limit(scope="key:k", max=9),), quota=Quota(max=9))
        for number in range(3)
    ]
    for batch in (limited, limited[1:]):
        await history.open_runs(batch)
    others = [opening(slot(T0 + number, job_id="job_b"), number + 9, job_spec=replacing) for number in range(2)]
    await history.open_runs(others)
    await history.record([result(limited[0])])
    await history.record([result(others[0]), result(limited[1])])
    await history.raise_fence(limited[2].occurrence.key, attempt=0, old=limited[2].fence, new=limited[2].fence + 1)
    await history.add_pending([pending(token="t"), pending(token="t"), pending(trigger=Trigger.BACKFILL)], term=0)
    await history.request_cancel(key(trigger=Trigger.BACKFILL), term=0)
    await history.end(
        EndRequest(
            key=key(trigger=Trigger.BACKFILL),
            was=RunStatus.PENDING,
            attempt=0,
            status=RunStatus.CANCELLED,
            reason="no",
            fence=99,
            now_ms=T0,
        )
    )
    await history.add_ranges([ranging(T0 + 100, T0 + 200), ranging(T0 + 300, T0 + 400)], term=0)
    await history.cut_ranges([CutRequest(job_id="job_a", version=1, last_ms=T0 + 350, slots=lambda first, last: 1)], term=0)
    one = Backfill(id="b", job_id="job_a", job_version=1, from_ms=1, to_ms=2, cursor_ms=1, created_at_ms=3)
    await history.add_backfill(one, term=0)
    await history.move_backfill(replace(one, cursor_ms=2), expected=one, term=0)
    await history.begin_ledger(5, term=0)
    await history.ledger_from("job_a")
    await history.used("default", "2026-01")
    await history.unfinished(after="", limit=9)
    await history.latest_version("job_a")
    await history.ranges("job_a")
    await history.attempts((await history.runs(job_id="job_a"))[0].id)
    for unfinished in (True, False):
        await history.backfills(unfinished=unfinished)
        await history.backfills(job_id="job_a", unfinished=unfinished)
    await history.prune(PruneRequest(before_ms=T0, keep=1, max_bytes=0, limit=5), term=0)


_WHOLE = {
    "SCAN runs USING COVERING INDEX runs_of_job": "GROUP BY job_id HAVING",  # on the reader, before the lane is asked
    "SCAN ranges": "GROUP BY job_id, version HAVING",
    "SCAN runs USING INDEX runs_by_creation": "ORDER BY created_at, id LIMIT",  # the oldest first, as many as are wanted
    "SCAN backfills USING INDEX backfills_by_creation": "ORDER BY created_at DESC, id DESC LIMIT",
    "SCAN backfills USING INDEX backfills_open": "ORDER BY created_at DESC, id DESC LIMIT",
}
"""Plans that go along a whole index → the words of the statements that may."""


def test_no_statement_reads_a_whole_table(state: Path, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each statement on rows finds them by an index, or answers in the order of one: no history slows scheduling (B106)."""
    with _told(monkeypatch) as said:
        _on(build(state), _use_everything)
    words = ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE")
    statements = {
        statement for statement in said if statement.startswith(words) and not statement.endswith(("sqlite_master)", "FROM term"))
    }
    assert len(statements) > 60
    with closing(sqlite3.connect(state / "history.db")) as db:
        for statement in statements:
            for *_, step in db.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall():
                if step.startswith("SCAN") and "VIRTUAL TABLE" not in step and step not in ("SCAN CONSTANT ROW", "SCAN taken"):
                    assert _WHOLE.get(step, "nothing") in statement, (step, statement)
