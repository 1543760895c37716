"""The lane: what waits shares a commit, and nobody pays for another's mistake."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cronpad_core.api import CommitUnknownError, StoreBusyError, StoreDamagedError, StoreError
from cronpad_sql.connections import WriteMode, connect_read, connect_write
from cronpad_sql.lane import Lane
from cronpad_sql.reader import Reader


class _Fragile(sqlite3.Connection):
    """A connection that fails at a statement with an error code, once."""

    armed: tuple[str, int] | None = None

    def execute(self, sql: str, values: Sequence[int] = ()) -> sqlite3.Cursor:  # type: ignore[override]  # as it is called here
        armed = _Fragile.armed
        if armed is not None and sql == armed[0]:
            _Fragile.armed = None
            error = sqlite3.OperationalError("injected")
            error.sqlite_errorcode = armed[1]
            raise error
        return super().execute(sql, values)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with one table."""
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    db.commit()
    db.close()
    return path


def _lane(path: Path, **more: object) -> Lane:
    mode = WriteMode(durable=False, busy_ms=200)
    return Lane(file="x.db", connect=lambda: connect_write(path, mode), path=path, **more)  # type: ignore[arg-type]  # shorthand


def _fragile(path: Path) -> Lane:
    lane = _lane(path)
    lane.connect = lambda: sqlite3.connect(path, isolation_level=None, factory=_Fragile)
    return lane


def _insert(number: int) -> Callable[[sqlite3.Connection], int]:
    return lambda db: db.execute("INSERT INTO t VALUES (?)", (number,)).rowcount


def _rows(path: Path) -> list[int]:
    db = sqlite3.connect(path)
    try:
        return [row[0] for row in db.execute("SELECT a FROM t ORDER BY a")]
    finally:
        db.close()


