"""A real ``cronpad run`` after real downtime: what it catches up is what the jobs file says of ``today``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cronpad_core.api import SECOND, from_ms

COMMAND = Path(sys.executable).with_name("cronpad")
PATIENCE = 60.0
"""How many seconds the test waits for what should come at once: when it gives up, never what it proves."""


def wait_until(answer: Callable[[], bool], what: Callable[[], str]) -> None:
    """Asks again and again until the answer is yes."""
    end = time.monotonic() + PATIENCE
    while not answer():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


class Running:
    """One ``cronpad run``; its stdout has a JSON line for each attempt, its stderr one for each message."""

    def __init__(self, folder: Path, name: str) -> None:
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        environ = {key: value for key, value in os.environ.items() if not key.startswith("CRONPAD_")}
        environ |= {"CRONPAD_SCHEDULER__OVERDUE_GRACE": "1s", "CRONPAD_SCHEDULER__RECONCILE_INTERVAL": "1s"}
        with self.out.open("wb") as out, self.err.open("wb") as err:
            command = [str(COMMAND), "run", "jobs.json", "--state", "state"]
            self.process = subprocess.Popen(command, cwd=folder, env=environ, stdout=out, stderr=err)

    def slots_ms(self, job: str) -> list[int]:
        """The slots of a job that this process ran, in order."""
        ran = [one for one in documents(self.out) if one["job"] == job]
        return sorted(round(datetime.fromisoformat(one["scheduled_at"]).timestamp()) * SECOND for one in ran)

    def decided(self, job: str) -> list[tuple[int, int]]:
        """How many slots were chosen and how many were not, decision by decision."""
        said = [one for one in documents(self.err) if one["event"] == "missed" and one["job"] == job]
        return [(one["chosen"], one["missed"]) for one in said]

    def runs_all(self, *jobs: str, times: int = 1) -> None:
        """Waits until each of the jobs ran."""

        def enough() -> bool:
            assert self.process.poll() is None, self.err.read_text(encoding="utf-8")
            return all(len(self.slots_ms(job)) >= times for job in jobs)

        wait_until(enough, lambda: self.err.read_text(encoding="utf-8"))

    def stop(self) -> None:
        """A graceful stop."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.err.read_text(encoding="utf-8")


def documents(file: Path) -> list[dict[str, Any]]:
    """The whole lines of a file, each a JSON object."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]


@contextmanager
def running(folder: Path, name: str) -> Iterator[Running]:
    """Starts a runner, and leaves none behind."""
    one = Running(folder, name)
    try:
        yield one
        one.stop()
    finally:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def wall_ms() -> int:
    """The time of the machine."""
    return time.time_ns() // 1_000_000


def job(name: str, **settings: object) -> dict[str, object]:
    """A job of each second that asks ``today`` about whatever is late."""
    misfire = {"policy": "today", **settings}
    overlap = {"policy": "allow", "max": 100}
    return {"name": name, "schedule": "* * * * * *", "command": "true", "grace": "5s", "overlap": overlap, "misfire": misfire}


def test_downtime_is_caught_up_as_the_jobs_file_says(tmp_path: Path) -> None:
    """Of the slots of some seconds one job runs all, one those since its day began, and one, with a low ``max``, the newest."""
    begins_ms = wall_ms() // SECOND * SECOND + 10 * SECOND
    earlier, begins = from_ms(begins_ms) - timedelta(hours=1), from_ms(begins_ms)
    jobs = [
        job("all", begins=f"{earlier:%H:%M:%S}", max=10_000),
        job("new day", begins=f"{begins:%H:%M:%S}", max=10_000),
        job("newest", begins=f"{earlier:%H:%M:%S}", max=2),
    ]
    (tmp_path / "jobs.json").write_text(json.dumps({"version": 1, "jobs": jobs}), encoding="utf-8")

    with running(tmp_path, "before") as before:
        before.runs_all("all", "new day", "newest")
    up_again_ms = max(wall_ms(), begins_ms) + 8 * SECOND
    wait_until(lambda: wall_ms() > up_again_ms, lambda: "the clock of this machine stands still")
    with running(tmp_path, "after") as after:
        after.runs_all("all", "new day", times=9)
        after.runs_all("newest", times=3)

    following = {name: before.slots_ms(name)[-1] + SECOND for name in ("all", "new day", "newest")}
    assert after.slots_ms("all")[0] == following["all"]
    chosen, missed = after.decided("all")[0]
    assert (chosen >= 8, missed) == (True, 0)
    assert after.slots_ms("all")[:chosen] == [following["all"] + SECOND * number for number in range(chosen)]

    assert after.slots_ms("new day")[0] == max(following["new day"], begins_ms)

    chosen, missed = after.decided("newest")[0]
    assert (chosen, missed >= 7) == (1, True)
    assert after.slots_ms("newest")[0] == following["newest"] + missed * SECOND
