"""Who this process is, and whether another one is certainly gone."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Liveness"]


class Liveness(Protocol):
    """Evidence about processes; never the lock itself.

    V1. ``dead`` answers True only for a process that cannot run again: a stopped or unreachable one is not dead.
    """

    def me(self) -> str:
        """This process's identity as text: unique over all processes and machines, the same for as long as it lives.

        Called at each taking, which is when evidence of our own life (a file lock) is put in place.
        """

    def dead(self, holder: str) -> bool:
        """Whether the holder of that identity is provably gone. (V1)"""
