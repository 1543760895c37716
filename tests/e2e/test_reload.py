"""Changed files: all of them valid, or nothing changes; and what changes does so from the next fire on."""

from __future__ import annotations

import json
import signal
import time

import pytest
from books import Books, audit, findings_of_runs, outcomes
from stage import Running, Stage, quick, wait_until


def _reload(runner: Running) -> dict[str, int]:
    """SIGHUP, and waits until it was done; answers the counts of changes."""
    times = len(runner.messages("applied")) + 1
    runner.send(signal.SIGHUP)
    return runner.applied(times)


def _refused(runner: Running) -> str:
    """SIGHUP, and waits until it was refused; answers what was said."""
    times = len(runner.messages("note")) + 1
    runner.send(signal.SIGHUP)
    return str(runner.says("note", times=times)["message"])


def _jobs(stage: Stage) -> dict[str, tuple[str, int, str]]:
    """Id, version and status of the jobs that are not deleted, by name."""
    return {
        job["name"]: (job["id"], job["version"], job["status"])
        for job in Books.of(stage).jobs.values()
        if job["status"] != "deleted"
    }


def _ends_in_order(stage: Stage, runner: Running) -> None:
    runner.stop()
    assert audit(stage) == []
    assert findings_of_runs(stage) == []


def test_a_reload_is_all_or_nothing(stage: Stage) -> None:
    """A bad file changes nothing and its problem is named with file, line and job; a good one is applied (B114)."""
    hold = stage.root / "hold"
    hold.touch()
    waits = f"{stage.line('long')}; while test -e {hold}; do sleep 0.05; done; {stage.line('long-ends')}"
    kept, gone, changed = stage.job("kept"), stage.job("gone"), stage.job("changed")
    long = stage.job("long", command=waits, overlap="skip")
    stage.declare(kept, gone, changed, long)
    runner = stage.start().active()
    before = _jobs(stage)
    [begun] = stage.sees("long")
    for name in ("kept", "gone", "changed"):
        runner.finished(name)

    better = changed | {"command": stage.line("changed-now")}
    stage.declare(kept | {"schedule": "* * * * * 99"}, better, long)
    said = _refused(runner)
    line = next(number for number, text in enumerate(stage.file.read_text("utf-8").splitlines(), 1) if "* 99" in text)
    assert f"{stage.file}:{line}:" in said
    assert '"kept"' in said
    assert _jobs(stage) == before
    for name in ("kept", "gone", "changed"):
        runner.finished(name, count=len(runner.attempts(name)) + 1)
    stage.file.write_text("{", encoding="utf-8")
    assert f"{stage.file}:1:" in _refused(runner)
    assert _jobs(stage) == before

    stage.declare(kept, better, long)
    assert _reload(runner) == {"add": 0, "change": 1, "remove": 1, "keep": 2}
    reloaded_ms = time.time() * 1000
    after = _jobs(stage)
    assert after == {name: was for name, was in before.items() if name != "gone"} | {
        "changed": (before["changed"][0], 2, "active")
    }
    stage.sees("changed-now", count=2)
    runner.finished("kept", count=len(runner.attempts("kept")) + 1)
    hold.unlink()
    stage.sees("long-ends", run_id=begun.run_id)
    _ends_in_order(stage, runner)
    assert stage.statuses()[begun.run_id] == "succeeded"
    for name in ("gone", "changed"):
        assert max(one.slot_ms for one in stage.witness(name)) <= reloaded_ms
    assert outcomes(stage, "kept").keys() == {"succeeded"}


def test_restarts_register_nothing_twice(stage: Stage) -> None:
    """Started and stopped five times, a file of three jobs is three jobs with their history, and one run per slot (B112)."""
    stage.declare(*(stage.job(name) for name in ("a", "b", "c")))
    for number in range(5):
        runner = stage.start().active()
        assert runner.applied(1) == (
            {"add": 3, "change": 0, "remove": 0, "keep": 0} if number == 0 else {"add": 0, "change": 0, "remove": 0, "keep": 3}
        )
        runner.finished("a")
        runner.stop()
    assert [version for _, version, _ in _jobs(stage).values()] == [1, 1, 1]
    assert (
        len(stage.rows(stage.control, "SELECT * FROM jobs")) == len(stage.rows(stage.control, "SELECT * FROM job_versions")) == 3
    )
    slots = [(line.tag, line.slot_ms) for line in stage.witness()]
    assert len(slots) == len(set(slots))
    assert {line.runner for line in stage.witness("a")} == set(range(5))
    assert audit(stage) == []
    assert findings_of_runs(stage) == []


