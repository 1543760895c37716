"""Prints how long one next fire takes, in microseconds: cronpad beside croniter and cronsim, in one run.

Usage: ``python tests/benchmarks/next_fire.py``. Every cell is the median over rounds of a walk of consecutive fires in a zone
with clock changes; numbers of one run compare, numbers of different machines do not. Nothing is asserted.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from cronpad_core.schedules import parse_schedule

ZONE = "America/New_York"
START = datetime(2025, 1, 15, 12, 0, tzinfo=ZoneInfo(ZONE))
TEXTS = (
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "0 9 * * 1-5",
    "0 0 1 * *",
    "0 12 * * 5L",
    "0 0 1,15 * 1",
    "0 0 29 2 *",
)
FIRES = 200
ROUNDS = 15


def engine_ms(text: str, fires: int) -> float:
    """cronpad as the engine calls it: milliseconds in, milliseconds out."""
    schedule = parse_schedule(text, timezone=ZONE)
    at = int(START.timestamp() * 1000)
    begin = time.perf_counter()
    for _ in range(fires):
        following = schedule.next_after_ms(at)
        if following is None:
            break
        at = following
    return time.perf_counter() - begin


def with_datetimes(text: str, fires: int) -> float:
    """cronpad with datetimes in and out."""
    schedule = parse_schedule(text, timezone=ZONE)
    at = START
    begin = time.perf_counter()
    for _ in range(fires):
        following = schedule.next_after(at)
        if following is None:
            break
        at = following
    return time.perf_counter() - begin


def of_croniter(text: str, fires: int) -> float:
    """croniter as an iterator."""
    walk = croniter(text.replace("5L", "L5"), START, ret_type=datetime)
    begin = time.perf_counter()
    for _ in range(fires):
        walk.get_next()
    return time.perf_counter() - begin


def of_cronsim(text: str, fires: int) -> float:
    """cronsim as an iterator."""
    walk = CronSim(text, START)
    begin = time.perf_counter()
    for _ in range(fires):
        next(walk)
    return time.perf_counter() - begin


def median_us(measure: Callable[[str, int], float], text: str) -> str:
    """The median over rounds, per fire; a dash where the library cannot do it."""
    fires = 20 if text == "0 0 29 2 *" else FIRES
    try:
        measure(text, 3)
        rounds = [measure(text, fires) / fires * 1e6 for _ in range(ROUNDS)]
    except Exception as error:
        return type(error).__name__
    return f"{statistics.median(rounds):.1f}"


def main() -> None:
    """Print the table."""
    columns = (
        ("cronpad ms", engine_ms),
        ("cronpad datetime", with_datetimes),
        ("croniter", of_croniter),
        ("cronsim", of_cronsim),
    )
    widths = [max(len(name), 10) for name, _ in columns]
    lines = [
        f"{'µs per next fire, ' + ZONE:<42}"
        + "  ".join(f"{name:>{width}}" for (name, _), width in zip(columns, widths, strict=True))
    ]
    for text in TEXTS:
        cells = [median_us(measure, text) for _, measure in columns]
        lines.append(f"{text:<42}" + "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
