"""Reads a pipe on the event loop, so that whoever writes into it is never blocked for long."""

from __future__ import annotations

import asyncio
import os

from cronpad_command.capture import Capture
from cronpad_core.api import StreamCapture

__all__ = ["Pump"]

_CHUNK = 65_536
# A pipe's buffer is 64 KiB, and 1 MiB for a writer that asked for it: so many reads empty it, whatever is written meanwhile.
_LAST_CHUNKS = 16


class Pump:
    """Owns the reading end of a pipe, from construction to :meth:`close`, and feeds what comes into a capture."""

    def __init__(self, descriptor: int, capture: Capture) -> None:
        self._descriptor = descriptor
        self._capture = capture
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self.at_end = asyncio.Event()
        os.set_blocking(descriptor, False)

    def start(self) -> None:
        """Reads from now on, as the loop finds time. Raises ``OSError`` when the loop cannot watch the pipe."""
        self._loop.add_reader(self._descriptor, self._read)
        self._reading = True

    def drain(self) -> None:
        """Takes what is in the pipe at this moment, without waiting for more."""
        for _ in range(_LAST_CHUNKS):
            if self.at_end.is_set() or not self._read():
                return

    def close(self) -> None:
        """Stops reading and closes the pipe; a writer that is left gets EPIPE. Harmless when repeated."""
        self._stop()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def result(self) -> StreamCapture:
        """What has been read so far."""
        return self._capture.result()

    def _read(self) -> bool:
        """Takes one piece, so that a chatty child leaves the loop to others in between; answers whether there was one."""
        try:
            piece = os.read(self._descriptor, _CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            piece = b""
        if piece:
            self._capture.feed(piece)
            return True
        self._stop()
        self.at_end.set()
        return False

    def _stop(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._descriptor)
            self._reading = False
