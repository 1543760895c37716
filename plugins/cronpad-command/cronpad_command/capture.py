"""What is kept of an output stream: its beginning, its end and how long it was."""

from __future__ import annotations

from cronpad_core.api import StreamCapture

__all__ = ["Capture"]


class Capture:
    """Takes a stream of any length in pieces; needs memory for the kept ends only (twice the tail, at most)."""

    __slots__ = ("_head", "_keep_head", "_keep_tail", "_name", "_tail", "_total")

    def __init__(self, name: str, *, keep_head: int, keep_tail: int) -> None:
        self._name = name
        self._keep_head = keep_head
        self._keep_tail = keep_tail
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def feed(self, piece: bytes) -> None:
        """Counts every byte; keeps those that belong to an end."""
        self._total += len(piece)
        room = self._keep_head - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        self._tail += piece[-self._keep_tail :] if self._keep_tail else b""
        # Trimmed only at twice the size: moving the bytes for every small piece would cost more than reading them.
        if len(self._tail) > 2 * self._keep_tail:
            self._trim()

    def result(self) -> StreamCapture:
        """What was kept so far."""
        self._trim()
        return StreamCapture(name=self._name, total=self._total, head=bytes(self._head), tail=bytes(self._tail))

    def _trim(self) -> None:
        surplus = len(self._tail) - self._keep_tail
        if surplus > 0:
            del self._tail[:surplus]
