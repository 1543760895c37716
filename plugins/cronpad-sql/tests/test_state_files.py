"""Control and history: created, refused, migrated, and never replaced silently."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import MetaData

from cronpad_core.api import (
    ConfigurationError,
    NotFoundError,
    StateRefusedError,
    StateUnwritableError,
    StateVanishedError,
    StoreError,
    TermRecord,
)
from cronpad_sql import migrate, places, schema
from cronpad_sql.dialect import create_tables
from cronpad_sql.files import FileKind
from cronpad_sql.places import places_of, type_in
from cronpad_sql.storage import SqliteStorage

Build = Callable[..., SqliteStorage]


def _run(storage: SqliteStorage, *, prepare: bool = True) -> None:
    async def run() -> None:
        try:
            await storage.open()
            if prepare:
                await storage.prepare()
        finally:
            await storage.close()

    asyncio.run(run())


def _sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement).fetchall()


def test_a_new_state_is_private_and_begins_with_the_record_only(tmp_path: Path, build: Build) -> None:
    """Directory 0700, files 0600; ``open`` makes nothing but the record of the holder."""
    directory = tmp_path / "deep" / "state"
    _run(build(directory), prepare=False)
    assert oct(directory.stat().st_mode & 0o777) == "0o700"
    assert sorted(path.name for path in directory.iterdir()) == ["cronpad.db", "history.db"]
    for path in directory.iterdir():
        assert oct(path.stat().st_mode & 0o777) == "0o600"
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("term",)]
            assert db.execute("PRAGMA user_version").fetchone() == (0,)


def _declared(db: sqlite3.Connection) -> dict[str, str]:
    rows = db.execute("SELECT name, sql FROM sqlite_master WHERE name <> 'alembic_version' AND sql IS NOT NULL").fetchall()
    return {name: "".join(sql.replace('"', "").split()) for name, sql in rows}


@pytest.mark.parametrize(("name", "metadata"), [("cronpad.db", schema.control), ("history.db", schema.history)])
def test_migrations_lead_to_the_tables_of_the_schema(state: Path, name: str, metadata: MetaData) -> None:
    """What the migrations made is what ``schema`` declares, table by table and index by index."""
    with closing(sqlite3.connect(state / name)) as migrated, closing(sqlite3.connect(":memory:")) as direct:
        create_tables(direct, metadata, mark=1, version=1)
        assert _declared(migrated) == _declared(direct)


def test_a_newer_schema_is_refused_with_both_numbers(state: Path, build: Build) -> None:
    """A state of a newer cronpad is not touched, and the message names both schema numbers."""
    _sql(state / "history.db", "PRAGMA user_version = 41")
    before = (state / "history.db").read_bytes()
    with pytest.raises(StateRefusedError, match=r"schema 41.* up to 3"):
        _run(build(state))
    assert (state / "history.db").read_bytes() == before


def test_an_older_schema_is_copied_before_it_is_migrated(state: Path, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is complete, private, and named after its schema; the migration sets the new number."""
    monkeypatch.setitem(migrate.HEAD, FileKind.CONTROL, 3)
    done: list[str] = []

    def step(db: sqlite3.Connection, kind: FileKind) -> None:
        done.append(kind.name)
        db.execute("PRAGMA user_version = 3")

    monkeypatch.setattr("cronpad_sql.state_file.migrate", step)
    _run(build(state))
    assert done == ["CONTROL"]
    copy = state / "cronpad.db.v2-1767225600"
    assert oct(copy.stat().st_mode & 0o777) == "0o600"
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert db.execute("SELECT count(*) FROM jobs").fetchone() == (0,)


def test_a_missing_control_is_never_made_anew(state: Path, build: Build) -> None:
    """Beside a history, or a queue alone, a missing control database is refused and nothing is created."""
    (state / "cronpad.db").unlink()
    with pytest.raises(StateRefusedError, match="is missing"):
        _run(build(state))
    assert [path.name for path in state.iterdir()] == ["history.db"]


def test_an_emptied_control_is_damage(state: Path, build: Build) -> None:
    """A control database of no bytes beside a used history is refused, not begun again."""
    os.truncate(state / "cronpad.db", 0)
    with pytest.raises(StateRefusedError, match="empty"):
        _run(build(state))


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: os.truncate(path, 0)])
def test_a_missing_history_is_begun_again_loudly(
    state: Path, build: Build, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None]
) -> None:
    """Control stays, history begins empty, and an error says that the past is gone."""
    harm(state / "history.db")
    _run(build(state))
    assert "the runs of the past are gone" in caplog.text
    _run(build(state))


@pytest.mark.parametrize("name", ["cronpad.db", "history.db"])
def test_damage_and_strangers_are_refused_by_name(state: Path, build: Build, name: str) -> None:
    """Garbage in a file, and a database of somebody else, are refused with the file's name."""
    path = state / name
    path.write_bytes(b"\xa5" * 8192)
    with pytest.raises(StateRefusedError, match=name):
        _run(build(state))
    path.unlink()
    _sql(path, "CREATE TABLE precious (a)")
    before = path.read_bytes()
    with pytest.raises(StateRefusedError, match=name):
        _run(build(state))
    assert path.read_bytes() == before


