"""Downtime: what was missed while nothing ran is decided by the policy, counted, and never lost from the books."""

from __future__ import annotations

import shutil
import time

import pytest
from books import Books, audit, findings_of_runs, outcomes
from stage import Stage, quick, wait_until

TEN_MINUTES = 600_000


def _stopped_for(stage: Stage, away_ms: int) -> None:
    """Makes a stopped state look as if it had been stopped that much earlier, and its jobs were new then."""
    stage.edit(stage.control, "UPDATE jobs SET next_run_at = next_run_at - ?", away_ms)
    stage.edit(stage.control, "UPDATE jobs SET valid_from = next_run_at - 1")
    job = "SELECT valid_from FROM jobs WHERE jobs.id = job_id"
    assert stage.edit(stage.control, f"UPDATE job_versions SET valid_from = ({job})") >= 1
    stage.edit(stage.queue, "DELETE FROM due")


def test_ten_minutes_of_downtime(stage: Stage) -> None:
    """Ten minutes away give one run per job under ``latest``, none under ``skip``, and ledger rows for all the rest."""
    schedules = {"latest": "* * * * * *", "latest-slow": "*/10 * * * * *", "skip": "* * * * * *", "earliest": "* * * * * *"}
    stage.declare(*(stage.job(name, text, misfire=name.removesuffix("-slow")) for name, text in schedules.items()))
    stage.start().active().stop()
    _stopped_for(stage, TEN_MINUTES)
    down_ms = {name: stage.next_run(name) for name in schedules}
    runner = stage.start().active()
    decided = {name: runner.says("missed", job=name) for name in schedules}
    for name in ("latest", "skip", "earliest"):
        runner.finished(name, count=3)
    stage.sees("latest-slow")
    runner.stop()

    assert audit(stage) == []
    assert findings_of_runs(stage) == []
    for name in schedules:
        slots = sorted(line.slot_ms for line in stage.witness(name) if line.runner == runner.number)
        step_ms = 10_000 if name == "latest-slow" else 1_000
        # What ran first under latest is the newest of the missed slots, under skip the one after it, under earliest the oldest.
        begin, end = (slots[0] + step_ms, slots[1]) if name == "earliest" else (down_ms[name], slots[0])
        ran_before = [line for line in stage.witness(name) if begin <= line.slot_ms < end]
        assert outcomes(stage, name)["missed"] == (end - begin) // step_ms - len(ran_before)
        assert decided[name]["missed"] >= TEN_MINUTES // step_ms - 1
        assert decided[name]["chosen"] == (0 if name == "skip" else 1)
    assert min(line.slot_ms for line in stage.witness("earliest")) == down_ms["earliest"]


def test_a_short_absence_is_caught_up(stage: Stage) -> None:
    """Slots that are not older than their grace all run, in order, after a restart."""
    stage.declare(stage.job("each"))
    stage.start().active().stop()
    _stopped_for(stage, 20_000)
    down_ms = stage.next_run("each")
    runner = stage.start().active()
    runner.finished("each", count=22)
    runner.stop()
    slots = {line.slot_ms for line in stage.witness("each")}
    assert sorted(slots)[:22] == [down_ms + second * 1000 for second in range(22)]
    assert outcomes(stage, "each").keys() == {"succeeded"}
    assert audit(stage) == []


def test_a_new_job_has_missed_nothing(stage: Stage) -> None:
    """A first start runs no job before its next slot (B065)."""
    in_hours = (time.gmtime().tm_hour + 2) % 24
    stage.declare(stage.job("later", f"0 {in_hours} * * *"), stage.job("each"))
    runner = stage.start().active()
    started_ms = time.time() * 1000
    runner.finished("each", count=2)
    runner.stop()
    assert stage.witness("later") == []
    assert outcomes(stage, "later") == {}
    assert min(line.slot_ms for line in stage.witness("each")) > started_ms - 1000
    assert stage.next_run("later") % 86_400_000 == in_hours * 3_600_000


def test_a_spent_one_shot_blocks_nobody(stage: Stage) -> None:
    """One-shots run once and are completed, those in the past at once; they leave the queue, and others go on (B064)."""

    def at(seconds: float) -> str:
        return time.strftime("at %Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + seconds))

    each = stage.job("each")
    stage.declare(each, stage.job("past", at(-86_400)))
    runner = stage.start(env=quick()).active()
    soon = stage.job("soon", at(3))
    stage.declare(each, stage.job("past", at(-86_400)), soon, stage.job("other past", at(-5)))
    runner.process.send_signal(1)
    assert runner.applied(2)["add"] == 2
    runner.finished("soon")
    runner.finished("each", count=len(runner.attempts("each")) + 2)
    statuses = dict(stage.rows(stage.control, "SELECT name, status FROM jobs"))
    assert statuses == {"each": "active", "past": "completed", "soon": "completed", "other past": "completed"}
    assert {job["next_run_at"] for job in Books.of(stage).jobs.values() if job["status"] == "completed"} == {None}
    entries = stage.rows(stage.queue, "SELECT member FROM due UNION SELECT member FROM inflight")
    wait_until(lambda: len(stage.rows(stage.queue, "SELECT member FROM due")) <= 1, "spent jobs have left the queue")
    assert len(entries) <= 2
    runner.stop()
    again = stage.start(env=quick()).active()
    again.finished("each")
    again.stop()
    assert len(stage.witness("soon")) == 1
    assert stage.witness("past") == stage.witness("other past") == []
    assert audit(stage) == []


@pytest.mark.parametrize("away_s", [0, 900])
def test_control_restored_from_an_older_copy(stage: Stage, away_s: int) -> None:
    """With control as it was a while ago no finished run is repeated, and every slot still has one outcome."""
    stage.declare(stage.job("each"), stage.job("long", command=f"{stage.line('long')}; sleep 1.2", overlap="skip"))
    first = stage.start(env=quick()).active()
    first.finished("each", count=1)
    first.stop()
    older = stage.root / "older.db"
    shutil.copy(stage.control, older)
    second = stage.start(env=quick()).active()
    second.finished("each", count=4)
    second.stop()
    before = stage.statuses()
    [(term,)] = stage.rows(stage.history, "SELECT term FROM term")
    shutil.copy(older, stage.control)
    if away_s:
        _shift_everything(stage, away_s * 1000)
        before = stage.statuses()
    third = stage.start(env=quick()).active()
    third.finished("each", count=2)
    third.stop()
    assert stage.rows(stage.control, "SELECT term FROM term")[0][0] > term
    assert before.items() <= stage.statuses().items()
    assert {line.run_id for line in stage.witness() if line.runner == third.number}.isdisjoint(before)
    assert audit(stage) == []


def _shift_everything(stage: Stage, away_ms: int) -> None:
    """Makes the whole stopped state older, its runs included."""
    stage.edit(stage.control, "UPDATE jobs SET next_run_at = next_run_at - ?1, valid_from = valid_from - ?1", away_ms)
    stage.edit(stage.control, "UPDATE job_versions SET valid_from = valid_from - ?", away_ms)
    times = "scheduled_at = scheduled_at - ?1, slot_at = slot_at - ?1, created_at = created_at - ?1"
    stage.edit(stage.history, f"UPDATE runs SET {times}, opened_at = opened_at - ?1, finished_at = finished_at - ?1", away_ms)
    stage.edit(stage.queue, "DELETE FROM due")
