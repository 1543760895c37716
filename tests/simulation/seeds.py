"""Plays many seeds: ``python tests/simulation/seeds.py 1000 [--first 1] [--kinds edit,slow] [--trace]``.

Prints every seed that breaks a rule, what was reached, and how fast it went. ``--trace`` prints the history of each seed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Exit code 1 where a seed breaks a rule."""
    sys.path[:0] = [str(Path(__file__).parent), str(ROOT), str(ROOT / "plugins" / "cronpad-testkit")]
    from storm import storm

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--kinds", default="", help="only these faults, separated by commas")
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    began, hits, breaches, deliveries = time.monotonic(), Counter[str](), Counter[str](), 0
    for seed in range(options.first, options.first + options.count):
        report = storm(seed, tracing=options.trace, kinds=[kind for kind in options.kinds.split(",") if kind])
        hits.update(report.hits)
        deliveries += report.deliveries
        if options.trace:
            print("\n".join(report.log))
        if report.breach is not None:
            breaches[report.breach.rule] += 1
            print(f"seed {seed}: {report.breach}", flush=True)
    print(f"{options.count} seeds, {deliveries} deliveries, {time.monotonic() - began:.0f} s, breaches {dict(breaches)}")
    print("\n".join(f"  {what}: {count}" for what, count in sorted(hits.items())))
    return 1 if breaches else 0


if __name__ == "__main__":
    raise SystemExit(main())