def test_damage_is_found_after_an_unclean_end(state: Path, build: Build) -> None:
    """Where the log was left behind, the holder checks the file before using it."""
    with closing(sqlite3.connect(state / "history.db", isolation_level=None)) as db:
        db.execute("INSERT INTO specs VALUES (1, 'j', 1, 'h', 's')")
        row = "?1, 'r' || ?1, 'j', ?1, 's', 1, 1, 'running', 0, 1, 1, 1, 1, 1, 1, 1, '', '', '', 0, 0, 0, 0, 'w', '', '', ?1"
        db.executemany(f"INSERT INTO runs VALUES ({row})", [(seq,) for seq in range(2_000)])
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with (state / "history.db").open("r+b") as file:
        for page in range(20, 60):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    shutil.copy(state / "cronpad.db", state / "history.db-wal")  # any log at all: SQLite ignores one that is not its own
    with pytest.raises(StateRefusedError, match=r"history\.db is damaged"):
        _run(build(state))


def test_a_place_that_cannot_be_written_names_path_and_reason(build: Build) -> None:
    """Where nothing can be created the error names the path, and nothing is created elsewhere."""
    with pytest.raises(StateUnwritableError, match="/proc/cronpad"):
        _run(build(Path("/proc/cronpad/state")))


def test_looking_only_creates_nothing(tmp_path: Path, state: Path, build: Build) -> None:
    """``read_only`` finds nothing where nothing is, reads what is there, and refuses to write."""
    with pytest.raises(NotFoundError):
        _run(build(tmp_path / "none", read_only=True))
    assert not (tmp_path / "none").exists()

    async def run() -> None:
        storage = build(state, read_only=True)
        await storage.open()
        assert await storage.catalog.jobs() == []
        assert await storage.history.read_term() == TermRecord()
        assert (await storage.queue.look()).identity is None
        with pytest.raises(StoreError):
            await storage.queue.open()
        with pytest.raises((StoreError, sqlite3.OperationalError)):
            await storage.catalog.swap_term(TermRecord(), TermRecord(term=1))
        await storage.close()

    asyncio.run(run())
    assert not (state / "cronpad-queue.db").exists()


@pytest.mark.parametrize("suffix", ["cronpad.db", "history.db", "history.db-wal", "cronpad.db-shm"])
def test_a_state_that_vanishes_is_noticed(state: Path, build: Build, suffix: str) -> None:
    """``check`` names the file that was deleted while it was open."""

    async def run() -> None:
        storage = build(state)
        await storage.open()
        await storage.prepare()
        await storage.check()
        (state / suffix).unlink()
        with pytest.raises(StateVanishedError, match=suffix):
            await storage.check()
        await storage.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("sqlite:///var/x", ("/var/x/cronpad.db", "/var/x/history.db", "/var/x/cronpad-queue.db")),
        ("sqlite:////var/x/", ("/var/x/cronpad.db", "/var/x/history.db", "/var/x/cronpad-queue.db")),
        ("sqlite:///var/a%20b", ("/var/a b/cronpad.db", "/var/a b/history.db", "/var/a b/cronpad-queue.db")),
        ("sqlite:////var/y.db", ("/var/y.db", "/var/y-history.db", "/var/y-queue.db")),
        ("sqlite:////var/cronpad.db", ("/var/cronpad.db", "/var/history.db", "/var/cronpad-queue.db")),
    ],
)
def test_urls_name_three_files(url: str, names: tuple[str, str, str]) -> None:
    """A directory, or the control database in it."""
    found = places_of(url)
    assert (str(found.control), str(found.history), str(found.queue)) == names


@pytest.mark.parametrize("url", ["sqlite:", "sqlite://x/y", "sqlite:///", "sqlite:///x?y=1", "postgresql:///x", "/var/x"])
def test_other_urls_are_refused(url: str) -> None:
    """Anything else is a configuration error."""
    with pytest.raises(ConfigurationError):
        places_of(url)


def test_network_file_systems_are_refused(tmp_path: Path, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """On NFS a state is refused before anything is created, unless the variable says otherwise."""
    monkeypatch.setattr(places, "file_system_of", lambda path: "nfs4")
    with pytest.raises(StateRefusedError, match="nfs4"):
        _run(build(tmp_path / "state"))
    assert not (tmp_path / "state").exists()
    monkeypatch.setenv(places.ALLOW_NETWORK, "1")
    _run(build(tmp_path / "state"))


def test_the_nearest_mount_counts() -> None:
    """The longest mount point above a path decides, also with escaped names and over-mounted places."""
    mounts = (
        "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
        "30 27 0:50 / /mnt/my\\040share rw shared:3 - fuse.sshfs host: rw\n"
        "31 27 0:51 / /data rw - ext4 /dev/vdb rw\n"
        "32 31 0:52 / /data rw - nfs4 host:/x rw\n"
    )
    assert type_in(mounts, "/home/x", "254:0") == "ext4"
    assert type_in(mounts, "/mnt/my share/state", "0:50") == "fuse.sshfs"
    assert type_in(mounts, "/data/state", "0:52") == "nfs4"
    assert type_in(mounts, "/database", "254:0") == "ext4"
