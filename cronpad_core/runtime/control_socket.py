"""The control socket: how other processes of the same user ask the active one for something.

It is there while this process dispatches, and nobody but the same user and root is heard. Whatever a client sends, or fails to
take, ends in an error for that client alone. The words of the protocol are in :mod:`cronpad_core.runtime.control_protocol`.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import struct
import sys
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from cronpad_core.control.desk import Desk
from cronpad_core.control.operations import perform
from cronpad_core.domain.errors import ConfigurationError, CronpadError, TermRefusedError
from cronpad_core.domain.events import DispatcherChanged, Event
from cronpad_core.domain.timing import MINUTE, SECOND, JsonValue, Millis
from cronpad_core.runtime.control_protocol import BUSY, LINE_LIMIT, SOCKET, error_document, line_of, parse_line, reachable
from cronpad_core.runtime.run_ends import RunEnds

__all__ = ["ControlSocket", "Document", "Operation"]

Document = dict[str, JsonValue]
Operation = Callable[[Mapping[str, JsonValue]], Awaitable[Document]]
"""Takes the arguments of a request and answers its result. Raises ``CronpadError``."""

_MOST: Final = 32
_IDLE_MS: Final[Millis] = MINUTE
_LAST_MS: Final[Millis] = 2 * SECOND
_MEND_MS: Final[Millis] = 10 * SECOND
_STOPPING: Final = "this cronpad stops, or has lost the dispatcher lock"


class ControlSocket:
    """The socket of one state directory, of one process.

    ``operations`` are those that only this process can do, beside the ones of the desk and ``ping`` and ``wait``. ``note`` is told
    what somebody should read who looks after the process. A client that sends nothing for ``idle_ms`` is sent away.
    """

    def __init__(
        self,
        directory: Path,
        desk: Desk,
        *,
        name: str = SOCKET,
        operations: Mapping[str, Operation] | None = None,
        note: Callable[[str], None] = lambda text: None,
        idle_ms: Millis = _IDLE_MS,
        most: int = _MOST,
    ) -> None:
        self._path = directory / name
        self._desk = desk
        self._ends = RunEnds(desk.history, desk.clock)
        self._operations: dict[str, Operation] = {"ping": self._ping, **(operations or {})}
        self._note = note
        self._idle_s = idle_ms / 1000
        self._most = most
        self._clients: set[asyncio.Task[None]] = set()
        self._working: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._file: tuple[int, int] | None = None
        self._closing = False
        self._changed = asyncio.Event()
        self._told = ""

    # ------------------------------------------------------------------------------------------------ opening and closing

    async def follow(self, active: asyncio.Event) -> None:
        """Open while ``active`` is set, until cancelled; a change is looked at when :meth:`heard` is told of it."""
        try:
            while True:
                self._changed.clear()
                if active.is_set():
                    await self.open()
                else:
                    await self.close()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_MEND_MS / 1000):
                        await self._changed.wait()
        finally:
            await self.close()

    async def open(self) -> None:
        """Listens, in the place of what a dead process left there; again where the file was taken away meanwhile.

        Where it cannot, that is noted: jobs run all the same. Without a term it changes nothing: the place may be another's.
        """
        if self._desk.term() is None or (self._server is not None and self._in_place()):
            return
        try:
            listener = self._bind()
        except OSError as error:
            self._tell(f"no control socket at {self._path}: {error.strerror or error}; commands cannot reach this process")
            return
        if self._server is not None:
            self._server.close()
        self._closing = False
        self._server = await _server_on(listener, self._serve)
        await self._server.start_serving()  # may be cancelled: by now the server is known, and closed by whoever cancels

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._note(text)
        self._told = text

    def _in_place(self) -> bool:
        with suppress(OSError):
            return _identity(self._path) == self._file
        return False

    def _bind(self) -> socket.socket:
        """A listening socket that takes its place at once, so that a client finds the old one or this one."""
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            draft.unlink(missing_ok=True)
            with reachable(draft) as address:
                listener.bind(address)
            draft.chmod(0o600)
            listener.listen(self._most)
            self._file = _identity(draft)
            draft.replace(self._path)
        except BaseException:
            listener.close()
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        return listener

    async def close(self) -> None:
        """Lets no more clients in, lets what is being done come to its end for a moment, and removes the socket if it is ours."""
        server, self._server = self._server, None
        if server is None:
            return
        self._closing = True
        if self._in_place():
            with suppress(OSError):
                self._path.unlink()
        server.close()
        self._ends.release()
        for task in self._clients - self._working:
            task.cancel()
        if self._working:
            await asyncio.wait(set(self._working), timeout=_LAST_MS / 1000)
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def heard(self, event: Event) -> None:
        """Something happened in the engine: whoever waits for the end of that run looks again."""
        if isinstance(event, DispatcherChanged):
            self._changed.set()
        self._ends.heard(event)

    # ------------------------------------------------------------------------------------------------------------ clients

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            refusal = self._refusal(writer)
            if refusal is None:
                await self._talk(reader, writer, task)
            else:
                await self._answer(writer, {"id": None, "ok": False, "error": refusal})
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # it has gone, it does not take its answer, or the socket closes
        except Exception as error:  # a client's trouble must not reach the runner
            self._note(f"a client of the control socket was sent away: {type(error).__name__}: {error}")
        finally:
            self._clients.discard(task)
            writer.close()

    def _refusal(self, writer: StreamWriter) -> Document | None:
        uid = _peer(writer)
        if uid not in (None, 0, os.geteuid()):
            return {"kind": "refused", "message": f"user {uid} may not control a cronpad of user {os.geteuid()}", "hint": None}
        if len(self._clients) > self._most:
            return {"kind": BUSY, "message": f"the control socket has {self._most} clients already", "hint": "try again"}
        return None

    async def _talk(self, reader: StreamReader, writer: StreamWriter, task: asyncio.Task[None]) -> None:
        """One request after the other, until the client goes, is silent for too long, or says more than a line may hold."""
        last = False
        while not last and not self._closing:
            try:
                async with asyncio.timeout(self._idle_s):
                    line = await reader.readuntil()
            except IncompleteReadError as rest:
                line, last = rest.partial, True
                if not line.strip():
                    return
            except LimitOverrunError:
                fault = ConfigurationError(f"a line has at most {LINE_LIMIT:,} bytes")
                await self._answer(writer, {"id": None, "ok": False, "error": error_document(fault)})
                return
            self._working.add(task)
            try:
                await self._answer(writer, await self._reply(line, writer))
            finally:
                self._working.discard(task)

    async def _answer(self, writer: StreamWriter, document: Document) -> None:
        writer.write(line_of(document))
        async with asyncio.timeout(self._idle_s):
            await writer.drain()

    # ----------------------------------------------------------------------------------------------------------- requests

    async def _reply(self, line: bytes, writer: StreamWriter) -> Document:
        reply: Document = {"id": None, "ok": False}
        try:
            request = parse_line(line)
            reply["id"] = request.get("id")
            result = await self._perform(request, writer)
            line_of(result)
            return {**reply, "ok": True, "result": result}
        except CronpadError as error:
            return {**reply, "error": error_document(error)}
        except (OSError, TimeoutError):
            raise
        except Exception as error:  # a mistake of ours in one operation: the runner goes on
            self._note(f"a control operation failed: {type(error).__name__}: {error}")
            return {**reply, "error": error_document(CronpadError(f"{type(error).__name__}: {error}"))}

    async def _perform(self, request: Document, writer: StreamWriter) -> Document:
        name, arguments = request.get("op"), request.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise ConfigurationError('a request is {"id": …, "op": "word", "arguments": {…}}')
        if self._closing:
            raise TermRefusedError(_STOPPING)
        if name == "wait":
            return await self._ends.wait(arguments, lambda: _gone(writer), _STOPPING)
        own = self._operations.get(name)
        return await (perform(self._desk, name, arguments) if own is None else own(arguments))

    async def _ping(self, _: Mapping[str, JsonValue]) -> Document:
        return {"pid": os.getpid(), "term": self._desk.term()}


async def _server_on(listener: socket.socket, serve: Callable[[StreamReader, StreamWriter], Awaitable[None]]) -> asyncio.Server:
    start = partial(asyncio.start_unix_server, serve, sock=listener, limit=LINE_LIMIT, start_serving=False)
    if sys.version_info >= (3, 13):  # it would remove a file by the name that was bound, which is another's by then
        return await start(cleanup_socket=False)
    return await start()


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def _peer(writer: StreamWriter) -> int | None:
    """The user at the other end; ``None`` on a system that says it in another way, where the file's mode must do."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    shape = struct.Struct("3i")
    credentials = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, option, shape.size)
    return int(shape.unpack(credentials)[1])


def _gone(writer: StreamWriter) -> bool:
    """Whether the client has closed its end; one that only says no more still wants its answer."""
    poll = select.poll()
    poll.register(writer.get_extra_info("socket").fileno(), 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))
