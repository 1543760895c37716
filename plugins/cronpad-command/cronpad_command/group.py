"""Signals to a process group, and the question whether anything of it still runs."""

from __future__ import annotations

import asyncio
import os

__all__ = ["await_gone", "signal_group"]

_FIRST_LOOK = 0.001
_LATER_LOOKS = 0.02
_PROCESSES = "/proc"
_OVER = frozenset("ZX")


def signal_group(pgid: int, number: int) -> bool:
    """Sends a signal to all members at once; answers whether there was one to take it."""
    try:
        os.killpg(pgid, number)
    except (ProcessLookupError, PermissionError):
        # Not permitted means: none of the members is ours any more, or (macOS) all of them are zombies.
        return False
    return True


async def await_gone(pgid: int, *, within: float) -> bool:
    """Waits until no member of the group runs; for a group that was killed and whose leader is reaped.

    Bounded, as a member may hang in the kernel. Zombies count as gone: they have a new parent, which may take its time.
    """
    # Signal 0 asks and does nothing, so that it harms nobody when the number has been given to another group meanwhile.
    if not signal_group(pgid, 0):
        return True
    pause = _FIRST_LOOK
    await asyncio.sleep(pause)
    if not signal_group(pgid, 0):
        return True
    loop = asyncio.get_running_loop()
    until = loop.time() + within
    # Looked up once, as it costs a walk through all processes: a killed group has no new members.
    members = [name for name in _processes() if _runs_in(name, pgid)]
    while members and loop.time() < until:
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LATER_LOOKS)
        members = [name for name in members if _runs_in(name, pgid)]
    return not members


def _processes() -> list[str]:
    try:
        return [name for name in os.listdir(_PROCESSES) if name.isdigit()]
    except OSError:
        return []


def _runs_in(name: str, pgid: int) -> bool:
    try:
        with open(f"{_PROCESSES}/{name}/stat", "rb") as stat:
            text = stat.read()
    except OSError:
        return False
    # "pid (name) state parent group …", where the name may hold anything, ")" included.
    state, _parent, group = text[text.rindex(b")") + 1 :].split()[:3]
    return int(group) == pgid and state.decode() not in _OVER
