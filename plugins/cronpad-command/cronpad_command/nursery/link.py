"""The nursery's end of the socket: whole messages, and never waiting for the runner."""

from __future__ import annotations

import array
import os
import socket
from collections import deque

from cronpad_command.nursery import wire

__all__ = ["Link"]

_MOST_DESCRIPTORS = 3
_MISSING = 2


class Link:
    """Hears orders and says reports; what the runner does not take yet is kept."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._link.setblocking(False)
        self.unsaid: deque[bytes] = deque()

    def fileno(self) -> int:
        """For polling."""
        return self._link.fileno()

    def close(self) -> None:
        """Ends the conversation; what is said later goes nowhere."""
        self._link.close()
        self.unsaid.clear()

    def say(self, kind: bytes, *parts: bytes | int) -> None:
        """Sends a report, now or later."""
        if self._link.fileno() < 0:
            return
        self.unsaid.append(wire.message(kind, *parts))
        self.flush()

    def flush(self) -> bool:
        """Sends what can be sent; answers ``False`` when the runner is gone."""
        while self.unsaid:
            try:
                self._link.send(self.unsaid[0])
            except BlockingIOError:
                return True
            except OSError:
                # The life pipe tells it as well, and that is where it is acted on.
                self.unsaid.clear()
                return False
            self.unsaid.popleft()
        return True

    def hear(self) -> tuple[bytes, list[bytes], list[int]] | None:
        """The next order with its descriptors; ``None`` when there is none at present, CLOSE when the runner is gone."""
        if self._link.fileno() < 0:
            return None
        space = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
        try:
            packet, ancillary, _flags, _address = self._link.recvmsg(wire.LARGEST + 4_096, space, socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            return None
        except ConnectionResetError:
            # The runner did not read all reports before it closed; its last orders are still there.
            return self.hear()
        if not packet:
            return wire.CLOSE, [b"2000"], []
        descriptors = array.array("i")
        for _level, _kind, data in ancillary:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        kind, rest = wire.fields(packet)
        held = list(descriptors)
        if len(held) > _MISSING:
            with os.fdopen(held.pop(), "rb") as long:
                long.seek(0)
                rest = long.read().split(b"\0")
        return kind, rest, held