@pytest.mark.parametrize("way", ["reload", "restart"])
@pytest.mark.parametrize("own_id", [True, False])
def test_a_rename(stage: Stage, way: str, own_id: bool) -> None:
    """With an ``id`` a renamed job keeps its history; without, the old job goes and a new one comes. One runs per slot (B111)."""
    more = {"id": "job_of_mine"} if own_id else {}
    stage.declare(stage.job("a", **more))
    runner = stage.start().active()
    runner.finished("a", count=2)
    old_id, _, _ = _jobs(stage)["a"]
    stage.declare(stage.job("b", **more))
    if way == "reload":
        counts = _reload(runner)
    else:
        runner.stop()
        runner = stage.start().active()
        counts = runner.applied(1)
    renamed_ms = time.time() * 1000
    runner.finished("b", count=2)
    _ends_in_order(stage, runner)
    assert list(_jobs(stage)) == ["b"]
    new_id, version, _ = _jobs(stage)["b"]
    assert (new_id == old_id) is own_id
    assert version == (2 if own_id else 1)
    assert counts == {"add": int(not own_id), "change": int(own_id), "remove": int(not own_id), "keep": 0}
    slots = [line.slot_ms for line in stage.witness()]
    assert len(slots) == len(set(slots))
    assert max(line.slot_ms for line in stage.witness("a")) <= renamed_ms
    if own_id:
        assert stage.rows(stage.history, "SELECT DISTINCT job_id FROM runs") == [(old_id,)]


def test_an_edit_while_queued_counts_from_the_next_fire(stage: Stage) -> None:
    """The next fire is always queued already; edited or removed meanwhile, it does not run as it was (B109)."""
    names = ("command", "schedule", "removed")
    other = stage.job("other")
    stage.declare(other, *(stage.job(name, "*/2 * * * * *") for name in names))
    runner = stage.start().active()
    for name in names:
        runner.finished(name)
    # In the second after the slot, the slot to come is in the queue.
    wait_until(lambda: 300 < time.time() * 1000 % 2000 < 1000, "well before the next slot")
    in_hours = (time.gmtime().tm_hour + 2) % 24
    stage.declare(
        other,
        stage.job("command", "*/2 * * * * *", command=stage.line("command-now")),
        stage.job("schedule", f"0 {in_hours} * * *"),
    )
    assert _reload(runner) == {"add": 0, "change": 2, "remove": 1, "keep": 1}
    edited_ms = time.time() * 1000
    stage.sees("command-now", count=2)
    runner.finished("other", count=len(runner.attempts("other")) + 2)
    _ends_in_order(stage, runner)
    for name in names:
        assert max(line.slot_ms for line in stage.witness(name)) <= edited_ms
    slots = sorted(line.slot_ms for line in (*stage.witness("command"), *stage.witness("command-now")))
    assert slots == list(range(slots[0], slots[-1] + 1, 2000))
    assert runner.messages("store_failed") == runner.messages("line_failed") == []


