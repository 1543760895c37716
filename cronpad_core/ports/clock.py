"""The two lines of time, and waiting on them."""

from __future__ import annotations

from typing import Protocol

from cronpad_core.domain.timing import Millis

__all__ = ["Clock"]


class Clock(Protocol):
    """Where the engine reads time. Cheap: called for every entry.

    T1. ``boot_ms`` never goes back and goes on while the machine is suspended.
    T2. ``wall_ms`` is Unix time and may jump either way at any moment.
    """

    def wall_ms(self) -> Millis:
        """Unix time in milliseconds."""

    def boot_ms(self) -> Millis:
        """Milliseconds since the machine was started, suspend included."""

    def boot_id(self) -> str:
        """Names this start of the machine: another one means that earlier boot times say nothing."""

    def suspended_ms(self) -> Millis:
        """How long the machine has been suspended since it was started; only differences mean something."""

    async def sleep(self, duration_ms: Millis) -> None:
        """Returns after ``duration_ms``, early or late by what the loop allows; a jump of the wall clock does not matter."""

    async def until(self, wall_ms: Millis) -> None:
        """Returns at that wall instant, a few milliseconds ahead at most, as exactly as the machine allows.

        Others on the loop go on meanwhile. An instant that has passed, or is far ahead because the clock was set, returns soon.
        """
