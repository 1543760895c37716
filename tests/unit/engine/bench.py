"""A workbench for parts of the engine: a clock that is set by hand, a memory state, and processes that may be declared dead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, TypeVar

from cronpad_core.builtin.memory import MemoryState, MemoryStorage
from cronpad_core.domain.dispatch import LockRow
from cronpad_core.domain.events import Event
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.dispatcher import Dispatcher
from cronpad_core.engine.patience import Patience
from cronpad_core.ports.storage import StorageOptions

__all__ = ["FULL", "TTL", "UNSEEN", "Bench", "Failing", "HandClock", "Holder", "holding", "lock", "run"]

T = TypeVar("T")

TTL = 15_000
FULL = 17
"""A full TTL of unchanged looks, one each second: the first only sees, sixteen more count past 15 s."""

UNSEEN = 32 + FULL
"""Two TTL of looks before the records are written, and one more before the lock is taken: a holder whose row is not to be seen."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Waits for it."""
    return asyncio.run(work)


class HandClock:
    """Time that moves when a test, or a sleep, moves it. ``on_sleep`` is called in each sleep."""

    def __init__(self, *, wall_ms: int = 1_767_225_600_000, boot_ms: int = 500_000) -> None:
        self.wall, self.boot, self.id = wall_ms, boot_ms, "boot-1"
        self.on_sleep: Callable[[], None] = lambda: None

    def wall_ms(self) -> int:
        """Unix time."""
        return self.wall

    def boot_ms(self) -> int:
        """Since the start."""
        return self.boot

    def boot_id(self) -> str:
        """This start."""
        return self.id

    def move(self, by_ms: int) -> None:
        """Lets time pass."""
        self.wall, self.boot = self.wall + by_ms, self.boot + by_ms

    async def sleep(self, duration_ms: int) -> None:
        """Moves time on."""
        self.move(max(duration_ms, 1))
        self.on_sleep()
        await asyncio.sleep(0)

    async def until(self, wall_ms: int) -> None:
        """Moves time to that instant."""
        await self.sleep(wall_ms - self.wall)


class Bench:
    """One machine and its state."""

    def __init__(self) -> None:
        self.clock, self.state, self.tuning = HandClock(), MemoryState(), Tuning()
        self.dead: set[str] = set()
        self.events: list[Event] = []
        self._words = count(1)

    def draw(self) -> str:
        """A fresh word."""
        return f"word-{next(self._words)}"

    def holder(self, name: str) -> Holder:
        """A process that may dispatch."""
        return Holder(self, name)


class Holder:
    """The dispatcher of one process over the shared state."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench, self.name = bench, name
        self.storage = MemoryStorage(StorageOptions(url="memory://", wall_ms=bench.clock.wall_ms), state=bench.state)
        self.authority = Authority(bench.clock)
        self.patience = Patience(bench.clock, self.authority, bench.events.append)
        self.dispatcher = self.build()

    def build(self) -> Dispatcher:
        """A dispatcher over the stores as they are now; a test may have replaced some."""
        self.dispatcher = Dispatcher(
            catalog=self.storage.catalog,
            history=self.storage.history,
            queue=self.storage.queue,
            clock=self.bench.clock,
            liveness=self,
            authority=self.authority,
            patience=self.patience,
            tuning=self.bench.tuning,
            draw=self.bench.draw,
            emit=self.bench.events.append,
        )
        return self.dispatcher

    def me(self) -> str:
        """Our name."""
        return self.name

    def dead(self, holder: str) -> bool:
        """Whether the test has declared it dead."""
        return holder in self.bench.dead

    async def looks(self, most: int = 100) -> int:
        """Looks once a second until the lock is taken; answers how many looks that took."""
        for number in range(1, most + 1):
            if await self.dispatcher.try_take():
                return number
            self.bench.clock.move(self.bench.tuning.look_ms)
        raise AssertionError(f"{self.name} did not take the lock in {most} looks")


class Failing:
    """A store of which some methods raise, as long as the test wants."""

    def __init__(self, inner: Any, error: Exception, *methods: str) -> None:
        self.inner, self.error, self.methods = inner, error, methods
        self.before: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        if name in self.methods:

            async def fail(*args: object, **rest: object) -> None:
                self.before()
                raise self.error

            return fail
        return getattr(self.inner, name)


def lock(bench: Bench) -> LockRow | None:
    """The row as it stands."""
    assert bench.state.queue.file is not None
    return bench.state.queue.file.lock


async def holding(bench: Bench, name: str = "a") -> Holder:
    """A process that holds the lock."""
    holder = bench.holder(name)
    assert await holder.looks() == 1
    return holder
