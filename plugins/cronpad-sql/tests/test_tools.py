"""What looks after the files: facts, the check of everything, backup, restore, and what is degraded."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cronpad_core.api import (
    ConfigurationError,
    Job,
    JobSpec,
    JobStatus,
    JobVersion,
    JobWrite,
    LockHeldError,
    NotFoundError,
    OpenRequest,
    Restored,
    ScheduleSpec,
    SinkSpec,
    StateProblem,
    StateRefusedError,
    StateUnwritableError,
    TermRecord,
)
from cronpad_sql import tools as tools_module
from cronpad_sql.migrate import HEAD
from cronpad_sql.storage import SqliteStorage
from cronpad_sql.tools import can_lose_a_reset

Build = Callable[..., SqliteStorage]


def _sql(path: Path, *statements: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        rows: list[tuple[object, ...]] = []
        for statement in statements:
            rows = db.execute(statement).fetchall()
        return rows


def _request(number: int) -> OpenRequest:
    spec = JobSpec(name="n", schedule=ScheduleSpec(texts=("@daily",)), sink=SinkSpec(type="x"))
    job = Job(id="j", origin="o", version=1, status=JobStatus.ACTIVE, spec=spec, next_run_at_ms=1, valid_from_ms=0)
    at_ms = 1_000 + number
    return OpenRequest(
        occurrence=job.slot(at_ms), spec=spec, fence=(1 << 32) + number, now_ms=at_ms, due_at_ms=at_ms, claimed_at_ms=at_ms
    )


@pytest.fixture
def filled(state: Path, build: Build) -> Path:
    """A state with one job and five runs of it, held by a process that has died."""

    async def fill() -> None:
        storage = build(state)
        await storage.open()
        for store in (storage.catalog, storage.history):
            assert await store.swap_term(TermRecord(), TermRecord(term=1, holder="them"))
        first = _request(1)
        job = Job(id="j", origin="o", version=1, status=JobStatus.ACTIVE, spec=first.spec, next_run_at_ms=9_000, valid_from_ms=0)
        version = JobVersion(job_id="j", version=1, spec=first.spec, valid_from_ms=0)
        await storage.catalog.write([JobWrite(job=job, expected=None, begins=version)], term=1)
        await storage.history.open_runs([_request(number) for number in range(5)])
        await storage.close()

    asyncio.run(fill())
    return state


def _problems(build: Build, state: Path) -> list[StateProblem]:
    return asyncio.run(build(state, read_only=True).tools.check())


def _restore(build: Build, state: Path, source: Path, *, aside: bool = False) -> tuple[Restored, list[str]]:
    begun: list[str] = []

    async def begin(url: str) -> None:
        begun.append(url)

    return asyncio.run(build(state).tools.restore(source, aside=aside, begin=begin)), begun


# ----------------------------------------------------------------------------------------------------- facts and check


def test_facts_of_a_state(filled: Path, build: Build) -> None:
    """Every file with its size and schema; one that is missing or no database has none, and nothing is raised."""
    (filled / "cronpad-queue.db").write_bytes(b"nonsense" * 1_000)
    facts = {one.name: one for one in asyncio.run(build(filled).tools.facts())}
    assert list(facts) == ["control", "history", "queue"]
    for kind in HEAD:
        one = facts[kind.name.lower()]
        assert (one.found, one.known) == (HEAD[kind], HEAD[kind])
    assert facts["history"].size == (filled / "history.db").stat().st_size
    assert (facts["queue"].found, facts["queue"].size) == (None, 8_000)
    assert [one.size for one in asyncio.run(build(filled / "nothing").tools.facts())] == [0, 0, 0]
    assert not (filled / "nothing").exists()


def test_a_sound_state_has_no_problem(filled: Path, build: Build) -> None:
    """Neither empty nor filled, nor without its queue; and nothing is written."""
    before = {path.name: path.read_bytes() for path in filled.glob("*.db")}
    assert _problems(build, filled) == []
    assert {path.name: path.read_bytes() for path in filled.glob("*.db")} == before


def test_a_check_needs_a_state(tmp_path: Path, build: Build) -> None:
    """Nothing is created for being looked at."""
    with pytest.raises(NotFoundError):
        _problems(build, tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("file", "statement", "what"),
    [
        ("history.db", "UPDATE attempts SET run_seq = 77 WHERE run_seq = 1", "orphan"),
        ("history.db", "INSERT INTO outputs VALUES (77, 0, 1, 0, 'stdout', 3, x'61', x'')", "orphan"),
        ("history.db", "UPDATE runs SET spec_id = 77 WHERE seq = 1", "orphan"),
        ("history.db", "UPDATE runs SET status = 'done' WHERE seq = 1", "impossible"),
        ("history.db", "UPDATE runs SET status = 'succeeded' WHERE seq = 1", "impossible"),
        ("history.db", "UPDATE runs SET redeliveries = -1 WHERE seq = 1", "impossible"),
        ("history.db", "UPDATE attempts SET attempt = 4 WHERE run_seq = 1", "impossible"),
        ("history.db", "UPDATE attempts SET status = 'odd' WHERE run_seq = 1", "impossible"),
        ("history.db", "UPDATE specs SET spec = '{}'", "unreadable"),
        ("history.db", "UPDATE runs SET job_id = 'other' WHERE seq = 1", "orphan"),
        ("history.db", "INSERT INTO ranges VALUES ('j', 1, 9, 5, 'missed', 1, '')", "impossible"),
        ("history.db", "INSERT INTO ranges VALUES ('j', 1, 5, 9, 'missed', 0, '')", "impossible"),
        ("cronpad.db", "UPDATE jobs SET version = 2", "orphan"),
        ("cronpad.db", "UPDATE jobs SET status = 'asleep'", "impossible"),
        ("cronpad.db", "UPDATE jobs SET spec = 'x'", "unreadable"),
        ("cronpad.db", "UPDATE job_versions SET valid_until = -5", "impossible"),
        ("cronpad.db", "DELETE FROM jobs", "orphan"),
    ],
)
def test_rows_that_cannot_be(filled: Path, build: Build, file: str, statement: str, what: str) -> None:
    """Each row that was tampered with is named, in its file."""
    _sql(filled / file, statement)
    found = _problems(build, filled)
    assert what in {one.what for one in found}
    assert {one.file for one in found} & {"history" if file == "history.db" else "control"}


def test_rows_before_the_ledger_are_nobodys_orphans(filled: Path, build: Build) -> None:
    """After a restore, history may have runs of jobs that control has not; the ledger does not answer for them."""
    _sql(filled / "history.db", "UPDATE runs SET job_id = 'other' WHERE seq = 1")
    assert [one.what for one in _problems(build, filled)] == ["orphan"]
    _sql(filled / "history.db", "INSERT INTO ledger VALUES ('*', 1000000)")
    assert _problems(build, filled) == []


def test_damaged_files_are_named_and_the_others_still_read(filled: Path, build: Build) -> None:
    """Garbage over pages, an emptied file, somebody else's database, a newer one and a missing one: one word for each."""
    whole = (filled / "history.db").read_bytes()
    (filled / "history.db").write_bytes(whole[:4_096] + b"\xff" * 8_192 + whole[12_288:])
    assert {(one.file, one.what) for one in _problems(build, filled)} == {("history", "damaged")}
    (filled / "history.db").write_bytes(b"")
    assert {(one.file, one.what) for one in _problems(build, filled)} == {("history", "damaged")}
    (filled / "history.db").write_bytes(whole)
    _sql(filled / "history.db", "PRAGMA application_id = 5")
    assert {(one.file, one.what) for one in _problems(build, filled)} == {("history", "foreign")}
    (filled / "history.db").write_bytes(whole)
    _sql(filled / "cronpad.db", "PRAGMA user_version = 99")
    assert {(one.file, one.what) for one in _problems(build, filled)} == {("control", "newer")}
    (filled / "cronpad.db").unlink()
    assert {(one.file, one.what) for one in _problems(build, filled)} == {("control", "missing")}


