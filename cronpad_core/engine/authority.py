"""Whether this process may dispatch right now: the term it holds and until when it trusts it."""

from __future__ import annotations

import asyncio

from cronpad_core.domain.timing import Millis
from cronpad_core.ports.clock import Clock

__all__ = ["Authority"]


class Authority:
    """Written by the dispatcher alone, asked by everybody before anything that counts.

    Trust ends by itself: it is a point on the boot clock, so a process that slept past it does not trust when it wakes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._trust_until_ms: Millis = -1
        self._lease_base_ms: Millis = 0
        self.term: int | None = None
        self.rebuilding = False
        self.doubts = asyncio.Event()
        self.changed = asyncio.Event()

    def trusted(self) -> bool:
        """Whether the lock is ours beyond doubt at this moment."""
        return self.term is not None and self._clock.boot_ms() < self._trust_until_ms

    def may_claim(self) -> bool:
        """Whether the queue is ours and whole."""
        return not self.rebuilding and self.trusted()

    def grant(self, term: int, *, trust_until_ms: Millis, lease_base_ms: Millis) -> None:
        """The lock was taken or renewed."""
        fresh = self.term != term
        self.term, self._trust_until_ms, self._lease_base_ms = term, trust_until_ms, lease_base_ms
        if fresh:
            self.changed.set()

    def revoke(self) -> None:
        """The lock is lost or given back."""
        self.term, self._trust_until_ms, self.rebuilding = None, -1, False
        self.changed.set()

    @property
    def trust_until_ms(self) -> Millis:
        """When trust ends, on the boot clock."""
        return self._trust_until_ms

    def lease_ms(self, boot_ms: Millis | None = None) -> Millis:
        """Lease time of a boot instant, now if none is given."""
        return self._lease_base_ms + (self._clock.boot_ms() if boot_ms is None else boot_ms)

    def doubt(self) -> None:
        """The queue behaves as if its file were damaged or another one: have it looked at now, not at the next renewal."""
        self.doubts.set()
