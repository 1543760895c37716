"""After the death of a nursery: ends what it left before anybody can start the same runs again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Collection, Sequence
from typing import Protocol

from cronpad_command.nursery.leftovers import orphans_of
from cronpad_command.nursery.processes import signal_exactly

__all__ = ["Listener", "kill_left", "sweep"]

_SWEEPS, _PAUSE = 100, 0.02


class Listener(Protocol):
    """Whoever waits for reports about one command."""

    pid: int
    run: bytes

    def hear(self, kind: bytes, rest: Sequence[bytes]) -> None:
        """A report about it, without its token."""

    def lose(self) -> None:
        """The nursery is gone; nothing of the command is left."""


def kill_left(lost: Collection[Listener]) -> bool:
    """Kills what a dead nursery has left of the commands; answers whether there was something."""
    runs = {listener.run for listener in lost if listener.run}
    sessions = {listener.pid for listener in lost if listener.pid}
    found = [process for processes in orphans_of(runs, sessions=sessions).values() for process in processes]
    for process in found:
        signal_exactly(process, signal.SIGKILL)
    return bool(found)


async def sweep(lost: Collection[Listener]) -> None:
    """Returns when nothing is left of the commands of a dead nursery, or what is left hangs in the kernel."""
    for _ in range(_SWEEPS):
        if not lost or not kill_left(lost):
            return
        await asyncio.sleep(_PAUSE)
