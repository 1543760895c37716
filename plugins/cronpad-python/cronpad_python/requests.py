"""What a function raises to say how its failure is to be treated."""

from __future__ import annotations

__all__ = ["DoNotRetry", "RetryLater"]


class RetryLater(Exception):
    """The attempt failed; the next one, if there is one, begins no sooner than ``seconds`` from now."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"RetryLater takes a number of seconds from 0 on, not {seconds!r}")
        super().__init__(reason or f"asked to be tried again in {seconds:g} s")
        self.seconds = seconds


class DoNotRetry(Exception):
    """The attempt failed, and trying again cannot help."""
