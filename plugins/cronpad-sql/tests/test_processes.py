"""Several processes, and processes that die at the worst moment: real files, real kills."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cronpad_core.api import Entry, LockRow, StoreBusyError, TermRecord
from cronpad_sql import migrate
from cronpad_sql.files import FileKind
from cronpad_sql.storage import SqliteStorage

Take = Callable[..., Awaitable[None]]
Build = Callable[..., SqliteStorage]

_PREAMBLE = """
import asyncio, os, sys, signal, sqlite3
from cronpad_core.api import *
from cronpad_sql.storage import SqliteStorage
directory = sys.argv[1]
def build():
    return SqliteStorage(StorageOptions(url="sqlite://" + directory, wall_ms=lambda: 1_767_225_600_000))
def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()
"""


@contextmanager
def _child(script: str, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs ``script``; killed at the end whatever happens."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PREAMBLE + script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


_WRITER = """
async def main():
    storage = build()
    await storage.open()
    await storage.prepare()
    async def chain(number):
        spec = JobSpec(name="n", schedule=ScheduleSpec(texts=("@daily",)), sink=SinkSpec(type="x"))
        job, at = Job(id=f"j{number}", origin="o", version=1, status=JobStatus.ACTIVE, spec=spec, next_run_at_ms=1,
                      valid_from_ms=0), 0
        while True:
            at += 1
            request = OpenRequest(occurrence=job.slot(at), spec=spec, fence=at, now_ms=at, due_at_ms=at, claimed_at_ms=at)
            run = (await storage.history.open_runs([request]))[0].run
            attempt = Attempt(run_id=run.id, attempt=0, fence=at, status=AttemptStatus.DELIVERED, due_at_ms=at,
                              claimed_at_ms=at, opened_at_ms=at, finished_at_ms=at)
            await storage.history.record([RecordRequest(key=run.key, attempt=attempt, status=RunStatus.SUCCEEDED)])
            say(run.id)
    await asyncio.gather(*(chain(number) for number in range(8)))
asyncio.run(main())
"""


@pytest.mark.parametrize("acknowledged", [1, 40, 333])
def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path, build: Build, acknowledged: int) -> None:
    """A process killed among its commits: every run whose recording was answered is there, and ended."""
    directory = tmp_path / "state"
    said: list[str] = []
    with _child(_WRITER, directory) as process:
        assert process.stdout is not None
        while len(said) < acknowledged:
            said.append(process.stdout.readline().strip())
        process.send_signal(signal.SIGKILL)
        said += [line.strip() for line in process.stdout if line.endswith("\n")]

    async def read() -> None:
        storage = build(directory)
        await storage.open()
        await storage.prepare()
        for run_id in said:
            run = await storage.history.run_by_id(run_id)
            assert run is not None
            assert run.status.terminal
        with closing(sqlite3.connect(directory / "history.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        await storage.close()

    asyncio.run(read())
    assert len(said) >= acknowledged


_TAKER = """
async def main():
    storage = build()
    await storage.open()
    await storage.queue.open()
    seen = await storage.queue.look()
    say("ready")
    sys.stdin.readline()
    row = LockRow(token=str(os.getpid()), term=1, expires_ms=100)
    taken = await storage.queue.acquire(row, seen=seen, boot_id="b", boot_base_ms=0, epoch="e", guard=lambda: True)
    swapped = await storage.catalog.swap_term(TermRecord(), TermRecord(term=1, holder=str(os.getpid())))
    say(int(taken), int(swapped), os.getpid())
    await storage.close()
