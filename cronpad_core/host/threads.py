"""How many threads may run plain ``def deliver`` at once, and how many of them have been left behind.

A thread cannot be ended from outside. When its caller gives up, the thread counts as leaked and its place is given to the next
caller, as if the pool had been replaced: a hung sink must not use up the places of all others. Threads are daemons, so a hung one
does not keep the process from ending either.
"""

from __future__ import annotations

import asyncio

__all__ = ["ThreadSlots"]


class ThreadSlots:
    """A bounded number of places. Used from one event loop."""

    def __init__(self, places: int) -> None:
        self._places = asyncio.Semaphore(places)
        self.leaked = 0

    async def take(self) -> _Slot:
        """Waits for a free place."""
        await self._places.acquire()
        return _Slot(self)

    def _left(self) -> None:
        self._places.release()


class _Slot:
    """One place: free again when its caller left; leaked from then until its thread ends."""

    def __init__(self, slots: ThreadSlots) -> None:
        self._slots = slots
        self._thread_ended = False
        self._caller_left = False

    def thread_ended(self) -> None:
        """The thread is over, whether or not anybody waited."""
        self._thread_ended = True
        if self._caller_left:
            self._slots.leaked -= 1

    def caller_left(self) -> None:
        """The caller has its answer or gave up."""
        self._caller_left = True
        self._slots._left()
        if not self._thread_ended:
            self._slots.leaked += 1
