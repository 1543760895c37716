"""``cronpad audit`` and ``cronpad why`` over what real runners did: clean after downtime, and not after tampering."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import books
from stage import Stage, quick

AWAY_MS = 600_000
POLICIES = ("latest", "earliest", "all", "skip")


def test_audit_over_a_killed_runner_and_downtime(stage: Stage) -> None:
    """A kill and ten minutes away under each policy leave sound books, also while a runner is active; a lost row is found."""
    stage.declare(
        *(stage.job(name, misfire={"policy": name, "max": 20} if name == "all" else name) for name in POLICIES),
        stage.job("failing", command="false", retry={"max": 1, "base": "200ms"}),
    )
    runner = stage.start(env=quick()).active()
    runner.finished("latest", count=2)
    runner.finished("failing", count=2)
    runner.kill()
    stage.edit(stage.control, "UPDATE jobs SET next_run_at = next_run_at - ?", AWAY_MS)
    stage.edit(stage.control, "UPDATE jobs SET valid_from = next_run_at - 1")
    stage.edit(stage.control, "UPDATE job_versions SET valid_from = (SELECT valid_from FROM jobs WHERE jobs.id = job_id)")
    stage.edit(stage.queue, "DELETE FROM due")
    stage.edit(stage.queue, "DELETE FROM inflight")

    stopped = stage.call("audit", "--json", "--state", stage.state, env=quick())
    assert stopped.code == 1
    assert {one["what"] for one in json.loads(stopped.out)["items"]} == {"undecided"}

    runner = stage.start(env=quick()).active()
    for name in POLICIES:
        runner.says("missed", job=name)
    runner.finished("all", count=22)
    running = stage.call("audit", "--state", stage.state, env=quick())
    assert (running.code, "0 findings" in running.out) == (0, True), running
    runner.stop()
    assert books.audit(stage) == []
    clean = json.loads(stage.call("audit", "--json", "--state", stage.state, env=quick()).out)
    assert (clean["findings"], clean["jobs"]) == (0, len(POLICIES) + 1)
    assert clean["slots"] + clean["open"] >= clean["jobs"] * AWAY_MS // 1000

    ((missed_ms,),) = stage.rows(
        stage.history,
        "SELECT first_at FROM ranges JOIN specs USING (job_id) WHERE spec LIKE '%\"skip\"%' ORDER BY first_at LIMIT 1",
    )
    missed = json.loads(stage.call("why", "skip", "--at", _time(missed_ms), "--json", "--state", stage.state).out)["items"][0]
    assert missed["verdict"] == "missed"
    told = stage.call("why", "latest", "--state", stage.state)
    assert (told.code, told.out.startswith("latest  20"), "- Version 1 of the job covers it: " in told.out) == (0, True, True)
    assert stage.call("why", "nothing", "--state", stage.state).code == 4

    stage.edit(stage.history, "DELETE FROM ranges WHERE first_at = ? AND slots > 100", missed_ms)
    found = stage.call("audit", "--state", stage.state, env=quick())
    assert (found.code, "no outcome" in found.out) == (1, True), found
    lost = json.loads(stage.call("why", "skip", "--at", _time(missed_ms), "--json", "--state", stage.state).out)["items"][0]
    assert lost["verdict"] == "lost"


def _time(instant_ms: int) -> str:
    return datetime.fromtimestamp(instant_ms / 1000, UTC).isoformat()
