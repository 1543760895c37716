"""The whole proof, and its table: ``python tests/chaos/session.py [--kills 500] [--faults 1000000] [--minutes N] [--report FILE]``.

``--minutes`` is about how long all parts but the kills and the simulated faults may take together. ``--only`` names parts.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clock_steps import clock_steps
from damage import WAYS, damages
from failing_calls import CALLS, failing_calls
from freezing import freezes
from full_disk import full_disks
from kill_loop import kills
from long_absence import ABSENCES, long_absences
from many_jobs import many_jobs
from place import Course, Row, figures, table
from power_cuts import power_cuts
from preload import Unavailable

__all__ = ["PARTS", "Plan", "play"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much of everything."""

    root: Path
    seed: int
    kills: int = 500
    faults: int = 1_000_000
    minutes: float = 60
    processes: int = 2
    say: Callable[[str], None] = lambda text: None

    def rounds(self, share: float, seconds: float) -> int:
        """How many rounds of so many seconds fit into this share of the time."""
        return max(1, round(self.minutes * 60 * share / seconds))


def _kill_loops(plan: Plan) -> Iterator[Row]:
    for delivery, count in (("durable", plan.kills - plan.kills // 5), ("fast", plan.kills // 5)):
        with Course(plan.root / f"kills-{delivery}") as course:
            yield kills(course, count, seed=plan.seed, delivery=delivery)


def _freezes(plan: Plan) -> Iterator[Row]:
    with Course(plan.root / "freezes") as course:
        yield freezes(course, plan.rounds(0.15, 5.5), seed=plan.seed)


def _power_cuts(plan: Plan) -> Iterator[Row]:
    yield power_cuts(plan.root / "power", plan.rounds(0.25, 8), seed=plan.seed)
    yield power_cuts(plan.root / "power-fast", plan.rounds(0.05, 8), seed=plan.seed, delivery="fast")


def _failing_calls(plan: Plan) -> Iterator[Row]:
    for call in CALLS:
        yield failing_calls(plan.root / f"failing-{call}", plan.rounds(0.05, 14), call=call, seed=plan.seed)


def _damages(plan: Plan) -> Iterator[Row]:
    for way in WAYS:
        yield damages(plan.root / f"damage-{way.replace(' ', '-')}", plan.rounds(0.08, 7), way=way, seed=plan.seed)


def _full_disks(plan: Plan) -> Iterator[Row]:
    with Course(plan.root / "full") as course:
        yield full_disks(course, plan.rounds(0.05, 6), seed=plan.seed)


def _clock_steps(plan: Plan) -> Iterator[Row]:
    courses = [["forward an hour", "slow ramp"], ["back an hour"], ["back 5 s", "slow ramp"], ["forward an hour", "back an hour"]]
    for number, steps in enumerate(courses):
        with Course(plan.root / f"clock-{number}") as course:
            yield clock_steps(course, steps)


def _absences(plan: Plan) -> Iterator[Row]:
    for absence in ABSENCES:
        with Course(plan.root / f"absence-{absence.replace(' ', '-')}") as course:
            yield long_absences(course, absence)


def _many_jobs(plan: Plan) -> Iterator[Row]:
    with Course(plan.root / "many") as course:
        yield many_jobs(course, min(10, plan.minutes / 6))


def _simulated(plan: Plan) -> Iterator[Row]:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "simulation"))
    from seeds import play_faults

    began = time.monotonic()
    tally = play_faults(plan.faults, first=plan.seed % 1_000_000_000, processes=plan.processes)
    row = Row("simulated", tally.faults.total(), tally.slots, findings=tally.breaches)
    row.lost = sum(": no outcome: " in one for one in tally.breaches)
    row.repeated = tally.hits["delivered twice"]
    row.notes.update(tally.faults)
    row.notes["seeds"] = tally.seeds
    row.notes["faults a second"] = round(tally.faults.total() / (time.monotonic() - began))
    yield row


PARTS: dict[str, Callable[[Plan], Iterator[Row]]] = {
    "kills": _kill_loops,
    "freezes": _freezes,
    "power": _power_cuts,
    "calls": _failing_calls,
    "damage": _damages,
    "full": _full_disks,
    "clock": _clock_steps,
    "absences": _absences,
    "many": _many_jobs,
    "simulated": _simulated,
}


def play(plan: Plan, parts: list[str]) -> list[Row]:
    """Plays these parts, one after the other. A part that breaks off is a finding; the others are played all the same."""
    rows: list[Row] = []
    for name in parts:
        try:
            for row in PARTS[name](plan):
                rows.append(row)
                plan.say(f"{table([row])}\n{figures([row])}\n")
        except Unavailable as reason:
            rows.append(Row(name, skipped=str(reason)))
        except AssertionError as error:
            rows.append(Row(f"{name} (broken off)", findings=[str(error)[:2000]]))
            plan.say(figures(rows[-1:]) + "\n")
    return rows


def main() -> int:
    """Exit code 1 where anything was lost or found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--faults", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--report", type=Path, help="a file for the table")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    options = parser.parse_args()

    def say(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    say(f"seed {options.seed}\n")
    with tempfile.TemporaryDirectory(prefix="chaos-") as root:
        plan = Plan(
            root=Path(root),
            seed=options.seed,
            kills=options.kills,
            faults=options.faults,
            minutes=options.minutes,
            processes=options.processes,
            say=say,
        )
        rows = play(plan, options.only)
    text = f"{table(rows)}\n\n{figures(rows)}\n\nseed {options.seed}\n"
    say(f"\n{text}")
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    return 1 if any(row.lost or row.findings for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