# --------------------------------------------------------------------------------------------------- backup and restore


def test_a_backup_is_whole_private_and_without_a_log(filled: Path, build: Build, tmp_path: Path) -> None:
    """What was committed is in it, logs of the state included; nothing but the two files is left in the directory."""
    target = tmp_path / "deep" / "backup"

    async def backup() -> list[Path]:
        storage = build(filled)
        await storage.open()
        await storage.history.open_runs([_request(number) for number in range(10, 20)])
        assert (filled / "history.db-wal").stat().st_size > 0
        paths = await storage.tools.backup(target)
        await storage.close()
        return paths

    paths = asyncio.run(backup())
    assert sorted(path.name for path in target.iterdir()) == ["cronpad.db", "history.db"]
    assert {path.name for path in paths} == {"cronpad.db", "history.db"}
    assert {oct(path.stat().st_mode & 0o777) for path in paths} == {"0o600"}
    assert _sql(target / "history.db", "SELECT count(*) FROM runs") == [(15,)]
    assert _sql(target / "history.db", "PRAGMA journal_mode") == [("delete",)]
    assert _problems(build, target) == []


def test_a_backup_is_never_written_over_another(filled: Path, build: Build, tmp_path: Path) -> None:
    """Nor over a state."""
    tools = build(filled).tools
    asyncio.run(tools.backup(tmp_path / "backup"))
    for target in (tmp_path / "backup", filled):
        before = (target / "cronpad.db").read_bytes()
        with pytest.raises(ConfigurationError, match="is there already"):
            asyncio.run(tools.backup(target))
        assert (target / "cronpad.db").read_bytes() == before


