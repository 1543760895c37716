"""What the suites of the three stores share: one fixture, and how a test gets an opened storage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeAlias, TypeVar

import pytest

from cronpad_core.api import Storage
from cronpad_testkit.suites.suite import Suite

__all__ = ["BuildStorage", "NewState", "StorageSuite", "on_state", "on_storage", "opened", "run_on"]

BuildStorage: TypeAlias = Callable[[], Storage]
"""Builds another storage, not opened yet, on one and the same state."""

NewState: TypeAlias = Callable[[], BuildStorage]
"""Makes a new, empty state."""

_S = TypeVar("_S", bound="StorageSuite")


class StorageSuite(Suite):
    """The base of ``QueueStoreSuite``, ``CatalogSuite`` and ``HistorySuite``: override the fixture ``new_state``.

    Capabilities: ``shared`` (several storages may be open on one state at a time, as several processes would);
    ``queue_loss`` (``lose_queue`` takes the queue's file away while it is open).
    """

    known_capabilities: ClassVar[frozenset[str]] = frozenset({"shared", "queue_loss"})

    @pytest.fixture
    def new_state(self) -> NewState:
        """To be overridden: answers a function that makes an empty state and answers a function that builds storages on it."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture named new_state")

    def lose_queue(self, storage: Storage) -> None:
        """To be overridden with the capability ``queue_loss``: deletes the file of the queue, which stays open."""
        raise NotImplementedError


@asynccontextmanager
async def opened(build: BuildStorage) -> AsyncIterator[Storage]:
    """An open, prepared storage with an open queue; closed at the end."""
    storage = build()
    await storage.open()
    try:
        await storage.prepare()
        await storage.queue.open()
        yield storage
    finally:
        await storage.close()


def run_on(build: BuildStorage, body: Callable[[Storage], Coroutine[Any, Any, None]]) -> None:
    """Runs a coroutine function on an open storage."""

    async def with_storage() -> None:
        async with opened(build) as storage:
            await body(storage)

    asyncio.run(with_storage())


def on_storage(body: Callable[[_S, Storage], Coroutine[Any, Any, None]]) -> Callable[[_S, NewState], None]:
    """Makes a plain pytest test of a coroutine function that takes an open storage on an empty state."""

    async def with_storage(suite: _S, build: BuildStorage) -> None:
        async with opened(build) as storage:
            await body(suite, storage)

    return _plain(body, with_storage)


def on_state(body: Callable[[_S, BuildStorage], Coroutine[Any, Any, None]]) -> Callable[[_S, NewState], None]:
    """Makes a plain pytest test of a coroutine function that takes the builder of an empty state."""
    return _plain(body, body)


def _plain(
    body: Callable[..., object], run: Callable[[_S, BuildStorage], Coroutine[Any, Any, None]]
) -> Callable[[_S, NewState], None]:
    def test(self: _S, new_state: NewState) -> None:
        asyncio.run(run(self, new_state()))

    # Not functools.wraps: pytest would look through it and ask for a fixture with the name of the body's argument.
    test.__name__, test.__qualname__, test.__doc__, test.__module__ = (
        body.__name__,
        body.__qualname__,
        body.__doc__,
        body.__module__,
    )
    return test
