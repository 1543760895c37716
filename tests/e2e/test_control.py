"""Other processes ask the runner that is active to trigger, pause, cancel, retry, limit, backfill and reload."""

from __future__ import annotations

import json
import time
from typing import Any

from asking import NEVER, called, document, ends, in_order
from stage import Stage, quick, wait_until


def _run(stage: Stage, run_id: str) -> dict[str, Any]:
    return document(stage, "runs", "show", run_id)


# ----------------------------------------------------------------------------------------------------------------- trigger


def test_a_triggered_job_runs_at_once_and_its_code_comes_back(stage: Stage) -> None:
    """Another process triggers a job that is not due for months; with --wait it ends with the command's own code."""
    stage.declare(
        stage.job("good", NEVER),
        stage.job("bad", NEVER, command="exit 7"),
        stage.job("slow", NEVER, command="sleep 60", timeout="300ms", kill_grace="1s"),
        stage.job("long", NEVER, command="sleep 60"),
    )
    runner = stage.start().active()
    run_id = called(stage, "trigger", "good").out.strip()
    [line] = stage.sees("good")
    assert line.run_id == run_id
    assert ends(stage, run_id) == "succeeded"
    shown = _run(stage, run_id)
    assert (shown["trigger"], shown["attempt"], shown["payload"]) == ("manual", 0, None)
    assert called(stage, "trigger", "good", "--wait").out.splitlines()[1] == "succeeded"
    assert called(stage, "trigger", "bad", "--wait", code=7).out.splitlines()[1].startswith("failed")
    assert document(stage, "trigger", "bad", "--wait", code=7)["end"]["exit_code"] == 7
    assert called(stage, "trigger", "slow", "--wait", code=124).out.splitlines()[1].startswith("failed")
    late = called(stage, "trigger", "long", "--wait", "--timeout", "100ms", code=124)
    assert "has not ended yet" in late.err
    assert stage.statuses()[late.out.split()[0]] in ("pending", "running")
    called(stage, "runs", "cancel", "long")
    ends(stage, late.out.split()[0])
    assert stage.next_run("good") == stage.next_run("bad") is not None
    in_order(stage, runner)


def test_a_payload_belongs_to_its_run(stage: Stage) -> None:
    """What a trigger was given is stored with the run, whatever is in it, and a retry has it too; no JSON is refused with 2."""
    stage.declare(stage.job("job", NEVER))
    runner = stage.start().active()
    payload = {"text": "ß \"quoted\" $HOME `id` 'x'\n", "list": [1, 2.5, None, True]}
    run_id = called(stage, "trigger", "job", "--payload", json.dumps(payload)).out.strip()
    assert ends(stage, run_id) == "succeeded"
    assert _run(stage, run_id)["payload"] == payload
    again = document(stage, "runs", "retry", run_id, "--wait")
    assert again["retry_of"] == run_id
    assert _run(stage, again["run_id"])["payload"] == payload
    for wrong in ("{", "NaN", '"' + "x" * 70_000 + '"'):
        assert stage.call("trigger", "job", "--payload", wrong, "--state", stage.state).code == 2
    assert len(stage.statuses()) == 2
    in_order(stage, runner)


def test_a_token_is_one_run(stage: Stage) -> None:
    """Clicked twice is run once, whether a runner is active or not; without a token each call is a run."""
    stage.declare(stage.job("job", NEVER))
    runner = stage.start().active()
    first = called(stage, "trigger", "job", "--token", "monday").out
    assert called(stage, "trigger", "job", "--token", "monday").out == first
    ends(stage, first.strip())
    runner.stop()
    assert called(stage, "trigger", "job", "--token", "monday").out == first
    second = called(stage, "trigger", "job", "--token", "tuesday").out
    assert called(stage, "trigger", "job", "--token", "tuesday").out == second
    third, fourth = (called(stage, "trigger", "job").out for _ in range(2))
    assert set(stage.statuses()) == {one.strip() for one in (first, second, third, fourth)}
    assert len({first, second, third, fourth}) == 4


# ------------------------------------------------------------------------------------------------------- jobs, runs, groups


