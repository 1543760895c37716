"""The other end of the control socket: asks the process that dispatches on a state."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from cronpad_core.domain.errors import CronpadError, NotRunningError
from cronpad_core.domain.timing import SECOND, JsonValue, Millis
from cronpad_core.runtime.control_protocol import error_of, line_of, parse_line, reachable

__all__ = ["ANSWERED_MS", "ControlClient"]

ANSWERED_MS: Final[Millis] = 30 * SECOND
"""How long an operation may take, stores that are locked for a while included."""

_PIECE: Final = 64 * 1024
_LARGEST: Final = 64 * 1024 * 1024


class ControlClient:
    """One connection, which asks one thing after the other."""

    def __init__(self, connection: socket.socket, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._rest = bytearray()
        self._asked = 0

    @classmethod
    async def connect(cls, path: Path) -> ControlClient:
        """Connects to the socket at that place. Raises ``NotRunningError`` where there is none, or nobody listens."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            with reachable(path) as address:
                await asyncio.get_running_loop().sock_connect(connection, address)
        except OSError as error:
            connection.close()
            raise NotRunningError(
                f"nobody listens at {path}: {error.strerror or error}", hint="start one with 'cronpad run FILE --state DIR'"
            ) from error
        except BaseException:
            connection.close()
            raise
        return cls(connection, path)

    async def ask(
        self, operation: str, arguments: Mapping[str, JsonValue], *, within_ms: Millis | None = ANSWERED_MS
    ) -> dict[str, JsonValue]:
        """The result of an operation; ``within_ms`` of ``None`` waits as long as it takes.

        Raises the error that the other process answered, by its class, and ``NotRunningError`` where it did not answer: then it
        is not known whether the operation was done.
        """
        self._asked += 1
        line = line_of({"id": self._asked, "op": operation, "arguments": dict(arguments)})
        try:
            async with asyncio.timeout(None if within_ms is None else within_ms / 1000):
                with suppress(BrokenPipeError, ConnectionResetError):  # whoever sends us away says why first
                    await asyncio.get_running_loop().sock_sendall(self._connection, line)
                answer = parse_line(await self._line())
        except TimeoutError as error:
            raise self._silent("has not answered") from error
        except OSError as error:
            raise self._silent("went away before it answered") from error
        result = answer.get("result")
        if answer.get("ok") is not True:
            raise error_of(answer.get("error"))
        if not isinstance(result, dict):
            raise CronpadError("the answer has no result that can be read")
        return result

    def _silent(self, what: str) -> NotRunningError:
        return NotRunningError(
            f"the process at {self._path} {what}: it is not known whether it was done",
            hint="look with 'cronpad runs list' or 'cronpad jobs list' before asking again; 'cronpad health' says how it is",
        )

    async def _line(self) -> bytes:
        loop, searched = asyncio.get_running_loop(), 0
        while (end := self._rest.find(b"\n", searched)) < 0:
            searched = len(self._rest)
            piece = await loop.sock_recv(self._connection, _PIECE)
            if not piece or searched > _LARGEST:
                raise ConnectionResetError("the connection ended within a line")
            self._rest += piece
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line

    async def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    async def __aenter__(self) -> ControlClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
