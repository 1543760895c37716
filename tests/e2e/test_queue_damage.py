"""The queue file is an index: whatever happens to it, nothing is lost and future fires go on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from books import audit, findings_of_runs, outcomes
from stage import Line, Running, Stage, quick, wait_until


def _all_files(queue: Path) -> list[Path]:
    return [path for path in (queue.with_name(queue.name + suffix) for suffix in ("", "-wal", "-shm")) if path.exists()]


def _delete(queue: Path, _: Path) -> None:
    for path in _all_files(queue):
        path.unlink()


def _delete_alone(queue: Path, _: Path) -> None:
    queue.unlink()


def _empty(queue: Path, _: Path) -> None:
    with queue.open("r+b") as file:
        file.truncate(0)


def _halve(queue: Path, _: Path) -> None:
    with queue.open("r+b") as file:
        file.truncate(queue.stat().st_size // 2 + 17)


def _scramble(queue: Path, _: Path) -> None:
    with queue.open("r+b") as file:
        file.write(b"no database " * (queue.stat().st_size // 12))


def _blank_pages(queue: Path, _: Path) -> None:
    with closing(sqlite3.connect(queue, timeout=10)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # or the log would hide it
    with queue.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(queue.stat().st_size - 4096))


def _blank_one_page(queue: Path, _: Path) -> None:
    with closing(sqlite3.connect(queue, timeout=10)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(page,)] = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'inflight_by_fence'").fetchall()
    with queue.open("r+b") as file:
        file.seek(4096 * (page - 1))
        file.write(bytes(4096))


def _replace_by_older(queue: Path, older: Path) -> None:
    for path in _all_files(queue):
        path.unlink()
    older.replace(queue)


def _overwrite_with_older(queue: Path, older: Path) -> None:
    with queue.open("r+b") as file:
        file.truncate(0)
        file.write(older.read_bytes())


def _swap(queue: Path, older: Path) -> None:
    older.replace(queue)


DAMAGES: dict[str, Callable[[Path, Path], None]] = {
    "deleted": _delete,
    "deleted-alone": _delete_alone,
    "emptied": _empty,
    "halved": _halve,
    "scrambled": _scramble,
    "blanked": _blank_pages,
    "page-blanked": _blank_one_page,
    "replaced": _replace_by_older,
    "swapped": _swap,
    "overwritten": _overwrite_with_older,
}


def _under_way(stage: Stage) -> tuple[Running, Line, Line, Path]:
    """A runner with something in flight and something that waits for its retry, both for as long as there is a file ``hold``.

    With it a copy of the queue as it stood before.
    """
    hold, older = stage.root / "hold", stage.root / "older.db"
    hold.touch()
    fails = f'{stage.line("recovers")}; if test -e {hold} && test "$CRONPAD_ATTEMPT" = 0; then exit 1; fi'
    waits = f"{stage.line('long')}; while test -e {hold}; do sleep 0.05; done"
    stage.declare(
        stage.job("each"),
        stage.job("recovers", command=fails, retry={"max": 1, "base": "1500ms"}),
        stage.job("long", command=waits, overlap="skip"),
    )
    runner = stage.start(env=quick()).active()
    with closing(sqlite3.connect(f"file:{stage.queue}?mode=ro", uri=True)) as there, closing(sqlite3.connect(older)) as copy:
        there.backup(copy)
    [long] = stage.sees("long")
    runner.finished("recovers", run_status="retrying")
    runner.finished("each")
    return runner, long, stage.witness("recovers")[-1], older


def _check(stage: Stage, long: Line, retried: Line, *, crashed: bool) -> None:
    """Lets everything end, and holds the books against the witness."""
    runner = stage.runners[-1]
    runner.finished("each", count=len(runner.attempts("each")) + 2)
    (stage.root / "hold").unlink()
    runner.finished("long", run_id=long.run_id, run_status="succeeded")
    runner.finished("recovers", run_id=retried.run_id, run_status="succeeded", attempt=1)
    wait_until(lambda: stage.rows(stage.history, "SELECT id FROM runs WHERE ended = 0") == [], "all runs end")
    runner.stop()
    assert len([line for line in stage.witness("long") if line.run_id == long.run_id]) == (2 if crashed else 1)
    assert audit(stage) == []
    assert findings_of_runs(stage) == []
    assert outcomes(stage, "each").keys() == outcomes(stage, "recovers").keys() == {"succeeded"}
    assert stage.rows(stage.queue, "SELECT * FROM inflight") == []
    # Each job's next fire is queued, and nothing else.
    jobs = stage.rows(stage.control, "SELECT id || '|' || next_run_at || '|0|' || version || '|s' FROM jobs")
    assert sorted(stage.rows(stage.queue, "SELECT member FROM due")) == sorted(jobs)


@pytest.mark.parametrize("damage", ["deleted", "halved", "scrambled", "replaced", "swapped"])
def test_damage_while_stopped(stage: Stage, damage: str) -> None:
    """After a kill and with a damaged queue the next start loses nothing, and delivers what was in flight once more."""
    runner, long, retried, older = _under_way(stage)
    runner.kill()
    DAMAGES[damage](stage.queue, older)
    stage.start(env=quick()).active()
    stage.sees("long", run_id=long.run_id, runner=1)
    _check(stage, long, retried, crashed=True)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_while_running(stage: Stage, damage: str) -> None:
    """A queue that is damaged under a running runner costs no slot, no retry and no second delivery of what is in flight."""
    runner, long, retried, older = _under_way(stage)
    DAMAGES[damage](stage.queue, older)
    if damage in ("deleted", "deleted-alone", "emptied", "scrambled", "replaced", "swapped"):
        runner.says("queue_rebuilt", within=12)
    _check(stage, long, retried, crashed=False)


def test_a_damaged_queue_is_kept_aside(stage: Stage) -> None:
    """What stood in the place of the queue is moved away under a name that tells when, and said."""
    stage.declare(stage.job("each"))
    stage.start().active().stop()
    stage.queue.write_bytes(b"no database at all " * 1000)
    runner = stage.start().active()
    runner.finished("each")
    assert runner.says("queue_rebuilt")["reason"] == "corrupt"
    [aside] = stage.state.glob("cronpad-queue.db.corrupt-*")
    assert aside.read_bytes().startswith(b"no database at all")
    runner.stop()


def test_odd_entries_are_dropped(stage: Stage) -> None:
    """Entries that no occurrence can be read from are said and dropped, and other jobs do not notice."""
    odd = ["", "x", "job|1|2", "a|b|c|d|e", "|1|0|1|s", "job|1|0|1|z", "\n", "ü|1|-1|1|s", "job|1|0|1|s|"]
    odd += ["job|99999999999999999999|0|1|s", "job|1|99999999999999999999|1|s", "job|1|0|99999999999999999999|s"]
    _add_by_hand(stage, "INSERT INTO due (member, at) VALUES (?, 1)", odd)
    runner = stage.start("-v").active()
    runner.finished("each", count=2)
    left = f"SELECT member FROM due WHERE member IN ({', '.join('?' * len(odd))})"
    wait_until(lambda: stage.rows(stage.queue, left, *odd) == [], "odd entries are dropped")
    assert len(runner.messages("entry_dropped")) >= len(odd)
    _stops_in_order(stage, runner)


@pytest.mark.parametrize("column", ["member", "at"])
def test_entries_that_are_no_text(stage: Stage, column: str) -> None:
    """Bytes that no text or number can be read from, as a flipped bit leaves them, stop no job."""
    wrong = {"member": "CAST(? AS TEXT), 1", "at": "'job|1|0|1|s', CAST(? AS TEXT)"}[column]
    _add_by_hand(stage, f"INSERT INTO due (member, at) VALUES ({wrong})", [b"job_\xff\xfe|1|0|1|s"])
    runner = stage.start(env=quick()).active()
    runner.finished("each", count=2)
    _stops_in_order(stage, runner)


@pytest.mark.parametrize("bit", [4, 279])
def test_a_flipped_bit_costs_no_slot(stage: Stage, bit: int) -> None:
    """The next fire's entry with one bit of its member flipped is dropped, and the fire is put back in time."""
    stage.declare(stage.job("each"))
    stage.start().active().stop()
    [(member,)] = stage.rows(stage.queue, "SELECT member FROM due")
    raw = bytearray(member.encode())
    raw[bit // 8 % len(raw)] ^= 1 << bit % 8
    assert stage.edit(stage.queue, "UPDATE due SET member = CAST(? AS TEXT)", bytes(raw)) == 1
    runner = stage.start(env=quick()).active()
    runner.finished("each", count=2)
    _stops_in_order(stage, runner)


def _add_by_hand(stage: Stage, statement: str, values: Sequence[object]) -> None:
    stage.declare(stage.job("each"))
    stage.start().active().stop()
    for value in values:
        assert stage.edit(stage.queue, statement, value) == 1


def _stops_in_order(stage: Stage, runner: Running) -> None:
    runner.stop()
    assert audit(stage) == []
    assert findings_of_runs(stage) == []
    assert outcomes(stage, "each").keys() == {"succeeded"}
