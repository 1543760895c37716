"""The pulse of the active dispatcher: a small file beside the state, so that a health check needs no database and no import.

Written by the active process alone, about as often as the lock is renewed; instants are on the boot clock, so that a jump of the
wall clock makes nobody look dead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from cronpad_core.domain.timing import JsonValue, Millis
from cronpad_core.ports.clock import Clock

__all__ = ["FILE", "STORES", "Pulse", "read_pulse", "write_pulse"]

FILE = "health.json"

STORES = ("control", "history", "queue")
"""What has to answer for a dispatcher to be ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What the active process last said of itself. ``fresh_for_ms`` is how old it may be before it counts as stale.

    ``failing`` are the stores that do not answer, ``wrong`` says in a word what is the matter with them, where that is known.
    ``degraded`` are codes of what works and should not stay so; ``starts`` the boot instants of the last starts after a crash.
    """

    dispatcher: str
    pid: int
    term: int | None
    boot_id: str
    beat_boot_ms: Millis
    fresh_for_ms: Millis
    failing: tuple[str, ...] = ()
    running: int = 0
    wrong: Mapping[str, str] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()
    starts: tuple[Millis, ...] = ()

    def problems(self, clock: Clock) -> tuple[str, ...]:
        """Why this is not well; empty for a dispatcher that is."""
        found = [
            f"{store} does not answer" + (f" ({self.wrong[store]})" if store in self.wrong else "") for store in self.failing
        ]
        age = self.age_ms(clock)
        if age is None:
            found.append("its process ended with the machine's last boot")
        elif age > self.fresh_for_ms:
            found.append(f"no sign of life for {age / 1000:.0f} s")
        if self.dispatcher != "active":
            found.append(f"the dispatcher is {self.dispatcher}")
        return tuple(found)

    def age_ms(self, clock: Clock) -> Millis | None:
        """How long ago it was written; ``None`` where that was before the machine's last boot."""
        return clock.boot_ms() - self.beat_boot_ms if self.boot_id == clock.boot_id() else None

    def status(self, clock: Clock) -> str:
        """``ok``, ``degraded``, or ``unready``: no work is begun, or nobody knows whether it is."""
        if self.problems(clock):
            return "unready"
        return "degraded" if self.degraded else "ok"

    def readiness(self, clock: Clock) -> dict[str, JsonValue]:
        """The readiness document: ``status``, ``dispatcher``, each store (``ok``, or what is wrong with it), ``heartbeat_age_s``
        and ``degraded``. A standby writes no pulse, so it is about the active process."""
        age = self.age_ms(clock)
        found: dict[str, JsonValue] = {"status": self.status(clock), "dispatcher": self.dispatcher}
        for store in STORES:
            found[store] = self.wrong.get(store, "failing") if store in self.failing else "ok"
        found["heartbeat_age_s"] = None if age is None else round(age / 1000, 1)
        found["degraded"] = list(self.degraded)
        return found


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
    """The last pulse, or ``None`` where there is none that can be read. What a later version says besides is passed over."""
    known = {one.name for one in fields(Pulse)}
    try:
        document = json.loads((directory / FILE).read_text(encoding="utf-8"))
        facts = {name: tuple(value) if isinstance(value, list) else value for name, value in document.items() if name in known}
        pulse = Pulse(**facts)  # type: ignore[arg-type]  # looked at below
        sound = all(isinstance(value, int) for value in (pulse.pid, pulse.beat_boot_ms, pulse.fresh_for_ms, *pulse.starts))
        return pulse if sound and isinstance(pulse.wrong, dict) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
