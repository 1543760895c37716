"""Copies of control and history: taken from a state at work, and put in the place of one at rest.

A copy is made under another name, read again, synced, and only then given its own; it has no log beside it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from cronpad_core.api import (
    ConfigurationError,
    LockHeldError,
    NotFoundError,
    Restored,
    StateRefusedError,
    StateUnwritableError,
    StoreBusyError,
)
from cronpad_sql.connections import connect_read
from cronpad_sql.faults import is_busy, is_damage
from cronpad_sql.files import FileKind, create_empty, exists, refused_mark, unwritable, versions_of
from cronpad_sql.migrate import HEAD
from cronpad_sql.places import Places, places_of, refuse_network

__all__ = ["backup", "move_aside", "put_in_place"]

_BUSY_MS = 5_000
_COMPANIONS = ("-wal", "-shm")
_STAGE = ".restore-"


def backup(places: Places, target: Path) -> list[Path]:
    """Control first: what history has beyond it is then of slots that control stands before, and they are found to have run."""
    if not exists(places.control) and not exists(places.history):
        raise NotFoundError(f"there is no state in {places.directory}", hint="name its directory with --state DIR")
    names = _places_in(target)
    taken = [one for one in (names.control, names.history, names.queue) if exists(one)]
    if taken:
        raise ConfigurationError(
            f"{taken[0]} is there already; a backup is never written over another",
            hint="name a new directory, such as one by date",
        )
    halves = {path: path.with_name(f".{path.name}.part-{os.getpid()}") for path in (names.control, names.history)}
    made = not target.exists()
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        _copy(places.control, halves[names.control], FileKind.CONTROL)
        _copy(places.history, halves[names.history], FileKind.HISTORY)
        for path in (names.history, names.control):  # control last: where it is, the backup is whole
            os.replace(halves[path], path)
        _sync(target)
        if made:
            _sync(target.parent)
    except OSError as error:
        raise unwritable(target, error) from error
    finally:
        for half in halves.values():
            _remove(half)
    return [names.control, names.history]


def _copy_in(places: Places, source: Path, *, aside: bool) -> Path:
    """Copies a backup into a directory beside its future place, marked as held by nobody; answers that directory."""
    given = _places_in(source)
    missing = [path for path in (given.control, given.history) if not exists(path)]
    if missing:
        raise NotFoundError(f"{missing[0]} is missing: {source} is no backup of a state", hint="name what 'db backup' wrote")
    refuse_network(places.directory)
    _require_room(places, aside=aside)
    stage = places.directory / f"{_STAGE}{os.getpid()}"
    try:
        places.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in places.directory.glob(f"{_STAGE}*"):
            if left == stage or not Path("/proc", left.name.removeprefix(_STAGE)).exists():
                shutil.rmtree(left, ignore_errors=True)
        stage.mkdir(mode=0o700)
        for path, kind, name in (
            (given.control, FileKind.CONTROL, places.control.name),
            (given.history, FileKind.HISTORY, places.history.name),
        ):
            _copy(path, stage / name, kind, newest=HEAD[kind])
            with closing(sqlite3.connect(stage / name, isolation_level=None)) as db:
                db.execute("UPDATE term SET released = 1")
    except OSError as error:
        shutil.rmtree(stage, ignore_errors=True)
        raise unwritable(places.directory, error) from error
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    return stage


async def put_in_place(
    places: Places, source: Path, *, aside: bool, wall_ms: int, begin: Callable[[str], Awaitable[None]]
) -> Restored:
    """See ``StorageTools.restore``. The steps that touch the state are a few renames at the very end."""
    stage = _copy_in(places, source, aside=aside)
    try:
        await begin(f"sqlite://{quote(str((stage / places.control.name).absolute()))}")
        for path in (places.control, places.history):
            _fold(stage / path.name, places.directory)
        return _swap(places, stage, aside=aside, mark=f".before-restore-{wall_ms // 1000}")
    except (sqlite3.Error, OSError) as error:
        raise unwritable(places.directory, error) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _swap(places: Places, stage: Path, *, aside: bool, mark: str) -> Restored:
    """Never is there a moment with none of the files: a runner that starts meanwhile would begin a new state.

    Control goes first and comes last, and nothing starts on a history without it.
    """
    kept: list[Path] = []
    with _alone(places):
        _require_room(places, aside=aside)
        try:
            if exists(places.control):
                kept.append(_move(places.control, _free_name(places.control, mark)))
            if exists(places.history):
                old = _free_name(places.history, mark)
                os.link(places.history, old)
                _move_companions(places.history, old)
                kept.append(old)
            os.replace(stage / places.history.name, places.history)
            _remove(places.queue)
        except OSError as error:
            raise unwritable(places.directory, error) from error
    try:
        for suffix in _COMPANIONS:  # what closing the old control may have left: a log of another file
            for path in (places.control, places.history):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        os.replace(stage / places.control.name, places.control)
        _sync(places.directory)
    except OSError as error:
        raise unwritable(places.directory, error) from error
    return Restored(files=(places.control, places.history), aside=tuple(kept))


@contextmanager
def _alone(places: Places) -> Iterator[None]:
    """Holds every file so that no other process has it open or can open it; a damaged one is nobody's."""
    held: list[sqlite3.Connection] = []
    try:
        for path in (places.control, places.history, places.queue):
            if not exists(path):
                continue
            db = sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, isolation_level=None, timeout=0)
            held.append(db)
            try:
                # In this mode the file itself is locked, which every connection of others to it prevents, stopped ones included.
                db.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
                db.execute("BEGIN EXCLUSIVE")
                db.execute("COMMIT")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error as error:
                if is_busy(error):
                    raise LockHeldError(
                        f"{path} is in use by another process", hint="stop every cronpad on this state, standbys included"
                    ) from error
                if not is_damage(error):
                    raise unwritable(path, error) from error
        yield
    finally:
        for db in held:
            with suppress(sqlite3.Error):
                db.close()