def test_a_paused_job_has_no_slots_until_it_is_resumed(stage: Stage) -> None:
    """Nothing of a pause is run, missed or caught up with; other jobs go on, and the job may still be triggered."""
    stage.declare(stage.job("paused"), stage.job("other"))
    runner = stage.start(env=quick()).active()
    stage.sees("paused")
    item = document(stage, "jobs", "pause", "paused", "--reason", "the disk is full")
    assert (item["status"], item["paused_reason"], item["next_run_at"]) == ("paused", "the disk is full", None)
    since_ms = time.time() * 1000
    assert "the disk is full" in called(stage, "jobs", "list").out
    runner.finished("other", count=len(runner.attempts("other")) + 3)
    assert max(line.slot_ms for line in stage.witness("paused")) <= since_ms
    assert document(stage, "trigger", "paused", "--wait")["end"]["status"] == "succeeded"
    manual = stage.witness("paused")[-1]
    assert document(stage, "jobs", "resume", "paused")["status"] == "active"
    resumed_ms = time.time() * 1000
    runner.finished("paused", count=len(runner.attempts("paused")) + 2)
    slots = [line.slot_ms for line in stage.witness("paused") if line.run_id != manual.run_id]
    assert [slot for slot in slots if since_ms < slot < resumed_ms - 2000] == []
    in_order(stage, runner)


def test_a_pause_ends_by_itself(stage: Stage) -> None:
    """A pause with an end resumes then; an end that has passed is refused with 2."""
    stage.declare(stage.job("job"))
    runner = stage.start(env=quick()).active()
    stage.sees("job")
    called(stage, "jobs", "pause", "job", "--until", "2000-01-01", code=2)
    called(stage, "jobs", "pause", "job", "--until", "2s")
    until = stage.rows(stage.control, "SELECT paused_until FROM jobs")
    assert until[0][0] is not None
    runs = len(stage.witness("job"))
    stage.sees("job", count=runs + 2)
    assert stage.rows(stage.control, "SELECT status FROM jobs") == [("active",)]
    in_order(stage, runner)


def test_cancel_ends_a_running_command_and_its_children(stage: Stage) -> None:
    """The run ends as cancelled without a retry, nothing of it is left, and the runner goes on."""
    command = f"sleep 600 & {stage.line('begun')}; wait"
    stage.declare(stage.job("long", NEVER, command=command, retry={"max": 3, "base": "100ms"}), stage.job("each"))
    runner = stage.start().active()
    run_id = called(stage, "trigger", "long").out.strip()
    stage.sees("begun", run_id=run_id)
    item = document(stage, "runs", "cancel", run_id, "--reason", "wrong day")
    assert (item["run_id"], item["told"], item["cancel_requested"]) == (run_id, True, True)
    assert ends(stage, run_id) == "cancelled"
    wait_until(lambda: not any("sleep 600" in line for line in stage.leftovers().values()), "its children are gone")
    shown = _run(stage, run_id)
    assert [one["status"] for one in shown["attempts"]] == ["cancelled"]
    again = called(stage, "runs", "cancel", run_id, code=1)
    assert "has ended already: cancelled" in again.err
    runner.finished("each", count=len(runner.attempts("each")) + 1)
    in_order(stage, runner)


def test_a_run_that_waits_for_its_retry_is_cancelled_at_once(stage: Stage) -> None:
    """Between two attempts a run is ended without waiting for the next one, which never comes."""
    stage.declare(stage.job("fails", NEVER, command=f"{stage.line('fails')}; exit 1", retry={"max": 5, "base": "15s"}))
    runner = stage.start().active()
    run_id = called(stage, "trigger", "fails").out.strip()
    runner.finished("fails", run_status="retrying")
    assert document(stage, "runs", "cancel", run_id)["status"] == "cancelled"
    # Its entry comes up all the same, and is dropped.
    wait_until(lambda: stage.rows(stage.queue, "SELECT member FROM due WHERE member LIKE '%|m'") == [], "its entry is gone")
    assert [(line.run_id, line.attempt) for line in stage.witness("fails")] == [(run_id, 0)]
    in_order(stage, runner)


def test_a_failed_run_is_retried_with_the_settings_of_now(stage: Stage) -> None:
    """A retry is a new run of the same slot; one that has not ended cannot be retried."""
    stage.declare(stage.job("job", NEVER, command="exit 4"))
    runner = stage.start().active()
    failed = document(stage, "trigger", "job", "--wait", code=4)["run_id"]
    stage.declare(stage.job("job", NEVER))
    assert called(stage, "reload").out.strip() == "0 added, 1 changed, 0 removed, 0 kept"
    again = document(stage, "runs", "retry", failed, "--wait")
    assert (again["end"]["status"], again["retry_of"]) == ("succeeded", failed)
    assert again["slot_at"] == _run(stage, failed)["slot_at"]
    assert stage.sees("job", run_id=again["run_id"])
    stage.declare(stage.job("job", NEVER, command="sleep 60"))
    called(stage, "reload")
    unfinished = called(stage, "trigger", "job").out.strip()
    assert "has not ended" in called(stage, "runs", "retry", unfinished, code=1).err
    called(stage, "runs", "cancel", unfinished)
    ends(stage, unfinished)
    in_order(stage, runner)