def test_a_run_finishes_with_the_settings_it_began_with(stage: Stage) -> None:
    """A retry after an edit runs the old command, and a running attempt of a removed job finishes under its name."""
    hold = stage.root / "hold"
    hold.touch()
    fails = f'{stage.line("old")}; test "$CRONPAD_ATTEMPT" = 1'
    waits = f"{stage.line('removed')}; while test -e {hold}; do sleep 0.05; done"
    edited = stage.job("edited", command=fails, retry={"max": 1, "base": "1500ms"}, overlap="skip")
    stage.declare(edited, stage.job("removed", command=waits, overlap="skip"), stage.job("each"))
    runner = stage.start().active()
    runner.finished("edited", run_status="retrying")
    [removed] = stage.sees("removed")
    stage.declare(edited | {"command": stage.line("new")}, stage.job("each"))
    _reload(runner)
    begun = {line.run_id for line in stage.witness("old") if line.attempt == 0}
    stage.sees("new")
    for run_id in begun:
        runner.finished("edited", run_id=run_id, attempt=1, run_status="succeeded")
    hold.unlink()
    runner.finished("removed", run_id=removed.run_id, run_status="succeeded")
    assert begun.isdisjoint(line.run_id for line in stage.witness("new"))
    wait_until(lambda: stage.rows(stage.history, "SELECT id FROM runs WHERE ended = 0") == [], "nothing is left of the old jobs")
    _ends_in_order(stage, runner)


def test_a_waiting_retry_of_a_removed_job_is_cancelled(stage: Stage) -> None:
    """The run ends as cancelled when its retry comes up, and nothing runs."""
    fails = stage.job("fails", command=f"{stage.line('fails')}; exit 1", retry={"max": 1, "base": "1500ms"}, overlap="skip")
    stage.declare(fails, stage.job("each"))
    runner = stage.start().active()
    runner.finished("fails", run_status="retrying")
    stage.declare(stage.job("each"))
    _reload(runner)
    waiting = {line.run_id for line in stage.witness("fails")}
    wait_until(lambda: stage.rows(stage.history, "SELECT id FROM runs WHERE ended = 0") == [], "the runs have ended")
    _ends_in_order(stage, runner)
    statuses = stage.statuses()
    assert {statuses[run_id] for run_id in waiting} == {"cancelled"}
    assert {line.attempt for line in stage.witness("fails")} == {0}


def test_a_job_that_comes_back_goes_on_with_its_history(stage: Stage) -> None:
    """Removed and added again a job has its id and a higher version; nothing is caught up, and nothing counted twice."""
    stage.declare(stage.job("returns"), stage.job("each"))
    runner = stage.start(env=quick()).active()
    runner.finished("returns")
    was = _jobs(stage)["returns"]
    stage.declare(stage.job("each"))
    _reload(runner)
    gone = len(stage.witness("returns"))
    runner.finished("each", count=len(runner.attempts("each")) + 2)
    assert len(stage.witness("returns")) == gone
    stage.declare(stage.job("returns"), stage.job("each"))
    _reload(runner)
    runner.finished("returns", count=gone + 2)
    _ends_in_order(stage, runner)
    job_id, version, status = _jobs(stage)["returns"]
    assert (job_id, version, status) == (was[0], 2, "active")


def test_a_standby_reads_its_files_when_it_takes_over(stage: Stage) -> None:
    """SIGHUP to a standby changes nothing in the state; what it read counts from its taking over on."""
    stage.declare(stage.job("a"))
    first = stage.start(env=quick()).active()
    second = stage.start(env=quick()).standing_by()
    stage.declare(stage.job("a"), stage.job("b"))
    second.send(signal.SIGHUP)
    first.finished("a", count=2)
    assert list(_jobs(stage)) == ["a"]
    first.kill()
    second.active()
    assert second.applied(1) == {"add": 1, "change": 0, "remove": 0, "keep": 1}
    second.finished("b")
    _ends_in_order(stage, second)


def test_jobs_of_another_file_are_left_alone(stage: Stage) -> None:
    """A runner of another file on the same state removes nothing of the first one's jobs, and runs them."""
    other = stage.root / "other.json"
    stage.declare(stage.job("a"))
    stage.start().active().stop()
    stage.declare(stage.job("b"), file=other)
    runner = stage.start(file=other).active()
    assert runner.applied(1) == {"add": 1, "change": 0, "remove": 0, "keep": 0}
    runner.finished("a")
    runner.finished("b")
    _ends_in_order(stage, runner)
    assert json.loads(other.read_text("utf-8"))["jobs"][0]["name"] == "b"
    assert set(_jobs(stage)) == {"a", "b"}
