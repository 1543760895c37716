"""The queue's file is lost, emptied, scrambled or replaced, while it is open and while it is not."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cronpad_core.api import Entry, StateRefusedError, StoreBusyError, StoreDamagedError
from cronpad_sql.storage import SqliteStorage

Take = Callable[..., Awaitable[None]]
Build = Callable[..., SqliteStorage]


def _queue(directory: Path) -> Path:
    return directory / "cronpad-queue.db"


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _halve(path: Path) -> None:
    os.truncate(path, os.stat(path).st_size // 2 + 13)


def _scramble(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\xa5" * os.stat(path).st_size)


def _filled(directory: Path, build: Build, take: Take, body: Callable[[SqliteStorage], Awaitable[None]]) -> None:
    """Runs ``body`` on an open storage whose queue holds entries that are in the file itself, not only in its log."""

    async def run() -> None:
        storage = build(directory)
        await storage.open()
        await take(storage)
        await storage.queue.put([Entry(member=f"m{number}", at_ms=number) for number in range(500)], term=1)
        await storage.queue.close()
        assert await storage.queue.open() is None
        try:
            await body(storage)
        finally:
            await storage.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("harm", "reason"),
    [(_delete, "missing"), (_empty, "corrupt"), (_halve, "corrupt"), (_scramble, "corrupt")],
)
def test_harm_while_open_is_noticed_and_mended(
    state: Path, build: Build, take: Take, harm: Callable[[Path], None], reason: str
) -> None:
    """Deleted, emptied, cut or scrambled under an open connection: ``verify`` says so, ``open`` begins empty and says why."""

    async def body(storage: SqliteStorage) -> None:
        queue = storage.queue
        assert await queue.verify()
        before = await queue.look()
        harm(_queue(state))
        assert not await queue.verify()
        assert (await queue.look()).identity != before.identity
        assert await queue.open() == reason
        assert queue.present()
        assert (await queue.counts()).due == 0
        await take(storage, term=2)
        assert await queue.put([Entry(member="x", at_ms=1)], term=2) == frozenset()
        assert await queue.verify()

    _filled(state, build, take, body)


@pytest.mark.parametrize("harm", [_empty, _halve, _scramble])
def test_harm_while_closed_has_no_identity_and_is_moved_aside(
    state: Path, build: Build, take: Take, harm: Callable[[Path], None]
) -> None:
    """``look`` answers no identity and moves nothing; ``open`` keeps the damaged file under another name."""

    async def body(storage: SqliteStorage) -> None:
        queue = storage.queue
        await queue.close()
        harm(_queue(state))
        harmed = _queue(state).read_bytes()
        assert (await queue.look()).identity is None
        assert _queue(state).read_bytes() == harmed
        assert await queue.open() == "corrupt"
        assert (state / "cronpad-queue.db.corrupt-1767225600").read_bytes() == harmed
        assert oct(os.stat(_queue(state)).st_mode & 0o777) == "0o600"

    _filled(state, build, take, body)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_lost_companion_is_as_bad_as_a_lost_file(state: Path, build: Build, take: Take, suffix: str) -> None:
    """Without ``-wal`` or ``-shm`` a second process would not see what is written: the file counts as another one."""

    async def body(storage: SqliteStorage) -> None:
        assert storage.queue.present()
        Path(f"{_queue(state)}{suffix}").unlink()
        assert not storage.queue.present()
        await storage.queue.open()
        assert storage.queue.present()
        assert await storage.queue.verify()

    _filled(state, build, take, body)


def test_an_older_copy_is_another_file(state: Path, build: Build, take: Take, tmp_path: Path) -> None:
    """A copy moved into place is noticed at once by its inode, and looks like another file from outside."""

    async def body(storage: SqliteStorage) -> None:
        queue = storage.queue
        copy = tmp_path / "copy.db"
        shutil.copy(_queue(state), copy)
        before = await queue.look()
        await queue.put([Entry(member="later", at_ms=1)], term=1)
        os.rename(copy, _queue(state))
        assert not queue.present()
        assert not await queue.verify()
        assert (await queue.look()).identity not in (None, before.identity)
        await queue.open()
        assert queue.present()
        assert await queue.contains(["later", "m1"]) == {"m1"}

    _filled(state, build, take, body)


def test_zeroed_pages_raise_damage_in_use(state: Path, build: Build, take: Take) -> None:
    """Claims on a file whose pages were zeroed under way raise ``StoreDamagedError`` and lose nothing silently."""

    async def body(storage: SqliteStorage) -> None:
        with _queue(state).open("r+b") as file:
            file.seek(4096)
            file.write(b"\x00" * (os.stat(_queue(state)).st_size - 4096))
        with pytest.raises(StoreDamagedError):
            await storage.queue.claim(term=1, owner="me", now_ms=10**6, limit=400, lease_until_ms=9, fence_from=1)
        assert await storage.queue.open() == "corrupt"

    _filled(state, build, take, body)


def test_another_schema_is_recreated_and_a_strange_database_refused(state: Path, build: Build, take: Take) -> None:
    """A queue of another cronpad version begins empty; somebody else's database is neither opened nor moved."""

    async def body(storage: SqliteStorage) -> None:
        queue = storage.queue
        await queue.close()
        with sqlite3.connect(_queue(state)) as db:
            db.execute("PRAGMA user_version = 99")
        db.close()
        assert (await queue.look()).identity is not None
        assert await queue.open() == "schema"
        await queue.close()
        _delete(_queue(state))
        with sqlite3.connect(_queue(state)) as db:
            db.execute("CREATE TABLE precious (a)")
        db.close()
        assert (await queue.look()).identity is None
        with pytest.raises(StateRefusedError, match="not a queue file"):
            await queue.open()
        assert _queue(state).exists()

    _filled(state, build, take, body)


