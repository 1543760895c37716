"""After the death of a nursery: ends what it left before anybody can start the same runs again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import Protocol

from cronpad_command.nursery.leftovers import orphans_of
from cronpad_command.nursery.processes import signal_exactly

__all__ = ["Listener", "sweep"]

_SWEEPS, _PAUSE = 100, 0.02


class Listener(Protocol):
    """Whoever waits for reports about one command."""

    pid: int
    run: bytes

    def hear(self, kind: bytes, rest: Sequence[bytes]) -> None:
        """A report about it, without its token."""

    def lose(self) -> None:
        """The nursery died; nothing of the command is left."""


async def sweep(lost: Sequence[Listener]) -> None:
    """Kills what a dead nursery left of the commands, then tells of their loss, so that no retry meets an old copy."""
    runs = {listener.run for listener in lost if listener.run}
    sessions = {listener.pid for listener in lost if listener.pid}
    try:
        for _ in range(_SWEEPS):
            found = [process for processes in orphans_of(runs, sessions=sessions).values() for process in processes]
            if not found:
                break
            for process in found:
                signal_exactly(process, signal.SIGKILL)
            await asyncio.sleep(_PAUSE)
    finally:
        for listener in lost:
            listener.lose()
