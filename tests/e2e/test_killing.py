"""``kill -9``: what was in flight is delivered again, what had ended is not, and no slot is lost."""

from __future__ import annotations

import random
import time

import pytest
from books import audit, findings_of_runs, outcomes
from stage import Stage, quick, wait_until


def test_what_was_in_flight_is_redelivered(stage: Stage) -> None:
    """After kill -9 the next start delivers running jobs again within 5 s, under the same run ids and attempt numbers."""
    flag = stage.root / "flag"
    names = ["a", "b", "c"]
    command = {name: f"{stage.line(name)}; test -e {flag} || exec sleep 600" for name in names}
    stage.declare(*(stage.job(name, command=command[name], overlap="skip") for name in names), stage.job("each"))
    runner = stage.start().active()
    begun = {name: stage.sees(name)[0] for name in names}
    finished = runner.finished("each", count=2)
    runner.kill()
    before = stage.statuses()
    assert {before[line.run_id] for line in begun.values()} == {"running"}

    flag.touch()
    following = stage.start(env=quick())
    started = time.monotonic()
    for name, line in begun.items():
        [again] = stage.sees(name, run_id=line.run_id, runner=following.number, within=5)
        assert (again.slot_ms, again.attempt) == (line.slot_ms, line.attempt)
    assert time.monotonic() - started < 5
    following.finished("each", count=2)
    following.stop()
    assert [run_id for run_id, status in stage.statuses().items() if status == "running"] == []
    assert not {one["run_id"] for one in finished} & {line.run_id for line in stage.witness() if line.runner == following.number}
    assert outcomes(stage, "each").keys() == {"succeeded"}
    assert audit(stage) == []
    assert findings_of_runs(stage) == []


@pytest.mark.parametrize(("delivery", "kills"), [("durable", 8), ("fast", 3)])
def test_a_loop_of_kills_loses_nothing(stage: Stage, delivery: str, kills: int) -> None:
    """Killed again and again at random moments, every slot of every job has run, once but for what was in flight at a kill."""
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    recovers = f'{stage.line("recovers")}; test "$CRONPAD_ATTEMPT" = 1'
    stage.declare(
        *(stage.job(f"each-{number}") for number in range(6)),
        stage.job("slow", "*/2 * * * * *", command=f"{stage.line('slow')}; sleep 0.25"),
        stage.job("recovers", "*/2 * * * * *", command=recovers, retry={"max": 2, "base": "400ms"}),
    )
    env = quick() | {"CRONPAD_DELIVERY": delivery}
    for number in range(kills):
        runner = stage.start(env=env)
        if number % 3 != 2:
            runner.active()
        if number % 3 == 1:
            # A run that was running at five kills is poisoned, as it should be: that is another test.
            wait_until(lambda: _none_was_killed_often(stage), "what was killed before has ended")
        time.sleep(moments.uniform(0.0, 1.2))  # the moment of the kill is what varies here, not a wait for something
        runner.kill()
    last = stage.start(env=env).active()
    last.finished("each-0", count=len(last.attempts("each-0")) + 2)
    wait_until(lambda: _between_slots(stage), "all has caught up")
    last.stop()
    assert audit(stage) == [], f"seed {seed}"
    assert findings_of_runs(stage) == [], f"seed {seed}"
    for name in ["slow", "recovers", *(f"each-{number}" for number in range(6))]:
        assert outcomes(stage, name).keys() == {"succeeded"}, f"seed {seed}"
    assert stage.rows(stage.queue, "SELECT * FROM inflight") == []


def _none_was_killed_often(stage: Stage) -> bool:
    """Whether no run that is open was begun anew more than once."""
    return stage.rows(stage.history, "SELECT count(*) FROM runs WHERE ended = 0 AND redeliveries > 1") == [(0,)]


def _between_slots(stage: Stage) -> bool:
    """Whether nothing is due or under way, a good while before the next slot of the jobs that run every other second."""
    now_ms = time.time() * 1000
    due = stage.rows(stage.control, "SELECT count(*) FROM jobs WHERE next_run_at <= ?", now_ms)
    unfinished = stage.rows(stage.history, "SELECT count(*) FROM runs WHERE ended = 0")
    return due == unfinished == [(0,)] and 1000 < now_ms % 2000 < 1700


def test_a_recorded_run_is_not_repeated(stage: Stage) -> None:
    """An entry whose run was recorded before the kill is acknowledged by the next start, not delivered again (B085)."""
    stage.declare(stage.job("ends"))
    runner = stage.start().active()
    [line, *_] = runner.finished("ends")
    runner.stop()
    # What a kill after the record and before the acknowledgement leaves behind.
    added = stage.edit(
        stage.queue,
        "INSERT INTO inflight (member, at, owner, fence, due_at) VALUES (?, 9e15, 'dead', 4294967297, 0)",
        line["occ"],
    )
    assert added == 1
    following = stage.start().active()
    following.finished("ends", count=2)
    members = "SELECT member FROM inflight UNION SELECT member FROM due"
    wait_until(lambda: (line["occ"],) not in stage.rows(stage.queue, members), "the old entry is acknowledged")
    following.stop()
    assert [one.runner for one in stage.witness() if one.run_id == line["run_id"]] == [runner.number]
    assert audit(stage) == []
    assert findings_of_runs(stage) == []


def test_a_run_that_kills_its_runner_is_poisoned(stage: Stage) -> None:
    """A run that was running at five kills ends as poisoned, and the job goes on."""
    pid = stage.root / "pid"
    # The first run kills whichever runner delivers it; those after it do not.
    first = f'test -e {pid}.run || echo "$CRONPAD_RUN_ID" > {pid}.run'
    kills = f'test "$CRONPAD_RUN_ID" = "$(cat {pid}.run)" && kill -9 $(cat {pid})'
    stage.declare(stage.job("deadly", command=f"{first}; {stage.line('deadly')}; {kills}; exit 0", overlap="skip"))
    for _ in range(6):
        runner = stage.start(env=quick())
        pid.write_text(str(runner.pid), encoding="utf-8")
        if runner.number < 5:
            assert runner.ended() == -9, runner.stderr
    [bad] = {line.run_id for line in stage.witness() if line.runner < 5}
    wait_until(lambda: stage.statuses()[bad] == "poisoned", "the deadly run is given up")
    stage.sees("deadly", runner=5, count=2)
    runner.stop()
    assert {line.run_id for line in stage.witness() if line.runner == 5}.isdisjoint({bad})
    assert audit(stage) == []


def test_once_says_what_is_in_its_way(stage: Stage) -> None:
    """A run that an earlier runner left open fills a cap: nobody would ever end it, so --once ends, and its run with it."""
    cap = {"key": "shared", "max": 1}
    command = f"{stage.line('left')}; exec sleep 600"
    stage.declare(stage.job("left", command=command, concurrency=cap), stage.job("b", "0 0 1 1 *", concurrency=cap))
    runner = stage.start().active()
    stage.sees("left")
    runner.kill()
    done = stage.call("run", stage.file, "--state", stage.state, "--once", "b")
    assert done.code == 1 and "in its way" in done.err, done
    assert stage.witness("b") == []
    assert [status for status in stage.statuses().values() if status == "cancelled"] == ["cancelled"]
