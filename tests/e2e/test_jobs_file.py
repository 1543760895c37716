"""The runner's JSON as people have it: listed, checked, run once, run."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from stage import Stage, wait_until

ONE_LINE = (
    '{"jobs":[{"name":"hi","schedule":"* * * * *","command":"sh -c \'date -u +%FT%TZ\'",'
    '"timeout_ms":5000,"max_retries":1,"jitter_ms":2000}]}'
)
ATTEMPT_KEYS = {
    "time": str,
    "event": str,
    "job": str,
    "job_id": str,
    "run_id": str,
    "occ": str,
    "attempt": int,
    "workspace_id": str,
    "trigger": str,
    "scheduled_at": str,
    "status": str,
    "run_status": str,
    "exit_code": int,
    "reason": str,
    "duration_ms": int,
    "lag_ms": int,
    "stdout_bytes": int,
    "stderr_bytes": int,
    "retry_at": type(None),
}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def test_the_one_line_file_runs_each_minute(stage: Stage) -> None:
    """Plain, the one-line JSON file runs on its minute, within its jitter, and prints one JSON line per attempt."""
    stage.file.write_text(ONE_LINE, encoding="utf-8")
    runner = stage.start().active()
    [line] = runner.finished("hi", within=80)
    assert {key: type(value) for key, value in line.items()} == ATTEMPT_KEYS
    assert (line["event"], line["job"], line["attempt"], line["trigger"]) == ("attempt", "hi", 0, "scheduled")
    assert (line["status"], line["run_status"], line["exit_code"]) == ("delivered", "succeeded", 0)
    assert INSTANT.fullmatch(line["time"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:00Z", line["scheduled_at"])
    assert line["stdout_bytes"] == len("2026-01-01T00:00:00Z\n")
    runner.stop()
    assert runner.stdout.count("\n") == 1


def test_the_one_line_file_is_listed_and_checked(stage: Stage) -> None:
    """``--list`` prints name, schedule and next fire, ``--dry-run`` the next fires; neither makes a state."""
    stage.file.write_text(ONE_LINE, encoding="utf-8")
    listed = stage.call("run", stage.file, "--list")
    assert (listed.code, listed.err) == (0, "")
    assert re.search(r"^hi +\* \* \* \* \* +\d{4}-\d\d-\d\dT\d\d:\d\d:00\+00:00$", listed.out, re.MULTILINE)
    dry = stage.call("run", stage.file, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert len(re.findall(r"T\d\d:\d\d:00\+00:00$", dry.out, re.MULTILINE)) == 5
    assert [path.name for path in stage.root.iterdir()] == ["jobs.json"]


def test_the_one_line_file_runs_once(stage: Stage) -> None:
    """``--once hi`` runs the job now, prints its line, ends with the child's exit code and keeps no state."""
    stage.file.write_text(ONE_LINE, encoding="utf-8")
    once = stage.call("run", stage.file, "--once", "hi")
    assert (once.code, once.err) == (0, "")
    [line] = once.out.splitlines()
    document = json.loads(line)
    assert {key: type(value) for key, value in document.items()} == ATTEMPT_KEYS
    assert (document["trigger"], document["run_status"]) == ("manual", "succeeded")
    assert [path.name for path in stage.root.iterdir()] == ["jobs.json"]


ENDS = {
    "fine": ("exit 0", 0, "delivered"),
    "three": ("exit 3", 3, "failed"),
    "killed": ("kill -9 $$", 137, "failed"),
    "termed": ("kill -TERM $$", 143, "failed"),
    "missing": ("no_such_command_xyz", 127, "failed"),
    "directory": ("/tmp", 126, "failed"),
    "shell-told": ("sh -c 'kill -9 $$'; exit $?", 137, "failed"),
    "slow": ("sleep 600", 124, "timed_out"),
    "wrapped": ("exit 256", 0, "delivered"),
    "loud": ("echo warning >&2; exit 0", 0, "delivered"),
    "reads": ("read x; test $? = 1", 0, "delivered"),
}


