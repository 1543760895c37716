"""One thread that owns one connection: callers of an event loop hand it operations and await the answers."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from cronpad_core.api import StoreBusyError, StoreError

__all__ = ["Bulk", "Errand", "Errands", "Operation", "carry_out"]

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")
Operation = Callable[[sqlite3.Connection], T]
Bulk = Callable[[sqlite3.Connection, Sequence[Q]], Sequence[A]]

_WAITING = 20_000
"""More waiting operations than this are refused: something below is stuck, and memory is not the place to wait in."""


@dataclass(slots=True, eq=False)
class Errand:
    """One operation that waits for its turn: ``run``, or ``bulk`` over ``requests`` (which may be merged with its neighbours).

    ``alone`` asks to run outside any transaction; ``single`` has one request, and its answer is that to the request itself.
    """

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    run: Operation[object] | None = None
    bulk: Bulk[Any, Any] | None = None
    requests: Sequence[object] = ()
    alone: bool = False
    single: bool = False
    answer: object = None
    error: BaseException | None = None


@dataclass(slots=True, eq=False)
class Errands:
    """The thread and its inbox. What was handed in before :meth:`close` is done before the thread ends.

    A caller that is cancelled gets no answer, but its operation is carried out like any other.
    """

    file: str
    connect: Callable[[], sqlite3.Connection]
    db: sqlite3.Connection | None = None
    _dropped: sqlite3.Connection | None = None
    backlog: deque[Errand | None] = field(default_factory=deque)
    _gathered: dict[asyncio.AbstractEventLoop, list[Errand]] = field(default_factory=dict)
    _inbox: SimpleQueue[Errand | None] = field(default_factory=SimpleQueue)
    _thread: threading.Thread | None = None
    _ended: Future[None] = field(default_factory=Future)
    _closed: bool = False

    async def run(self, operation: Operation[T], *, alone: bool = False) -> T:
        """Carries out one operation. Raises the port's errors, and whatever the operation itself raises."""
        loop = asyncio.get_running_loop()
        errand = Errand(loop, loop.create_future(), run=operation, alone=alone)
        return cast("T", await self._submit(errand))

    async def run_bulk(self, bulk: Bulk[Q, A], requests: Sequence[Q]) -> list[A]:
        """Carries out ``bulk``, perhaps together with the requests of other callers of the same ``bulk``."""
        if not requests:
            return []
        loop = asyncio.get_running_loop()
        errand = Errand(loop, loop.create_future(), bulk=bulk, requests=requests)
        return cast("list[A]", await self._submit(errand))

    def ask(self, bulk: Bulk[Q, A], request: Q) -> asyncio.Future[A]:
        """As :meth:`run_bulk` with one request: the answer to it."""
        loop = asyncio.get_running_loop()
        errand = Errand(loop, loop.create_future(), bulk=bulk, requests=(request,), single=True)
        return self._submit(errand)

    async def close(self) -> None:
        """Waits until all is done and the connection is closed. Closed twice is closed once."""
        self._closed = True
        for loop in list(self._gathered):
            self._hand_over(loop)
        if self._thread is not None:
            self._inbox.put(None)
            await asyncio.wrap_future(self._ended)

    def _submit(self, errand: Errand) -> asyncio.Future[Any]:
        if self._closed:
            raise StoreError(f"{self.file} is closed")
        if self._inbox.qsize() > _WAITING:
            raise StoreBusyError(f"{self.file}: {_WAITING} operations are waiting already")
        gathered = self._gathered.get(errand.loop)
        if gathered is None:
            # What one turn of the loop asks for is handed over in one go: a thread that is woken by the first of many
            # operations begins with that one alone, and takes turns with the loop at the interpreter.
            self._gathered[errand.loop] = [errand]
            errand.loop.call_soon(self._hand_over, errand.loop)
        else:
            gathered.append(errand)
        return errand.future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        gathered = self._gathered.pop(loop, None)
        if gathered is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name=f"cronpad-sql {self.file}", daemon=True)
            self._thread.start()
        for errand in gathered:
            self._inbox.put(errand)

    def _loop(self) -> None:
        try:
            self._serve_all()
        finally:
            self._ended.set_result(None)

    def _serve_all(self) -> None:
        while True:
            if not self.backlog:
                try:
                    self.backlog.append(self._inbox.get(timeout=self.idle_for()))
                except Empty:
                    self.idle()
                    continue
            first = self.backlog.popleft()
            if first is None:
                break
            try:
                self.serve(first)
            except BaseException as error:  # a mistake in this package must not end the thread: others wait for it
                self.drop_connection()
                self.settle([first], error)
        self.ended()
        self.drop_connection()
        self._close_dropped()
        # What came after the end, from callers on other threads, still gets an answer.
        late = [errand for errand in self.drain() if errand is not None]
        self.settle(late, StoreError(f"{self.file} is closed"))

    def drain(self, limit: int = _WAITING) -> deque[Errand | None]:
        """Moves what is waiting, up to ``limit``, into the backlog, and answers the backlog."""
        try:
            while len(self.backlog) < limit:
                self.backlog.append(self._inbox.get_nowait())
        except Empty:
            pass
        return self.backlog

    def group(self, first: Errand, room: int) -> list[Errand]:
        """``first`` with the errands right behind it that ask the same of other requests."""
        group = [first]
        if first.bulk is None:
            return group
        room -= len(first.requests)
        waiting = self.drain(room)
        while waiting and (behind := waiting[0]) is not None and behind.bulk is first.bulk and len(behind.requests) <= room:
            group.append(behind)
            room -= len(behind.requests)
            waiting.popleft()
        return group

    def connection(self) -> sqlite3.Connection:
        """The connection of this thread, opened where it is not."""
        if self.db is None:
            self.db = self.connect()
            self._close_dropped()
        return self.db

    def drop_connection(self) -> None:
        """Gives up a connection that is not to be trusted; the next use opens another.

        It is closed only then: the last one to close a file takes its log along, which would look like somebody's theft.
        """
        if self.db is None:
            return
        self._close_dropped()
        self._dropped, self.db = self.db, None
        with suppress(sqlite3.Error):
            if self._dropped.in_transaction:
                self._dropped.execute("ROLLBACK")

    def _close_dropped(self) -> None:
        db, self._dropped = self._dropped, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()

    def serve(self, first: Errand) -> None:
        """Carries out ``first``, and as much of the backlog as it likes, and settles them."""
        raise NotImplementedError

    def idle_for(self) -> float | None:
        """After how many seconds without work :meth:`idle` is called; ``None`` for never."""
        return None

    def idle(self) -> None:
        """Called when nothing came for a while."""

    def ended(self) -> None:
        """Called at the end, before the connection is closed."""

    def settle(self, errands: Sequence[Errand], error: BaseException | None = None) -> None:
        """Gives the callers their answers, one wake-up for each loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Errand]] = {}
        for errand in errands:
            if error is not None:
                errand.error = error
            by_loop.setdefault(errand.loop, []).append(errand)
        for loop, own in by_loop.items():
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_resolve, own)


def _resolve(errands: Sequence[Errand]) -> None:
    for errand in errands:
        if errand.future.done():
            continue
        if errand.error is None:
            errand.future.set_result(errand.answer)
        elif isinstance(errand.error, StopIteration):
            errand.future.set_exception(RuntimeError(f"an operation raised {errand.error!r}"))
        else:
            errand.future.set_exception(errand.error)


def carry_out(db: sqlite3.Connection, group: list[Errand]) -> None:
    """Carries out what :meth:`Errands.group` put together, and gives each its own answers."""
    first = group[0]
    if first.bulk is None:
        assert first.run is not None
        first.answer = first.run(db)
        return
    requests = first.requests if len(group) == 1 else [one for errand in group for one in errand.requests]
    answers = list(first.bulk(db, requests))
    at = 0
    for errand in group:
        if errand.single:
            errand.answer = answers[at]
            at += 1
        else:
            errand.answer = answers[at : at + len(errand.requests)]
            at += len(errand.requests)