def test_a_suspended_workspace_skips(stage: Stage) -> None:
    """Slots and triggers of its jobs are skipped for that reason, those of others are not; after a resume they run."""
    stage.declare(stage.job("inside", workspace="team"), stage.job("outside"))
    runner = stage.start(env=quick()).active()
    stage.sees("inside")
    item = document(stage, "workspace", "set", "team", "--suspend", "--reason", "unpaid", "--quota", 1000, "--concurrency", 5)
    assert (item["suspended"], item["reason"], item["quota"], item["concurrency"]) == (True, "unpaid", 1000, 5)
    skipped = "SELECT id FROM runs WHERE skip_reason = 'workspace_suspended' AND trigger = 's'"
    wait_until(lambda: len(stage.rows(stage.history, skipped)) >= 2, "slots are skipped")
    end = document(stage, "trigger", "inside", "--wait", code=1)["end"]
    assert (end["status"], end["skip_reason"]) == ("skipped", "workspace_suspended")
    assert "suspended" in called(stage, "workspace", "list").out
    resumed = document(stage, "workspace", "set", "team", "--resume", "--quota", "none", "--concurrency", "none")
    assert (resumed["suspended"], resumed["quota"], resumed["concurrency"]) == (False, None, None)
    count = len(stage.witness("inside"))
    stage.sees("inside", count=count + 2)
    stage.sees("outside", count=len(stage.witness("outside")) + 1)
    shown = document(stage, "workspace", "show", "team")
    assert shown["used"] > resumed["used"]
    assert shown | {"used": 0} == resumed | {"used": 0}
    in_order(stage, runner)


def test_a_backfill_runs_past_slots_in_order(stage: Stage) -> None:
    """Each slot of the range has one backfill run, oldest first, one after another; asked for twice nothing is run twice."""
    stage.declare(stage.job("monthly", "0 0 1 * *"))
    runner = stage.start(env=quick()).active()
    begin, end = "2026-01-15T00:00Z", "2026-06-15T00:00Z"
    planned = document(stage, "backfill", "monthly", "--from", begin, "--to", end, "--dry-run")
    assert (planned["slots"], planned["first_at"]) == (5, "2026-02-01T00:00:00Z")
    assert stage.statuses() == {}
    started = document(stage, "backfill", "monthly", "--from", begin, "--to", end)
    assert started["created"] is True
    query = "SELECT status FROM backfills WHERE id = ?"
    wait_until(lambda: stage.rows(stage.history, query, started["backfill_id"]) == [("finished",)], "the backfill has finished")
    slots = [line.slot_ms for line in stage.witness("monthly")]
    assert slots == sorted(slots) and len(slots) == len(set(slots)) == 5
    called(stage, "backfill", "monthly", "--from", begin, "--to", end)
    listed = "SELECT status, started, passed FROM backfills ORDER BY created_at"
    wait_until(lambda: stage.rows(stage.history, listed) == [("finished", 5, 0), ("finished", 0, 5)], "the second is over")
    assert len(stage.witness("monthly")) == 5
    assert len(json.loads(called(stage, "backfill", "--list", "--json").out)["items"]) == 2
    assert "has ended already" in called(stage, "backfill", "--cancel", started["backfill_id"], code=1).err
    in_order(stage, runner)


def test_reload_says_what_is_wrong(stage: Stage) -> None:
    """Files that are refused are reported to whoever asked, with 2, and nothing changes; mended they count."""
    stage.declare(stage.job("a"))
    runner = stage.start().active()
    stage.declare(stage.job("a"), stage.job("b", "61 * * * *"))
    refused = called(stage, "reload", code=2)
    assert "61 is not in 0-59" in refused.err
    assert stage.rows(stage.control, "SELECT name FROM jobs") == [("a",)]
    stage.declare(stage.job("a"), stage.job("b"))
    assert document(stage, "reload") == {"add": 1, "change": 0, "remove": 0, "keep": 1}
    runner.finished("b")
    in_order(stage, runner)
