"""What all webhooks to one host and port share: a rate, room for so many at once, and a breaker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from cronpad_webhook.host_settings import HostSettings

__all__ = ["LeftAlone", "Places", "place_of"]


class LeftAlone(Exception):
    """The breaker of a place is open; ``wait_ms`` says how long still."""

    def __init__(self, place: str, wait_ms: int) -> None:
        super().__init__(f"{place} has failed too often and is left alone for {wait_ms / 1000:.3g} s")
        self.wait_ms = wait_ms


def place_of(url: str) -> str:
    """Host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


@dataclass(slots=True)
class _Place:
    room: asyncio.Semaphore | None
    users: int = 0
    failures: int = 0
    closed_until: float = 0.0
    trying: bool = field(default=False)


class Places:
    """Used from one event loop. A place that nobody uses and that has not failed is forgotten."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        self._places: dict[str, _Place] = {}
        self._rate: RateLimitItem | None = RateLimitItemPerSecond(settings.rate) if settings.rate else None
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    @asynccontextmanager
    async def visit(self, name: str) -> AsyncIterator[_Place]:
        """Waits for room and for the rate. Raises :class:`LeftAlone` where the breaker is open."""
        room = asyncio.Semaphore(self._settings.concurrency) if self._settings.concurrency else None
        place = self._places.setdefault(name, _Place(room=room))
        place.users += 1
        trial = False
        try:
            if place.room is not None:
                async with place.room:
                    trial = self._enter(name, place)
                    await self._wait_for_rate(name)
                    yield place
            else:
                trial = self._enter(name, place)
                await self._wait_for_rate(name)
                yield place
        finally:
            place.users -= 1
            if trial:
                place.trying = False
            if not place.users and not place.failures:
                self._places.pop(name, None)

    def tell(self, place: _Place, *, healthy: bool) -> None:
        """What became of a visit: an answer below 500 is healthy, whatever it means for the run."""
        if healthy:
            place.failures, place.closed_until = 0, 0.0
            return
        place.failures += 1
        after = self._settings.breaker_after
        if after and place.failures >= after:
            place.closed_until = asyncio.get_running_loop().time() + self._settings.breaker_for.total_seconds()

    def _enter(self, name: str, place: _Place) -> bool:
        """Whether this visit is the one that tries a place again; raises :class:`LeftAlone` for any other meanwhile."""
        after = self._settings.breaker_after
        if not after or place.failures < after:
            return False
        left = place.closed_until - asyncio.get_running_loop().time()
        if left > 0 or place.trying:
            raise LeftAlone(name, max(1, round(max(left, 1.0 if place.trying else 0.0) * 1000)))
        place.trying = True
        return True

    async def _wait_for_rate(self, name: str) -> None:
        if self._rate is None:
            return
        while not self._limiter.hit(self._rate, name):
            await asyncio.sleep(0.01)