def _require_room(places: Places, *, aside: bool) -> None:
    there = [path for path in (places.control, places.history) if exists(path)]
    if there and not aside:
        raise StateRefusedError(
            f"{there[0]} is there; a restore would take its place", hint="with --force it is kept under another name"
        )


def _places_in(directory: Path) -> Places:
    """Where the files of a backup are: under the names that a state directory has, so that it can be looked at as one."""
    return places_of(f"sqlite://{quote(str(directory.absolute()))}")


def _copy(source: Path, target: Path, kind: FileKind, *, newest: int | None = None) -> None:
    """One file as it is at one moment, in one piece and without a log, read again and on disk."""
    if not exists(source):
        raise StateRefusedError(f"{source} is missing", hint="restore the state from a backup")
    _remove(target)
    create_empty(target)
    try:
        with closing(connect_read(source, _BUSY_MS)) as db, closing(sqlite3.connect(target, isolation_level=None)) as copy:
            mark, version, _ = versions_of(db)
            if mark != kind.value:
                raise refused_mark(source, kind)
            if newest is not None and version > newest:
                raise StateRefusedError(
                    f"{source} has schema {version}; this cronpad knows schemas up to {newest}",
                    hint="install the cronpad that wrote it",
                )
            db.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()
            said = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        if said != "ok":
            raise _damaged(source, said)
    except sqlite3.Error as error:
        _remove(target)
        raise _refusal(error, source, target) from error
    except BaseException:
        _remove(target)
        raise
    _sync(target)


def _refusal(error: sqlite3.Error, source: Path, target: Path) -> Exception:
    if is_damage(error):
        return _damaged(source, str(error))
    if is_busy(error):
        return StoreBusyError(f"{source}: {error}")
    return StateUnwritableError(f"{source} could not be copied to {target.parent}: {error}")


def _damaged(source: Path, said: str) -> StateRefusedError:
    return StateRefusedError(f"{source} is damaged: {said}", hint="'cronpad db check' says more")


def _fold(path: Path, directory: Path) -> None:
    """Leaves everything in the file itself, and the file on disk, as the directory's owner's."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
    if os.geteuid() == 0:  # a runner under a user of its own could not write what root has restored
        owner = os.stat(directory)
        os.chown(path, owner.st_uid, owner.st_gid)
    _sync(path)


def _free_name(path: Path, mark: str) -> Path:
    found, count = path.with_name(path.name + mark), 0
    while os.path.lexists(found):
        count += 1
        found = path.with_name(f"{path.name}{mark}-{count}")
    return found


def _move(path: Path, target: Path) -> Path:
    """Renames a database and what belongs to it."""
    os.rename(path, target)
    _move_companions(path, target)
    return target


def _move_companions(path: Path, target: Path) -> None:
    """The log goes with its file; an empty one, and shared memory, are worth nothing to a file at rest."""
    for suffix in _COMPANIONS:
        companion = path.with_name(path.name + suffix)
        with suppress(FileNotFoundError):
            if suffix == "-wal" and companion.stat().st_size > 0:
                os.rename(companion, target.with_name(target.name + suffix))
            else:
                companion.unlink()


def move_aside(path: Path, mark: str) -> Path | None:
    """Renames a database and what belongs to it to a free name; ``None`` where there is none."""
    if not exists(path):
        return None
    try:
        return _move(path, _free_name(path, mark))
    except OSError as error:
        raise unwritable(path, error) from error


def _remove(path: Path) -> None:
    for suffix in ("", *_COMPANIONS, "-journal"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
