"""SIGTERM: claim no more, let what runs finish, end what does not, and leave it to the next start."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest
from books import audit, findings_of_runs
from stage import EACH_SECOND, Stage, wait_until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_runner_stops_at_once(stage: Stage, number: signal.Signals) -> None:
    """With nothing running a stop ends with 0 and gives the state back, so that the next start need not wait."""
    stage.declare(stage.job("idle", "0 0 1 1 *"))
    runner = stage.start().active()
    runner.send(number)
    assert runner.ended() == 0
    assert stage.rows(stage.control, "SELECT released FROM term") == [(1,)]
    assert stage.rows(stage.queue, "SELECT key FROM meta WHERE key LIKE 'lock:%'") == []
    following = stage.start("--no-standby").active()
    following.stop()
    assert runner.messages("dispatcher", state="standby") == following.messages("dispatcher", state="standby") == []


def test_running_jobs_finish_within_the_grace(stage: Stage) -> None:
    """A stop starts nothing new and waits for a running job; its run succeeds, and no slot is without an outcome."""
    slow = f"{stage.line('begins')}; sleep 2.5; {stage.line('ends')}"
    stage.declare(stage.job("slow", command=slow, overlap="skip"), stage.job("quick"))
    runner = stage.start("--shutdown-grace", "20s").active()
    [begun] = stage.sees("begins")
    stage.sees("quick")
    asked_ms = time.time() * 1000
    runner.stop()
    assert [line.run_id for line in stage.witness("ends")] == [begun.run_id]
    assert stage.statuses()[begun.run_id] == "succeeded"
    assert max(line.slot_ms for line in stage.witness("quick")) < asked_ms + 1000
    assert stage.leftovers() == {}
    assert audit(stage) == []
    assert findings_of_runs(stage) == []


def test_a_job_that_ignores_term_is_killed_at_the_end_of_the_grace(stage: Stage) -> None:
    """The runner ends with 0 within grace + 2 s; the run is interrupted, nothing of it is left, the next start redelivers it."""
    flag = stage.root / "flag"
    command = f"{stage.line('begins')}; test -e {flag} || {{ trap '' TERM; sleep 600; }}; {stage.line('ends')}"
    stage.declare(stage.job("stubborn", command=command, overlap="skip"))
    runner = stage.start("--shutdown-grace", "2s").active()
    [begun] = stage.sees("begins")
    asked = time.monotonic()
    runner.stop()
    assert time.monotonic() - asked < 2 + 2
    assert stage.leftovers() == {}
    assert [one["status"] for one in runner.attempts("stubborn")] == ["interrupted"]
    assert stage.rows(stage.history, "SELECT status FROM attempts") == [("interrupted",)]
    assert runner.messages("dispatcher", state="stopped")[0]["reason"] == "1 deliveries were interrupted"

    flag.touch()
    following = stage.start().active()
    [again] = stage.sees("begins", run_id=begun.run_id, runner=following.number)
    assert again.attempt == begun.attempt
    stage.sees("ends", run_id=begun.run_id)
    following.finished("stubborn", run_id=begun.run_id, status="delivered", run_status="succeeded")
    following.stop()
    assert audit(stage) == []


def test_a_second_signal_shortens_the_grace(stage: Stage) -> None:
    """Asked twice, the runner tells running jobs to end now instead of near the end of a long grace."""
    stage.declare(stage.job("slow", command=f"{stage.line('begins')}; sleep 600", kill_grace="500ms", overlap="skip"))
    runner = stage.start("--shutdown-grace", "10m").active()
    stage.sees("begins")
    runner.send(signal.SIGTERM)
    with pytest.raises(AssertionError, match="had not ended"):
        runner.ended(within=1)
    runner.send(signal.SIGTERM)
    assert runner.ended() == 0
    assert [one["status"] for one in runner.attempts("slow")] == ["interrupted"]
    assert stage.leftovers() == {}


def test_jobs_of_the_runners_json_are_told_at_once(stage: Stage) -> None:
    """They get TERM when the runner does, may say good-bye, and what they say is kept (B094)."""
    command = f"trap 'echo bye; exit 0' TERM; {stage.line('begins')}; sleep 600 & wait"
    job = {"name": "polite", "schedule": EACH_SECOND, "command": command}
    stage.file.write_text(json.dumps({"jobs": [job]}), encoding="utf-8")
    runner = stage.start("--shutdown-grace", "10m").active()
    [begun] = stage.sees("begins")
    runner.stop()
    assert [one["status"] for one in runner.attempts("polite") if one["run_id"] == begun.run_id] == ["interrupted"]
    [(head,)] = stage.rows(stage.history, "SELECT head FROM outputs WHERE name = 'stdout'")
    assert head == b"bye\n"
    assert stage.leftovers() == {}
    following = stage.start().active()
    stage.sees("begins", run_id=begun.run_id, runner=following.number)
    following.stop()


def test_a_stop_interrupts_a_wait_for_a_retry(stage: Stage) -> None:
    """A retry that is due after the stop is not started by it, and is kept for the next start, however short the grace."""
    command = f'{stage.line("tries")}; test "$CRONPAD_ATTEMPT" = 1'
    retry = {"max": 1, "base": "3s", "cap": "3s"}
    stage.declare(stage.job("retries", command=command, retry=retry, overlap="skip"))
    runner = stage.start().active()
    runner.finished("retries", run_status="retrying")
    [first, *_] = stage.witness("tries")
    runner.stop()
    assert stage.statuses()[first.run_id] == "retrying"
    following = stage.start().active()
    stage.sees("tries", run_id=first.run_id, attempt=1, runner=following.number)
    wait_until(lambda: stage.statuses()[first.run_id] == "succeeded", "the retry succeeds")
    following.stop()
    assert audit(stage) == []


def test_once_can_be_interrupted(stage: Stage) -> None:
    """Ctrl-C on ``--once`` ends the child and the call, and leaves nothing."""
    stage.declare(stage.job("slow", command=f"{stage.line('begins')}; sleep 600"))
    process = subprocess.Popen(
        stage.command("run", stage.file, "--once", "slow"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=stage.environment(),
    )
    stage.sees("begins")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130, said
    assert b"Traceback" not in said
    assert stage.leftovers() == {}
