"""The pulse of the active dispatcher: a small file beside the state, so that a health check needs no database and no import.

Written by the active process alone, about as often as the lock is renewed; instants are on the boot clock, so that a jump of the
wall clock makes nobody look dead.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from cronpad_core.domain.timing import Millis
from cronpad_core.ports.clock import Clock

__all__ = ["FILE", "Pulse", "read_pulse", "write_pulse"]

FILE = "health.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What the active process last said of itself. ``fresh_for_ms`` is how old it may be before it counts as stale."""

    dispatcher: str
    pid: int
    term: int | None
    boot_id: str
    beat_boot_ms: Millis
    fresh_for_ms: Millis
    failing: tuple[str, ...] = ()
    running: int = 0

    def problems(self, clock: Clock) -> tuple[str, ...]:
        """Why this is not well; empty for a dispatcher that is."""
        found = [f"{store} does not answer" for store in self.failing]
        age = clock.boot_ms() - self.beat_boot_ms
        if self.boot_id != clock.boot_id():
            found.append("its process ended with the machine's last boot")
        elif age > self.fresh_for_ms:
            found.append(f"no sign of life for {age / 1000:.0f} s")
        if self.dispatcher != "active":
            found.append(f"the dispatcher is {self.dispatcher}")
        return tuple(found)


def write_pulse(directory: Path, pulse: Pulse) -> None:
    """Replaces the pulse at once; a directory that cannot be written is left as it is: the old pulse grows stale, which is true."""
    target = directory / FILE
    draft = directory / f".{FILE}.{os.getpid()}"
    try:
        draft.write_text(json.dumps(asdict(pulse)), encoding="utf-8")
        draft.replace(target)
    except OSError:
        return


def read_pulse(directory: Path) -> Pulse | None:
    """The last pulse, or ``None`` where there is none that can be read."""
    try:
        document = json.loads((directory / FILE).read_text(encoding="utf-8"))
        return Pulse(**{**document, "failing": tuple(document["failing"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
