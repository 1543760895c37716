"""Trouble with a store is waited out: tried again with back-off for ever, told once per episode."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from cronpad_core.domain.errors import CommitUnknownError, StoreDamagedError, StoreError
from cronpad_core.domain.events import Event, StoreFailed, StoreRecovered
from cronpad_core.domain.timing import SECOND, Millis
from cronpad_core.engine.authority import Authority
from cronpad_core.ports.clock import Clock

__all__ = ["Emit", "Patience"]

T = TypeVar("T")
Emit = Callable[[Event], None]

_FIRST, _LONGEST = 100, 5 * SECOND
# A full disk, or a lock of somebody else, refuses writes while reads go on answering, and a refused write may take five seconds to
# be: that is one episode, not many.
_CALM = 6 * SECOND


class Patience:
    """Calls stores on behalf of the line and keeps the book of their failing."""

    def __init__(self, clock: Clock, authority: Authority, emit: Emit) -> None:
        self._clock = clock
        self._authority = authority
        self._emit = emit
        self._failing: dict[str, tuple[Millis, Millis]] = {}

    @property
    def failing(self) -> frozenset[str]:
        """The stores that do not answer at the moment."""
        return frozenset(self._failing)

    def failed(self, store: str, error: StoreError) -> None:
        """Notes a failure; the first of an episode is told."""
        if store == "queue" and isinstance(error, StoreDamagedError):
            self._authority.doubt()
        now = self._clock.boot_ms()
        since, _ = self._failing.get(store, (now, now))
        if store not in self._failing:
            self._emit(StoreFailed(store=store, error=str(error)))
        self._failing[store] = since, now

    def answered(self, store: str) -> None:
        """Notes that a store answers; the end of an episode is told, once it answers for a while."""
        if store not in self._failing:
            return
        since, last = self._failing[store]
        now = self._clock.boot_ms()
        if now - last >= _CALM:
            del self._failing[store]
            self._emit(StoreRecovered(store=store, after_ms=now - since))

    async def attempt(self, store: str, call: Callable[[], Awaitable[T]]) -> T:
        """Calls once, keeping the book; the error is the caller's."""
        try:
            result = await call()
        except StoreError as error:
            self.failed(store, error)
            raise
        self.answered(store)
        return result

    async def insist(self, store: str, call: Callable[[], Awaitable[T]]) -> T:
        """Calls until the store answers. Only for calls that do no harm when an unknown one had been applied."""
        try:
            result = await call()
        except StoreError as error:
            self.failed(store, error)
            result, _ = await self._again(store, call, unknown=False)
            return result
        self.answered(store)
        return result

    async def insist_knowing(self, store: str, call: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """As ``insist``; also whether an earlier try may have been applied, so that a "no" may be our own echo."""
        try:
            result = await call()
        except StoreError as error:
            self.failed(store, error)
            return await self._again(store, call, unknown=isinstance(error, CommitUnknownError))
        self.answered(store)
        return result, False

    async def _again(self, store: str, call: Callable[[], Awaitable[T]], *, unknown: bool) -> tuple[T, bool]:
        pause = _FIRST
        while True:
            await self._clock.sleep(pause)
            pause = min(pause * 2, _LONGEST)
            try:
                return await self.attempt(store, call), unknown
            except StoreError as error:
                unknown = unknown or isinstance(error, CommitUnknownError)
