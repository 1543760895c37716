"""What a runner takes: descriptors, processes, memory, and who is left behind by its commands."""

from __future__ import annotations

import time
from pathlib import Path

from books import audit, findings_of_runs
from stage import EACH_SECOND, Running, Stage, quick, wait_until


def _steady(runner: Running) -> int:
    """The fewest descriptors that are open over a few looks: those of a run come and go."""
    counts = []
    for _ in range(20):
        counts.append(runner.descriptors())
        time.sleep(0.01)
    return min(counts)


def test_runs_leave_no_descriptor_and_no_zombie(stage: Stage) -> None:
    """Two hundred runs later as many files are open as before, and nothing has ended that was not taken notice of (B088)."""
    stage.declare(
        *(stage.job(f"true-{number}", command=["true"]) for number in range(30)),
        stage.job("slow", command=["sleep", "60"], timeout="200ms", kill_grace="100ms"),
        stage.job("missing", command=["/no/such/program"]),
        {"name": "nowhere", "schedule": EACH_SECOND, "sink": {"type": "command", "command": "true", "cwd": "/no/such/place"}},
    )
    runner = stage.start().active()
    runner.finished("slow", status="timed_out")
    before = _steady(runner)
    wait_until(lambda: len(runner.attempts()) > 60 + 200, "200 more runs", within=60)
    assert abs(_steady(runner) - before) <= 5
    wait_until(lambda: "Z" not in runner.children().values(), "no zombie is left", within=5)
    statuses = {(one["job"].split("-")[0], one["status"], one["exit_code"]) for one in runner.attempts()}
    assert ("true", "delivered", 0) in statuses
    assert ("missing", "failed", 127) in statuses
    assert {name for name, status, _ in statuses if status == "delivered"} == {"true"}
    runner.stop()
    assert stage.leftovers() == {}
    assert audit(stage) == []


def test_much_output_takes_no_memory(stage: Stage) -> None:
    """500 MB of output move the memory of the runner by less than 30 MB; both ends and the length of it are kept (B095)."""
    size = 500_000_000
    command = f"{stage.line('begins')}; yes | head -c {size}"
    stage.declare(stage.job("small"), stage.job("much", command=command, overlap="skip"))
    runner = stage.start().active()
    runner.finished("small", count=1)
    before = runner.resident_kb()
    highest = before
    done = []

    def look() -> bool:
        nonlocal highest, done
        highest = max(highest, runner.resident_kb())
        done = runner.attempts("much")
        return bool(done)

    wait_until(look, "500 MB are written", within=60)
    highest = max(highest, runner.resident_kb())
    assert (highest - before) / 1024 < 30
    assert (done[0]["status"], done[0]["exit_code"], done[0]["stdout_bytes"]) == ("delivered", 0, size)
    runner.stop()
    kept = stage.rows(stage.history, "SELECT total, length(head), length(tail) FROM outputs WHERE total > 1000 ORDER BY run_seq")
    assert kept[0] == (size, 64 * 1024, 64 * 1024)


def test_a_time_out_leaves_no_process(stage: Stage) -> None:
    """``sh -c 'sleep 600 & sleep 601'`` with a time-out of 2 s ends as timed out, and nothing of it runs (B089)."""
    command = "sh -c 'sleep 600 & sleep 601'"
    stage.declare(
        stage.job("asleep", command=command, timeout="2s", overlap="skip"),
        stage.job("deaf", command=f"trap '' TERM; {command}", timeout="500ms", kill_grace="300ms", overlap="skip"),
        stage.job(
            "fork", command="for i in 1 2 3 4 5 6 7 8; do (sleep 602 &) ; done; sleep 603", timeout="500ms", overlap="skip"
        ),
    )
    runner = stage.start().active()
    [ended] = runner.finished("asleep")[:1]
    assert (ended["status"], ended["run_status"]) == ("timed_out", "failed")
    assert 2_000 <= ended["duration_ms"] < 3_500
    runner.finished("deaf", status="timed_out")
    runner.finished("fork", status="timed_out")
    stage.declare()
    runner.process.send_signal(1)
    runner.applied(2)
    wait_until(lambda: stage.rows(stage.history, "SELECT id FROM runs WHERE ended = 0") == [], "all runs end")
    wait_until(lambda: stage.leftovers() == {}, "no process is left", within=5)
    runner.stop()
    assert findings_of_runs(stage) == []


def test_a_background_process_does_not_hold_up_a_run(stage: Stage) -> None:
    """A run ends soon after its shell does, with the shell's code and output, whoever still holds the pipe (B091)."""
    stage.declare(stage.job("leaves", command="echo hi; sleep 300 & exit 0", overlap="skip"))
    runner = stage.start().active()
    [ended] = runner.finished("leaves")[:1]
    assert (ended["status"], ended["exit_code"], ended["stdout_bytes"]) == ("delivered", 0, 3)
    assert ended["duration_ms"] < 3_000
    runner.stop()
    wait_until(lambda: stage.leftovers() == {}, "no process is left", within=5)