def test_once_ends_with_the_childs_code(stage: Stage) -> None:
    """``--once`` ends with the child's exit code, 128 and the number for a signal, 124 for a time-out (B098, B099, B101)."""
    jobs = [{"name": name, "schedule": "* * * * *", "command": end[0], "timeout_ms": 400} for name, end in ENDS.items()]
    stage.file.write_text(json.dumps({"jobs": jobs}), encoding="utf-8")
    with ThreadPoolExecutor(3) as pool:
        calls = dict(zip(ENDS, pool.map(lambda name: stage.call("run", stage.file, "--once", name), ENDS), strict=True))
    found = {name: (call.code, json.loads(call.out)["status"]) for name, call in calls.items()}
    assert found == {name: (code, status) for name, (_, code, status) in ENDS.items()}, calls


@pytest.mark.parametrize("most", [0, 1, 3])
def test_retries_come_after_the_first_try(stage: Stage, most: int) -> None:
    """``max_retries`` of 0, 1 and 3 give 1, 2 and 4 executions with the attempt numbers 0..n, all for one slot (B083)."""
    job = {"name": "fails", "schedule": "* * * * *", "command": stage.line("tried") + "; exit 7", "max_retries": most}
    stage.file.write_text(json.dumps({"jobs": [job]}), encoding="utf-8")
    once = stage.call("run", stage.file, "--once", "fails", "--state", stage.state)
    assert once.code == 7, once.err
    lines = stage.witness("tried")
    assert [line.attempt for line in lines] == list(range(most + 1))
    assert len({(line.run_id, line.slot_ms) for line in lines}) == 1
    documents = [json.loads(line) for line in once.out.splitlines()]
    assert [one["run_status"] for one in documents] == ["retrying"] * most + ["failed"]
    assert list(stage.statuses().values()) == ["failed"]


def test_there_is_no_such_job(stage: Stage) -> None:
    """``--once`` with a name that is not in the file ends with 4 and names the jobs that there are."""
    stage.file.write_text(ONE_LINE, encoding="utf-8")
    once = stage.call("run", stage.file, "--once", "ho")
    assert once.code == 4
    assert "hi" in once.err
    assert [path.name for path in stage.root.iterdir()] == ["jobs.json"]


def test_completed_jobs_are_listed(stage: Stage) -> None:
    """A spent one-shot is listed with no next fire, and leaves the others alone (B116)."""
    stage.declare(stage.job("spent", "at 2001-01-01T00:00:00"), stage.job("goes on"))
    listed = stage.call("run", stage.file, "--list", "--json")
    assert listed.code == 0, listed.err
    fires = {one["name"]: one["next"] for one in json.loads(listed.out)["items"]}
    assert fires["spent"] is None
    assert fires["goes on"] is not None


def test_it_ends_when_nothing_is_left_to_do(stage: Stage) -> None:
    """``--exit-when-idle`` ends with 0 once no job has a further fire and nothing runs; without state, none is left."""
    stage.declare(stage.job("spent", "at 2001-01-01T00:00:00"))
    done = stage.call("run", stage.file, "--exit-when-idle", "--state", ":memory:")
    assert done.code == 0, done.err
    assert [path.name for path in stage.root.iterdir()] == ["jobs.json"]


def test_once_begins_nothing_else_of_a_state(stage: Stage) -> None:
    """On a given state ``--once`` runs its job alone: what else is due there waits for a runner."""
    stage.declare(stage.job("each"), stage.job("asked", "0 0 1 1 *"))
    runner = stage.start().active()
    stage.sees("each")
    runner.stop()
    waiting = stage.next_run("each")
    assert waiting is not None
    wait_until(lambda: time.time() * 1000 > waiting + 1_000, "another slot is due")
    before = len(stage.witness())
    once = stage.call("run", stage.file, "--once", "asked", "--state", stage.state)
    assert once.code == 0, once.err
    assert [line.tag for line in stage.witness()][before:] == ["asked"]
    assert stage.next_run("each") == waiting
