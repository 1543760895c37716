"""Runs cronpad beside its peers with the performance harness, in one interleaved run, in a folder of its own.

    python tests/benchmarks/peers/side_by_side.py HARNESS SCRATCH
    python tests/benchmarks/peers/side_by_side.py HARNESS SCRATCH --suites noop1,noop200,drain --rounds 3 --seconds 10

The harness is copied to SCRATCH and given cronpad's driver, its line in ``SYS`` and its place in the suites. Two environments
are made there: ``venv`` for APScheduler 3, huey and the floor, with the harness's own pins, and ``venvcronpad`` with cronpad as it
stands in this tree. Nothing but pip needs a network; no server is started but the harness's own HTTP sink. Ends with one table of
medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[2]
PEERS = ("apscheduler", "huey", "psutil", "sqlalchemy", "greenlet", "tzlocal", "typing_extensions")
LABELS = {"cronpad": [], "cronpad-defaults": ["--how", "defaults"]}
SUITES = ("noop1", "noop200", "noop500", "spread200", "cmd200", "drain", "protosync")
SYSTEMS = ("floor", "aps3-sqlite", "huey", "cronpad")


def prepare(harness: Path, scratch: Path) -> None:
    """The harness with cronpad in it, and the environments that are not there yet."""
    scratch.mkdir(parents=True, exist_ok=True)
    for name in ("peers", "requirements"):
        shutil.rmtree(scratch / name, ignore_errors=True)
        shutil.copytree(harness / name, scratch / name)
        for path in (scratch / name, *(scratch / name).iterdir()):
            path.chmod(path.stat().st_mode | 0o200)
    for name in ("data", "results", "logs"):
        (scratch / name).mkdir(exist_ok=True)
    shutil.copy(HERE / "drv_cronpad.py", scratch / "peers")
    enter(scratch / "peers" / "bench.py")
    pins = (scratch / "requirements" / "venv.txt").read_text().split()
    environment(scratch / "venv", [pin for pin in pins if pin.partition("==")[0].lower() in PEERS])
    psutil = [pin for pin in pins if pin.startswith("psutil==")]
    own = [TREE, TREE / "plugins" / "cronpad-sql", TREE / "plugins" / "cronpad-command"]
    environment(scratch / "venvcronpad", [*psutil, *(part for path in own for part in ("-e", str(path)))])


def enter(bench: Path) -> None:
    """cronpad's lines in ``SYS``, and its place beside APScheduler 3 in every suite."""
    entries = "".join(f' "{label}": ("venvcronpad", "cronpad", {arguments!r}),\n' for label, arguments in LABELS.items())
    marks = {
        "SYS = {\n": f"SYS = {{\n{entries}",
        "a = ap.parse_args()": (
            "[runs.extend([(new, more) for label, more in runs if label == 'aps3-sqlite' "
            f"for new in {list(LABELS)!r}]) for runs in SUITES.values()]; a = ap.parse_args()"
        ),
    }
    text = bench.read_text()
    for mark, entered in marks.items():
        if text.count(mark) != 1:
            sys.exit(f"{bench} is not as expected: no single {mark!r}")
        text = text.replace(mark, entered)
    bench.write_text(text)


def environment(place: Path, wanted: list[str]) -> None:
    if not (place / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    subprocess.run([str(place / "bin" / "pip"), "install", "-q", "--prefer-binary", *wanted], check=True)


def table(results: Path) -> None:
    """Medians over the rounds, one line for each suite, system and durability."""
    found: dict[tuple[str, str, str, str], list[dict[str, object]]] = defaultdict(list)
    for text in results.read_text().splitlines():
        line = json.loads(text)
        found[line["suite"], str(line.get("jobs", "")), str(line.get("sync", "")), line["label"]].append(line)
    columns = ("lag_ms_p50", "lag_ms_p99", "cpu_ms_per_fire", "missed", "dup", "jobs_s", "cpu_ms_per_job", "rss_mb")
    print(f"{'suite':<12}{'jobs':>5} {'sync':<7}{'system':<18}{'runs':>4}", *(f"{name:>15}" for name in columns))
    for (suite, jobs, sync, label), lines in sorted(found.items()):
        cells = []
        for name in columns:
            values = [value for line in lines if isinstance(value := line.get(name), int | float)]
            cells.append(f"{statistics.median(values):>15.2f}" if values else f"{'':>15}")
        failed = sum("error" in line for line in lines)
        print(f"{suite:<12}{jobs:>5} {sync:<7}{label:<18}{len(lines):>4}", *cells, f"  {failed} failed" if failed else "")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("harness", type=Path)
    options.add_argument("scratch", type=Path)
    options.add_argument("--suites", default=",".join(SUITES))
    options.add_argument("--systems", default=",".join(SYSTEMS))
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=int, default=10)
    given = options.parse_args()
    scratch = given.scratch.resolve()
    prepare(given.harness, scratch)
    results = scratch / "results" / "peers.jsonl"
    results.unlink(missing_ok=True)
    command = [scratch / "venv" / "bin" / "python", scratch / "peers" / "bench.py", "--suites", given.suites]
    command += ["--systems", given.systems, "--rounds", str(given.rounds), "--seconds", str(given.seconds)]
    subprocess.run([str(part) for part in command], check=True, env={**os.environ, "PERF_BASE": str(scratch)})
    table(results)


if __name__ == "__main__":
    main()