def test_a_backup_that_fails_leaves_nothing(filled: Path, build: Build, tmp_path: Path) -> None:
    """A damaged history is refused, and no half of a backup is left; neither is one where there is no room."""
    whole = (filled / "history.db").read_bytes()
    (filled / "history.db").write_bytes(whole[:4_096] + b"\xff" * 8_192 + whole[12_288:])
    with pytest.raises(StateRefusedError, match="damaged"):
        asyncio.run(build(filled).tools.backup(tmp_path / "backup"))
    assert list((tmp_path / "backup").iterdir()) == []
    (filled / "history.db").write_bytes(whole)
    script = (
        "import asyncio, resource, signal, sys; from pathlib import Path\n"
        "from cronpad_core.api import StateUnwritableError, StorageOptions\nfrom cronpad_sql.storage import SqliteStorage\n"
        "storage = SqliteStorage(StorageOptions(url='sqlite://' + sys.argv[1], wall_ms=lambda: 0))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))\n"
        "try:\n    asyncio.run(storage.tools.backup(Path(sys.argv[2])))\n"
        "except StateUnwritableError as error:\n    sys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, filled, tmp_path / "backup"], capture_output=True, text=True)
    assert done.returncode == 7, done.stderr
    assert list((tmp_path / "backup").iterdir()) == []


def test_a_restore_puts_the_backup_in_place_and_drops_the_queue(filled: Path, build: Build, tmp_path: Path) -> None:
    """The files are those of the backup, released by their holder; what was there is kept; ``begin`` saw the copies first."""
    asyncio.run(build(filled).tools.backup(tmp_path / "backup"))
    _sql(filled / "history.db", "DELETE FROM attempts", "DELETE FROM runs")
    (filled / "cronpad-queue.db").write_bytes(b"old")
    with pytest.raises(StateRefusedError, match="is there"):
        _restore(build, filled, tmp_path / "backup")
    done, [url] = _restore(build, filled, tmp_path / "backup", aside=True)
    assert url.endswith("/cronpad.db")
    assert ".restore-" in url
    assert _sql(filled / "history.db", "SELECT count(*) FROM runs") == [(5,)]
    assert _sql(filled / "cronpad.db", "SELECT term, released FROM term") == [(1, 1)]
    assert [path.name for path in done.aside] == [
        "cronpad.db.before-restore-1767225600",
        "history.db.before-restore-1767225600",
    ]
    assert _sql(done.aside[1], "SELECT count(*) FROM runs") == [(0,)]
    assert sorted(path.name for path in filled.iterdir()) == sorted(
        ["cronpad.db", "history.db", *(path.name for path in done.aside)]
    )
    assert _problems(build, filled) == []


def test_a_restore_into_nothing(filled: Path, build: Build, tmp_path: Path) -> None:
    """A state may be restored where none is, under names of its own; no backup is an error and creates nothing."""
    asyncio.run(build(filled).tools.backup(tmp_path / "backup"))
    done, _ = _restore(build, tmp_path / "new" / "state", tmp_path / "backup")
    assert (done.aside, _problems(build, tmp_path / "new" / "state")) == ((), [])
    _restore(build, tmp_path / "other" / "x.db", tmp_path / "backup")
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["x-history.db", "x.db"]
    with pytest.raises(NotFoundError, match="no backup"):
        _restore(build, tmp_path / "third", tmp_path)
    assert not (tmp_path / "third").exists()


def test_a_restore_refuses_while_any_process_has_the_state_open(filled: Path, build: Build, tmp_path: Path) -> None:
    """A reader that does nothing is enough, and the state is as it was; so is a newer backup."""
    asyncio.run(build(filled).tools.backup(tmp_path / "backup"))
    script = (
        "import sqlite3, sys; db = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True)\n"
        "db.execute('SELECT * FROM runs').fetchall(); print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(filled / "history.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        with pytest.raises(LockHeldError, match="in use"):
            _restore(build, filled, tmp_path / "backup", aside=True)
    assert sorted(path.name for path in filled.iterdir() if path.suffix == ".db") == ["cronpad.db", "history.db"]
    _sql(tmp_path / "backup" / "history.db", "PRAGMA user_version = 99")
    with pytest.raises(StateRefusedError, match="schema 99"):
        _restore(build, filled, tmp_path / "backup", aside=True)
    assert _problems(build, filled) == []


def test_a_restore_that_cannot_be_begun_leaves_the_state(filled: Path, build: Build, tmp_path: Path) -> None:
    """Where what has to be done to the copies fails, nothing was touched, and no copy is left."""
    asyncio.run(build(filled).tools.backup(tmp_path / "backup"))
    before = sorted(path.name for path in filled.iterdir())

    async def fail(url: str) -> None:
        raise StateUnwritableError("no")

    with pytest.raises(StateUnwritableError):
        asyncio.run(build(filled).tools.restore(tmp_path / "backup", aside=True, begin=fail))
    assert sorted(path.name for path in filled.iterdir()) == before


def test_a_damaged_state_can_be_restored_over(filled: Path, build: Build, tmp_path: Path) -> None:
    """Files that SQLite cannot open are nobody's, and are kept as they are."""
    asyncio.run(build(filled).tools.backup(tmp_path / "backup"))
    for name in ("cronpad.db", "history.db", "cronpad-queue.db"):
        (filled / name).write_bytes(b"nonsense" * 2_000)
    done, _ = _restore(build, filled, tmp_path / "backup", aside=True)
    assert [path.read_bytes()[:8] for path in done.aside] == [b"nonsense", b"nonsense"]
    assert _problems(build, filled) == []


def test_the_queue_is_set_aside_with_its_log(filled: Path, build: Build) -> None:
    """Under a free name each time; where there is none, nothing is done."""
    tools = build(filled).tools
    for number in range(2):
        shutil.copy(filled / "cronpad.db", filled / "cronpad-queue.db")
        (filled / "cronpad-queue.db-wal").write_bytes(b"log")
        aside = asyncio.run(tools.set_queue_aside())
        assert aside == filled / ("cronpad-queue.db.aside-1767225600" + ("-1" if number else ""))
        assert aside.with_name(aside.name + "-wal").read_bytes() == b"log"
    assert asyncio.run(tools.set_queue_aside()) is None


# ------------------------------------------------------------------------------------------------------------ degraded


@pytest.mark.parametrize(
    ("version", "may"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 0), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
        ((4, 0, 0), False),
    ],
)
def test_versions_of_sqlite_that_can_lose_a_reset(version: tuple[int, ...], may: bool) -> None:
    """From 3.7.0 on, but for the two lines of back-ports, until it was mended."""
    assert can_lose_a_reset(version) is may


def test_what_is_degraded(filled: Path, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log beyond 64 MB, a library with the mistake, and a disk with less than 64 MB left; else nothing."""
    tools = build(filled).tools
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))
    assert asyncio.run(tools.degraded()) == []
    with (filled / "history.db-wal").open("wb") as log:
        log.truncate((64 << 20) + 1)
    assert asyncio.run(tools.degraded()) == ["wal_large"]
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 2))
    monkeypatch.setattr(tools_module, "LOW_DISK", 1 << 62)
    assert asyncio.run(tools.degraded()) == ["wal_large", "sqlite_wal_reset", "disk_low"]
