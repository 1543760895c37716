"""A thread with an event loop of its own, for code that may block, hang or try to end the process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Final

__all__ = ["Booth"]

_MOST_LEFT: Final = 4
_LAST_S: Final = 0.5


class Booth:
    """Makes one call at a time on its thread. A call that does not end when its caller leaves keeps it; the next has another.

    Threads are daemons: one that hangs does not keep the process from ending. Used from one event loop.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._threads: list[threading.Thread] = []
        self.left = 0

    async def call(self, work: Callable[[], object]) -> BaseException | None:
        """Calls ``work`` on the thread and awaits what it answers; answers what that raised, ``SystemExit`` included.

        Cancelling frees the caller at once.
        """
        async with self._turn:
            if self.left >= _MOST_LEFT:
                return TimeoutError(f"{self.left} earlier calls still hang")
            loop = self._start() if self._loop is None or self._loop.is_closed() else self._loop
            done: Future[BaseException | None] = asyncio.run_coroutine_threadsafe(_guarded(work), loop)
            try:
                return await asyncio.wrap_future(done)
            except asyncio.CancelledError:
                self._leave(loop)
                raise

    def close(self) -> None:
        """Ends the thread, and waits a moment for what was cancelled to clean up behind itself; what hangs is left."""
        loop, self._loop = self._loop, None
        if loop is not None:
            _stop(loop)
        for thread in self._threads:
            thread.join(_LAST_S)

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=_live, args=(loop,), name=f"cronpad-alert-{self._name}", daemon=True)
        self._threads.append(thread)
        thread.start()
        self._loop = loop
        return loop

    def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """The call was cancelled: its thread is left to end by itself, and counts until it has."""
        self._loop = None
        self.left += 1
        home = asyncio.get_running_loop()

        def ended() -> None:
            self.left -= 1

        def last() -> None:
            with contextlib.suppress(RuntimeError):  # the process ends, and its loop is closed
                home.call_soon_threadsafe(ended)

        _stop(loop, last)


async def _guarded(work: Callable[[], object]) -> BaseException | None:
    try:
        answer = work()
        if isinstance(answer, Awaitable):
            await answer
    except BaseException as error:  # as a value: SystemExit would end this loop, and be lost
        return error
    return None


def _live(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, last: Callable[[], None] | None = None) -> None:
    def stop() -> None:
        if last is not None:
            last()
        loop.stop()

    with contextlib.suppress(RuntimeError):  # it has ended already
        loop.call_soon_threadsafe(stop)
