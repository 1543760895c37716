"""Starting and ending operating-system processes: what the command sink needs from the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cronpad_core.domain.outcome import StreamCapture
from cronpad_core.domain.timing import Millis

__all__ = ["Child", "Ended", "SpawnError", "SpawnRequest", "Spawner"]


class SpawnError(Exception):
    """The process could not be started.

    ``code`` is what a shell would answer: 127 for a program that is not there, 126 for one that cannot be executed (or a bad
    working directory); ``resource`` that the machine had no room (EAGAIN, ENOMEM, EMFILE), so that trying again can help.
    """

    def __init__(self, message: str, *, code: int, resource: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.resource = resource


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """What to start: ``argv`` without a shell, ``env`` complete, output kept up to the given bytes at either end.

    ``linger_ms`` is how long output is read on after the leader's end while something else holds the pipes open. A spawner that
    knows of an earlier copy of the same run waits up to ``patience_ms`` for its end before it starts this one, or does not.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None = None
    keep_head: int = 65_536
    keep_tail: int = 65_536
    linger_ms: Millis = 1_000
    patience_ms: Millis = 15_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the leader ended: ``exit_code``, or the ``signal`` that killed it; and its output as kept."""

    exit_code: int | None
    signal: int | None
    output: tuple[StreamCapture, ...]


class Child(Protocol):
    """One started process, leader of its own session, and all that it started in its group.

    P1. ``wait`` depends on the leader alone: a grandchild that holds the pipes open delays it by a short linger at most.
    P2. After ``wait`` has returned, no process of the group is left.
    P3. No descriptor is left open after ``wait``.
    """

    pid: int

    @property
    def leader_ended(self) -> bool:
        """Whether the leader is gone, so that ``wait`` only lingers."""

    async def wait(self) -> Ended:
        """Waits for the leader, ends what is left of its group, and answers."""

    def terminate(self) -> None:
        """TERM to the whole group; a group that is gone already is no error."""

    def kill(self) -> None:
        """KILL to the whole group; a group that is gone already is no error."""


class Spawner(Protocol):
    """Starts processes."""

    async def spawn(self, request: SpawnRequest) -> Child:
        """Starts one, in a session of its own, stdin on ``/dev/null``. Raises :class:`SpawnError`."""