asyncio.run(main())
"""


def test_of_racing_processes_one_takes_lock_and_record(state: Path, build: Build, take: Take) -> None:
    """Processes that judged by the same look: exactly one acquires the row, and exactly one swaps the record."""
    with _child(_TAKER, state) as first, _child(_TAKER, state) as second, _child(_TAKER, state) as third:
        children = (first, second, third)
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        answers = [child.stdout.readline().split() for child in children if child.stdout is not None]
    assert sum(int(answer[0]) for answer in answers) == 1
    assert sum(int(answer[1]) for answer in answers) == 1

    async def read() -> None:
        storage = build(state)
        await storage.open()
        lock = (await storage.queue.look()).lock
        assert lock == LockRow(token=next(answer[2] for answer in answers if answer[0] == "1"), term=1, expires_ms=100)
        holder = (await storage.catalog.read_term()).holder
        assert holder == next(answer[2] for answer in answers if answer[1] == "1")
        await storage.close()

    asyncio.run(read())


_BLOCKER = """
held = sqlite3.connect(directory + "/" + sys.argv[2], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
say("held")
sys.stdin.readline()
held.execute("ROLLBACK")
say("free")
"""


def test_a_lock_of_another_process_is_busy_and_reads_go_on(state: Path, build: Build, take: Take) -> None:
    """While another process holds the queue's write lock, writes raise ``StoreBusyError`` in time and other files work."""

    async def body() -> None:
        storage = build(state)
        await storage.open()
        await take(storage)
        queue = storage.queue
        await queue.put([Entry(member="a", at_ms=1)], term=1)
        with _child(_BLOCKER, state, "cronpad-queue.db") as blocker:
            assert blocker.stdin is not None
            assert blocker.stdout is not None
            assert blocker.stdout.readline() == "held\n"
            async with asyncio.timeout(5):
                with pytest.raises(StoreBusyError):
                    await queue.put([Entry(member="b", at_ms=1)], term=1)
            assert await queue.contains(["a", "b"]) == {"a"}
            assert (await queue.look()).term == 1
            assert await queue.verify()
            assert await storage.catalog.swap_term(TermRecord(), TermRecord(term=1, holder="me"))
            blocker.stdin.write("go\n")
            blocker.stdin.flush()
            assert blocker.stdout.readline() == "free\n"
        assert await queue.put([Entry(member="b", at_ms=1)], term=1) == frozenset()
        await storage.close()

    asyncio.run(body())


_LIMITED = """
import resource
async def main():
    storage = build()
    await storage.open()
    await storage.prepare()
    queue = storage.queue
    await queue.open()
    row = LockRow(token="t", term=1, expires_ms=100)
    await queue.acquire(row, seen=await queue.look(), boot_id="b", boot_base_ms=0, epoch="e", guard=lambda: True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    stored, refused = 0, 0
    while refused < 3:
        entries = [Entry(member=f"m{stored + number}", at_ms=1) for number in range(100)]
        try:
            await queue.put(entries, term=1)
            stored += 100
        except (StoreBusyError, CommitUnknownError):
            refused += 1
    say(stored, await queue.verify(), (await queue.counts()).due)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await queue.put([Entry(member="last", at_ms=1)], term=1)
    say((await queue.counts()).due, await queue.verify())
    await storage.close()
asyncio.run(main())
"""


def test_a_file_that_cannot_grow_is_busy_and_recovers(tmp_path: Path) -> None:
    """Under a limit of the file size writes are refused and leave no trace; without it the same store goes on."""
    with _child(_LIMITED, tmp_path / "state") as process:
        assert process.stdout is not None
        stored, verified, counted = process.stdout.readline().split()
        assert (verified, stored) == ("True", counted)
        assert process.stdout.readline() == f"{int(stored) + 1} True\n"


_MIGRATION = """
import shutil
from cronpad_sql import state_file
from cronpad_sql.connections import connect_write
import cronpad_sql.dialect, cronpad_sql.schema, alembic.command, alembic.config
async def main(at):
    count = 0
    def trace(statement):
        nonlocal count
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)
    def traced(path, mode):
        db = connect_write(path, mode)
        db.set_trace_callback(trace)
        return db
    state_file.connect_write = traced
    storage = build()
    await storage.open()
    await storage.prepare()
    await storage.close()
at, killed = 0, True
while killed:
    at += 1
    child = os.fork()
    if not child:
        directory = os.path.join(sys.argv[1], str(at))
        if len(sys.argv) > 2:
            shutil.copytree(sys.argv[2], directory)
        asyncio.run(main(at))
        os._exit(0)
    killed = os.waitpid(child, 0)[1] == signal.SIGKILL
say(at)
"""


def test_a_start_killed_at_any_statement_is_finished_by_the_next(tmp_path: Path, build: Build) -> None:
    """Killed at every statement of creation and migration in turn, the state is opened and complete afterwards."""
    with _child(_MIGRATION, tmp_path) as process:
        output, _ = process.communicate(timeout=600)
    count = int(output)
    assert count > 30

    async def finish(directory: Path) -> None:
        storage = build(directory)
        await storage.open()
        await storage.prepare()
        assert await storage.catalog.jobs() == []
        assert await storage.history.runs() == []
        await storage.close()

    for at in range(1, count + 1):
        directory = tmp_path / str(at)
        asyncio.run(finish(directory))
        for name, kind in (("cronpad.db", FileKind.CONTROL), ("history.db", FileKind.HISTORY)):
            with closing(sqlite3.connect(directory / name)) as db:
                assert db.execute("PRAGMA user_version").fetchone() == (migrate.HEAD[kind],)
                assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_an_older_state_killed_at_any_statement_is_old_or_new(tmp_path: Path, first_schema: Path, build: Build) -> None:
    """Killed at every statement of an upgrade in turn, each file is of one of the two schemas, and the next start goes on."""
    with closing(sqlite3.connect(first_schema / "history.db", isolation_level=None)) as db:
        db.execute("""INSERT INTO specs VALUES (1, 'j', 1, 'h', '{"workspace": "w"}')""")
        db.execute(
            "INSERT INTO runs VALUES (1, 'r', 'j', 1, 's', 1, 1, 'succeeded', 0, 1, 1, 1, 1, 1, NULL, NULL, NULL, NULL, '', "
            "0, 0, 0, 1)"
        )
    (tmp_path / "killed").mkdir()
    with _child(_MIGRATION, tmp_path / "killed", first_schema) as process:
        output, _ = process.communicate(timeout=600)
    seen = set()
    for at in range(1, int(output) + 1):
        directory = tmp_path / "killed" / str(at)
        with closing(sqlite3.connect(directory / "history.db")) as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            columns = [row[1] for row in db.execute("PRAGMA table_info(runs)").fetchall()]
            seen.add((version, "workspace" in columns))

        async def finish(storage: SqliteStorage) -> None:
            await storage.open()
            await storage.prepare()
            await storage.close()

        asyncio.run(finish(build(directory)))
        with closing(sqlite3.connect(directory / "history.db")) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (migrate.HEAD[FileKind.HISTORY],)
            assert db.execute("SELECT id, workspace FROM runs").fetchall() == [("r", "w")]
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert seen == {(1, False), (migrate.HEAD[FileKind.HISTORY], True)}