async def _held_up(lane: Lane) -> threading.Event:
    """Keeps the lane busy until the event is set, so that what comes next waits together."""
    go, began = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait(db: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(began.set)
        go.wait(10)

    waiter = asyncio.ensure_future(lane.run(wait, alone=True))
    await began.wait()
    waiter.add_done_callback(lambda done: done.exception())
    return go


def test_a_failing_operation_fails_alone(path: Path) -> None:
    """Of operations that share a commit, the one that raises leaves no trace and the others are stored."""

    async def run() -> None:
        lane = _lane(path)

        def half(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO t VALUES (100)")
            raise KeyError("mine")

        go = await _held_up(lane)
        calls = [lane.run(half), lane.run(_insert(1)), lane.run(half), lane.run(_insert(1)), lane.run(_insert(2))]
        answers = asyncio.gather(*calls, return_exceptions=True)
        await asyncio.sleep(0)
        go.set()
        first, second, third, fourth, fifth = await answers
        assert isinstance(first, KeyError)
        assert (second, fifth) == (1, 1)
        assert isinstance(third, KeyError)
        assert isinstance(fourth, sqlite3.IntegrityError)
        await lane.close()

    asyncio.run(run())
    assert _rows(path) == [1, 2]


def test_bulk_requests_are_merged_and_told_apart(path: Path) -> None:
    """Requests of several callers run as one call; one bad request costs only its own caller."""
    calls: list[list[int]] = []

    def bulk(db: sqlite3.Connection, numbers: Sequence[int]) -> list[int]:
        calls.append(list(numbers))
        for number in numbers:
            db.execute("INSERT INTO t VALUES (?)", (number,))
        return [number * 10 for number in numbers]

    async def run() -> None:
        lane = _lane(path)
        go = await _held_up(lane)
        answers = asyncio.gather(*(lane.run_bulk(bulk, [n, n + 100]) for n in (1, 2, 3)))
        await asyncio.sleep(0)
        go.set()
        assert await answers == [[10, 1010], [20, 1020], [30, 1030]]
        assert calls == [[1, 101, 2, 102, 3, 103]]
        go = await _held_up(lane)
        mixed = asyncio.gather(*(lane.run_bulk(bulk, [n]) for n in (7, 1, 8)), return_exceptions=True)
        await asyncio.sleep(0)
        go.set()
        seven, one, eight = await mixed
        assert (seven, eight) == ([70], [80])
        assert isinstance(one, sqlite3.IntegrityError)
        await lane.close()

    asyncio.run(run())
    assert _rows(path) == [1, 2, 3, 7, 8, 101, 102, 103]


def test_a_cancelled_caller_breaks_nothing(path: Path) -> None:
    """The operation of a cancelled caller is carried out, and the others get their answers."""

    async def run() -> None:
        lane = _lane(path)
        go = await _held_up(lane)
        doomed = asyncio.ensure_future(lane.run(_insert(1)))
        other = asyncio.ensure_future(lane.run(_insert(2)))
        await asyncio.sleep(0)
        doomed.cancel()
        go.set()
        assert await other == 1
        assert doomed.cancelled()
        await lane.close()

    asyncio.run(run())
    assert _rows(path) == [1, 2]


@pytest.mark.parametrize(("code", "kind"), [(10 | (4 << 8), CommitUnknownError), (13, StoreBusyError), (11, StoreDamagedError)])
def test_a_failed_commit_fails_every_caller(path: Path, code: int, kind: type[StoreError]) -> None:
    """An I/O error at the commit leaves the outcome open, a full disk does not; the next operation works again."""

    async def run() -> None:
        lane = _fragile(path)
        go = await _held_up(lane)
        _Fragile.armed = ("COMMIT", code)
        answers = asyncio.gather(lane.run(_insert(1)), lane.run(_insert(2)), return_exceptions=True)
        await asyncio.sleep(0)
        go.set()
        assert [type(answer) for answer in await answers] == [kind, kind]
        assert await lane.run(_insert(3)) == 1
        await lane.close()

    asyncio.run(run())
    assert _rows(path) == [3]


def test_an_io_error_in_a_statement_applies_nothing(path: Path) -> None:
    """An I/O error before the commit is "nothing was applied" for all that shared the transaction."""

    async def run() -> None:
        lane = _fragile(path)
        go = await _held_up(lane)
        _Fragile.armed = ("SELECT 'bad'", 10 | (3 << 8))
        answers = asyncio.gather(lane.run(_insert(1)), lane.run(lambda db: db.execute("SELECT 'bad'")), return_exceptions=True)
        await asyncio.sleep(0)
        go.set()
        assert [type(answer) for answer in await answers] == [StoreBusyError, StoreBusyError]
        assert await lane.run(_insert(3)) == 1
        await lane.close()

    asyncio.run(run())
    assert _rows(path) == [3]


def test_a_lock_of_another_process_is_busy_for_all_that_wait(path: Path) -> None:
    """After one time-out everybody who waited is told; when the lock is free the lane goes on."""

    async def run() -> None:
        lane = _lane(path)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        answers = await asyncio.gather(*(lane.run(_insert(n)) for n in range(50)), return_exceptions=True)
        assert {type(answer) for answer in answers} == {StoreBusyError}
        other.execute("ROLLBACK")
        other.close()
        assert await lane.run(_insert(7)) == 1
        await lane.close()

    asyncio.run(run())
    assert _rows(path) == [7]


def test_closing_finishes_what_waits(path: Path) -> None:
    """What was handed in before the close is stored, the log is empty, and later calls are refused."""

    async def run() -> None:
        lane = _lane(path)
        waiting = [asyncio.ensure_future(lane.run(_insert(n))) for n in range(200)]
        await asyncio.sleep(0)
        await asyncio.gather(lane.close(), lane.close())
        assert [await one for one in waiting] == [1] * 200
        with pytest.raises(StoreError):
            await lane.run(_insert(1))
        await lane.close()

    asyncio.run(run())
    assert len(_rows(path)) == 200
    assert not Path(f"{path}-wal").exists()


def test_the_log_is_kept_small(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many commits do not let the log grow far beyond 4 MB, although SQLite's own checkpoints are off."""
    monkeypatch.setattr("cronpad_sql.lane._CHECKPOINT_EVERY_S", 0.0)
    kinds: list[str] = []
    checkpoint = Lane._checkpoint

    def counted(lane: Lane, kind: str) -> None:
        kinds.append(kind)
        checkpoint(lane, kind)

    monkeypatch.setattr(Lane, "_checkpoint", counted)

    async def run() -> None:
        lane = _lane(path)
        await lane.run(lambda db: db.execute("CREATE TABLE big (a)"))
        for _ in range(60):
            await lane.run(lambda db: db.execute("INSERT INTO big VALUES (zeroblob(300000))"))
        assert Path(f"{path}-wal").stat().st_size < 6 << 20
        await lane.close()
        # 18 MB in pieces of 4 MB, and the last one at the close: not one after each commit.
        assert kinds.count("PASSIVE") in range(3, 7)
        assert kinds[-1] == "TRUNCATE"

    asyncio.run(run())


def test_readers_do_not_wait_for_the_lane(path: Path) -> None:
    """A reader sees what is committed while the lane is held up, and cannot write."""

    async def run() -> None:
        lane = _lane(path)
        reader = Reader(file="x.db", connect=lambda: connect_read(path, 200))
        await lane.run(_insert(5))
        go = await _held_up(lane)
        assert await reader.run(lambda db: db.execute("SELECT a FROM t").fetchall()) == [(5,)]
        with pytest.raises(StoreBusyError):
            await reader.run(lambda db: db.execute("INSERT INTO t VALUES (6)"))
        go.set()
        await reader.close()
        await lane.close()

    asyncio.run(run())


def test_a_read_without_end_is_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that takes too long is ended, so that it cannot keep the log from being started anew."""
    monkeypatch.setattr("cronpad_sql.reader._READ_S", 0.05)

    async def run() -> None:
        reader = Reader(file="x.db", connect=lambda: connect_read(path, 200))
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        with pytest.raises(StoreBusyError):
            await reader.run(lambda db: db.execute(endless).fetchall())
        assert await reader.run(lambda db: db.execute("SELECT 1").fetchone()) == (1,)
        await reader.close()

    asyncio.run(run())
