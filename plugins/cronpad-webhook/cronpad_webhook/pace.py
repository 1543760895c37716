"""Lets a burst begin a few at a time, so that whatever else runs on the loop has its turn in between."""

from __future__ import annotations

import asyncio
from typing import Final

__all__ = ["Pace"]

_TOGETHER: Final = 8


class Pace:
    """Of those who come in one turn of the loop eight begin in each turn; who comes alone does not wait."""

    def __init__(self) -> None:
        self._waiting = 0

    async def turn(self) -> None:
        """Returns when it is the caller's turn."""
        ahead = self._waiting
        if ahead == 0:
            asyncio.get_running_loop().call_soon(self._next)
        self._waiting += 1
        for _ in range(ahead // _TOGETHER):
            await asyncio.sleep(0)

    def _next(self) -> None:
        self._waiting = max(0, self._waiting - _TOGETHER)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
