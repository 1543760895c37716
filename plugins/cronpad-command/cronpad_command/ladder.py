"""From a started child to its end: by itself, or up the ladder TERM, grace, KILL."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cronpad_core.api import SECOND, CancelSignal, Child, Ended, Millis

__all__ = ["Cause", "Ending", "see_through"]

_KILL = "kill"


class Cause(Enum):
    """Why a child ended."""

    ITSELF = "itself"
    TIMEOUT = "timeout"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a child ended and why; ``killed`` that KILL was needed."""

    ended: Ended
    cause: Cause
    killed: bool = False


async def see_through(child: Child, *, cancel: CancelSignal, timeout_ms: Millis, kill_grace_ms: Millis) -> Ending:
    """Waits for the child, or ends it; when this returns or raises, nothing of it runs.

    Cancelled, it kills the child, waits until that has worked, and passes the cancellation on.
    """
    waiting = asyncio.ensure_future(child.wait())
    try:
        cause = await _cause(waiting, cancel, timeout_ms)
        # A leader that ended in time may only be lingering for its output: its own exit status is the truth.
        if cause is Cause.ITSELF or child.leader_ended:
            return Ending(ended=await waiting, cause=Cause.ITSELF)
        killed = await _end(child, waiting, cancel, kill_grace_ms)
        return Ending(ended=await waiting, cause=cause, killed=killed)
    except BaseException:
        child.kill()
        await asyncio.wait({waiting})
        raise


async def _cause(waiting: asyncio.Future[Ended], cancel: CancelSignal, timeout_ms: Millis) -> Cause:
    asked = asyncio.ensure_future(cancel.wait())
    both: set[asyncio.Future[Any]] = {waiting, asked}
    try:
        done, _ = await asyncio.wait(both, timeout=timeout_ms / SECOND, return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
    if waiting in done:
        return Cause.ITSELF
    return Cause.CANCEL if asked in done else Cause.TIMEOUT


async def _end(child: Child, waiting: asyncio.Future[Ended], cancel: CancelSignal, kill_grace_ms: Millis) -> bool:
    """TERM, and KILL once the grace is over or somebody asks for it; answers whether it came to that."""
    if cancel.stage != _KILL:
        child.terminate()
        asked = asyncio.ensure_future(_kill_asked(cancel))
        both: set[asyncio.Future[Any]] = {waiting, asked}
        try:
            await asyncio.wait(both, timeout=kill_grace_ms / SECOND, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        if waiting.done() or child.leader_ended:
            return False
    child.kill()
    return True


async def _kill_asked(cancel: CancelSignal) -> None:
    while cancel.stage != _KILL:
        await cancel.wait()
