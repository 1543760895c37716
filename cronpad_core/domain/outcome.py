"""What a sink says of one attempt: failures are values, so that one place decides what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from cronpad_core.domain.timing import JsonValue, Millis

__all__ = ["Cancelled", "Delivered", "Failed", "Outcome", "Report", "StreamCapture", "TimedOut", "Unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCapture:
    """What is kept of one output stream: all bytes are counted, the first and last part kept.

    ``head + tail`` is the whole output where ``total == len(head) + len(tail)``; otherwise the middle was dropped.
    """

    name: str
    total: int
    head: bytes
    tail: bytes = b""

    @property
    def truncated(self) -> bool:
        """Whether bytes between head and tail were dropped."""
        return self.total > len(self.head) + len(self.tail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What every outcome carries.

    ``reason`` is one short sentence for a person; ``exit_code`` the child's, with 128+n for signal n; ``facts`` further
    JSON values for the attempt's record (``signal``, ``http_status`` …).
    """

    reason: str = ""
    exit_code: int | None = None
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    output: tuple[StreamCapture, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(Report):
    """The work was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Report):
    """The work was not done, or failed.

    ``retryable`` says whether trying again can help; ``retry_after_ms`` how long the receiver asked to wait;
    ``undelivered`` that the receiver is known never to have got it (which at-most-once needs to know); ``pause`` why no later
    slot can do better either: the job is paused for that reason until somebody resumes it.
    """

    retryable: bool = True
    retry_after_ms: Millis | None = None
    undelivered: bool = False
    pause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut(Report):
    """The attempt's deadline passed; whatever ran was ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(Report):
    """It was asked to stop, and did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Report):
    """Nobody can say whether the work was done."""


Outcome: TypeAlias = Delivered | Failed | TimedOut | Cancelled | Unknown
"""How a delivery ended, in the words of its sink."""
