"""``kill -9`` again and again: ``python tests/chaos/kill_loop.py --kills 500 [--jobs 100] [--every 2] [--seed N]``.

A real runner on SQLite, with commands that write to a witness outside cronpad, is killed at a random moment and started again.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from place import Course, Row, figures, table

__all__ = ["kills"]


def kills(course: Course, count: int, *, jobs: int = 100, every_s: int = 2, seed: int, delivery: str = "durable") -> Row:
    """Kills so many times, then lets all catch up and reckons."""
    moments = random.Random(seed)
    env = {"CRONPAD_DELIVERY": delivery}
    course.fill(jobs, every_s)
    began = time.monotonic()
    running = 0
    for number in range(count):
        runner = course.start(env=env)
        if number == 0:
            runner.active()
        time.sleep(moments.uniform(0.3, 3.0))  # the moment of the kill is what varies here, not a wait for something
        runner.require_alive()
        runner.kill()
        running += course.rows(course.history, "SELECT count(*) FROM runs WHERE status = 'running'")[0][0]
    course.come_to_rest(course.start(env=env).active())
    row = course.reckon(f"kill -9, {delivery}", count)
    row.notes["attempts that were running at a kill"] = running
    row.notes["seconds"] = round(time.monotonic() - began)
    if delivery == "durable" and row.repeated > running:
        row.findings.append(f"{row.repeated} deliveries were repeated, and {running} attempts were running at a kill")
    return row


def main() -> int:
    """Exit code 1 where anything was lost or found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--every", type=int, default=2, help="seconds between two fires of a job")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--delivery", choices=["durable", "fast"], default="durable")
    options = parser.parse_args()
    sys.stdout.write(f"seed {options.seed}\n")
    with tempfile.TemporaryDirectory() as place, Course(Path(place)) as course:
        row = kills(course, options.kills, jobs=options.jobs, every_s=options.every, seed=options.seed, delivery=options.delivery)
    sys.stdout.write(f"{table([row])}\n\n{figures([row])}\n")
    return 1 if row.lost or row.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