def test_a_full_queue_is_busy_and_recovers(state: Path, build: Build, take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk is full every write raises ``StoreBusyError`` and leaves no trace; afterwards the same call succeeds."""

    async def body(storage: SqliteStorage) -> None:
        queue = storage.queue
        lane = queue._lane  # type: ignore[attr-defined]  # the writer's own connection is the only one that has the limit
        limit = await lane.run(lambda db: db.execute("PRAGMA page_count").fetchone()[0], alone=True)
        await lane.run(lambda db: db.execute(f"PRAGMA max_page_count = {limit}").fetchall(), alone=True)
        more = [Entry(member=f"more{number:05}", at_ms=number) for number in range(5_000)]
        for _ in range(3):
            with pytest.raises(StoreBusyError, match="FULL"):
                await queue.put(more, term=1)
        assert (await queue.counts()).due == 500
        await lane.run(lambda db: db.execute("PRAGMA max_page_count = 1073741823").fetchall(), alone=True)
        assert await queue.put(more, term=1) == frozenset()
        assert (await queue.counts()).due == 5_500

    _filled(state, build, take, body)


def test_without_descriptors_the_file_is_not_called_lost(state: Path, build: Build, take: Take) -> None:
    """A process that cannot open another file says "busy", not "gone": nothing is rebuilt because of it."""

    async def body(storage: SqliteStorage) -> None:
        queue = storage.queue
        assert await queue.verify()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            with pytest.raises(StoreBusyError):
                await queue.verify()
            with pytest.raises(StoreBusyError):
                await queue.look()
            assert await queue.put([Entry(member="x", at_ms=1)], term=1) == frozenset()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert await queue.verify()

    _filled(state, build, take, body)


def test_a_copy_beside_another_files_log_is_not_believed(state: Path, build: Build, take: Take, tmp_path: Path) -> None:
    """At a start, a file that is not the one that its log was written for is moved aside: together they make no sense."""

    async def body(storage: SqliteStorage) -> None:
        copy = tmp_path / "copy.db"
        shutil.copy(_queue(state), copy)
        await storage.queue.put([Entry(member="later", at_ms=1)], term=1)
        log = Path(f"{_queue(state)}-wal").read_bytes()
        await storage.queue.close()
        _delete(_queue(state))
        os.rename(copy, _queue(state))
        Path(f"{_queue(state)}-wal").write_bytes(log)
        assert await storage.queue.open() == "corrupt"
        assert (await storage.queue.counts()).due == 0

    _filled(state, build, take, body)
