"""Plays many seeds: ``python tests/simulation/seeds.py 1000 [--first 1] [--kinds edit,slow] [--trace]``.

With ``--faults N`` in the place of a count, as many seeds as it takes to inject N faults, on ``--processes`` at once. Prints every
seed that breaks a rule, the faults by kind, what was reached, and how fast it went. ``--trace`` prints the history of each seed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATHS = [str(Path(__file__).parent), str(ROOT), str(ROOT / "plugins" / "cronpad-testkit")]
_BATCH = 20

__all__ = ["Tally", "play", "play_faults"]


@dataclass(slots=True)
class Tally:
    """What came of some seeds. ``faults`` counts what was done to the engine, by kind; ``acts`` what users did meanwhile."""

    seeds: int = 0
    deliveries: int = 0
    hits: Counter[str] = field(default_factory=Counter)
    breaches: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Adds those of other seeds."""
        self.seeds += other.seeds
        self.deliveries += other.deliveries
        self.breaches += other.breaches
        for mine, theirs in ((self.hits, other.hits), (self.faults, other.faults), (self.acts, other.acts)):
            mine.update(theirs)

    @property
    def slots(self) -> int:
        """How many slots the ledgers were asked for."""
        return sum(count for what, count in self.hits.items() if what.startswith("slot "))


def play(first: int, count: int, kinds: Sequence[str] = (), told: Callable[[str], None] | None = None) -> Tally:
    """Plays ``count`` seeds from ``first`` on; ``told`` gets the history of each."""
    sys.path[:0] = [path for path in PATHS if path not in sys.path]
    from storm import HARMLESS, storm

    tally = Tally(seeds=count)
    for seed in range(first, first + count):
        report = storm(seed, tracing=told is not None, kinds=kinds)
        tally.hits.update(report.hits)
        tally.deliveries += report.deliveries
        if told is not None:
            told("\n".join(report.log))
        if report.breach is not None:
            tally.breaches.append(f"seed {seed}: {report.breach.rule}: {report.breach}")
    for what, number in tally.hits.items():
        word, _, kind = what.partition(" ")
        if word == "trouble":
            tally.faults[f"call failed {kind} it was done"] += number
        elif word == "fault" and kind in HARMLESS and kind not in ("clock forward", "clock back", "garbage"):
            tally.acts[kind] += number
        elif word == "fault" and kind != "trouble":  # that is a span of failing calls, which are counted one by one
            tally.faults[kind] += number
    return tally


def play_faults(number: int, *, first: int = 1, processes: int = 1) -> Tally:
    """Plays as many seeds as it takes to inject this many faults; a breach ends nothing."""
    total, following = Tally(), first
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running: set[Future[Tally]] = set()
        while total.faults.total() < number or running:
            while total.faults.total() < number and len(running) < processes:
                running.add(pool.submit(play, following, _BATCH))
                following += _BATCH
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                total.add(one.result())
    return total


def main() -> int:
    """Exit code 1 where a seed breaks a rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--faults", type=int, help="as many seeds as it takes to inject so many")
    parser.add_argument("--processes", type=int, default=1, help="with --faults: how many at once")
    parser.add_argument("--kinds", default="", help="only these faults, separated by commas")
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    began, tally = time.monotonic(), Tally()
    if options.faults is not None:
        tally = play_faults(options.faults, first=options.first, processes=options.processes)
        print("".join(f"{breach}\n" for breach in tally.breaches), end="")
    else:
        kinds = [kind for kind in options.kinds.split(",") if kind]
        for seed in range(options.first, options.first + options.count):
            one = play(seed, 1, kinds, print if options.trace else None)
            print("".join(f"{breach}\n" for breach in one.breaches), end="", flush=True)
            tally.add(one)
    took, faults = time.monotonic() - began, tally.faults.total()
    rules = dict(Counter(breach.split(": ")[1] for breach in tally.breaches))
    print(f"{tally.seeds} seeds, {tally.deliveries} deliveries, {took:.0f} s, breaches {rules}")
    print(f"{faults} faults, {faults / took:.0f} a second: {dict(tally.faults.most_common())}")
    print(f"besides: {dict(tally.acts.most_common())}; {tally.slots} slots")
    print("\n".join(f"  {what}: {count}" for what, count in sorted(tally.hits.items())))
    return 1 if tally.breaches else 0


if __name__ == "__main__":
    raise SystemExit(main())