def test_odd_output_is_kept_as_it_is(stage: Stage) -> None:
    """Bytes that are no text, and hundreds of kilobytes without a line's end, are kept and shown as JSON all the same."""
    stage.declare(
        stage.job("bytes", command=r"printf '\000\377\033[31m\r\n'; printf '\200' >&2", overlap="skip"),
        stage.job("long", command="head -c 200000 /dev/zero", overlap="skip"),
    )
    runner = stage.start().active()
    runner.finished("bytes", stdout_bytes=9, stderr_bytes=1, status="delivered")
    runner.finished("long", stdout_bytes=200_000, status="delivered")
    runner.stop()
    heads = {bytes(head) for (head,) in stage.rows(stage.history, "SELECT head FROM outputs WHERE total IN (9, 1)")}
    assert heads == {b"\0\xff\x1b[31m\r\n", b"\x80"}


def test_the_environment_of_a_command(stage: Stage) -> None:
    """A command finds the runner's environment but its secrets and its state, and what is said of its run (B097)."""
    shown = stage.root / "shown"
    stage.declare(stage.job("env", command=f"env > {shown}.new; mv {shown}.new {shown}; pwd >> {shown}"))
    hidden = {"CRONPAD_SECRET_KEY": "k", "CRONPAD_STATE": str(stage.state)}
    runner = stage.start(env={"APP_MODE": "prod", "PATH": "/opt/x/bin:/usr/bin:/bin", **hidden}).active()
    [line] = runner.finished("env")[:1]
    runner.stop()
    found = dict(text.split("=", 1) for text in shown.read_text("utf-8").splitlines() if "=" in text)
    assert found["APP_MODE"] == "prod"
    assert found["PATH"] == "/opt/x/bin:/usr/bin:/bin"
    assert not hidden.keys() & found.keys()
    told = {name for name in found if name.startswith("CRONPAD_")}
    assert told == {
        f"CRONPAD_{name}"
        for name in (
            *("JOB", "RUN_ID", "OCCURRENCE", "ATTEMPT", "SCHEDULED_AT", "TIMEZONE", "TRIGGER", "FENCE", "IDEMPOTENCY_KEY"),
            "NURSERY",
        )
    }
    assert found["CRONPAD_OCCURRENCE"].startswith(line["job_id"])
    assert found["CRONPAD_TRIGGER"] == "scheduled"


def test_a_slow_job_keeps_its_lease(stage: Stage) -> None:
    """A run that takes longer than its lease is delivered once."""
    command = f"{stage.line('slow')}; sleep 4.5"
    stage.declare(stage.job("slow", command=command, overlap="skip"), stage.job("each"))
    runner = stage.start(env=quick(lease_duration="3s")).active()
    [ended] = runner.finished("slow")[:1]
    assert ended["duration_ms"] > 4_400
    runner.stop()
    assert runner.messages("lease_lost") == []
    assert audit(stage) == []
    assert findings_of_runs(stage) == []


def test_many_jobs_at_one_time(stage: Stage) -> None:
    """Three hundred jobs that are due in the same second, with four workers, all run once, and the others wait their turn."""
    stage.declare(*(stage.job(f"job-{number}", "*/20 * * * * *") for number in range(300)))
    runner = stage.start("--max-parallel", "4").active()
    wait_until(lambda: len(runner.attempts()) >= 300, "300 runs", within=60)
    runner.stop()
    lines = stage.witness()
    first = min(line.slot_ms for line in lines)
    assert len({line.tag for line in lines if line.slot_ms == first}) == 300
    assert audit(stage) == []
    assert findings_of_runs(stage) == []


def test_an_idle_runner_is_idle(stage: Stage) -> None:
    """A runner of a thousand jobs that are not due takes less than 1 % of a core."""
    in_hours = (time.gmtime().tm_hour + 2) % 24
    stage.declare(*(stage.job(f"job-{number}", f"{number % 60} {in_hours} * * *", command="true") for number in range(1000)))
    runner = stage.start().active()

    def is_idle() -> bool:
        used, began = _cpu_s(runner), time.monotonic()
        time.sleep(3)  # the span that is measured
        return (_cpu_s(runner) - used) / (time.monotonic() - began) < 0.01

    # What the start leaves to do may take a moment.
    wait_until(is_idle, "it takes less than 1 % of a core over three seconds")
    runner.stop()


def _cpu_s(runner: Running) -> float:
    fields = Path(f"/proc/{runner.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
