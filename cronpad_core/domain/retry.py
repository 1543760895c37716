"""Whether and when a failed attempt is tried again: pure functions of the rule and the outcome."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from cronpad_core.domain.occurrence import Occurrence
from cronpad_core.domain.timing import HOUR, Millis

__all__ = ["RetryPlan", "RetryRule", "longest_delay_ms", "retry_delay_ms"]

RETRY_AFTER_CAP = HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """``max`` retries after the first try (so ``max + 1`` attempts), spaced by min(cap, base · factor^(k-1)) before attempt k.

    ``jitter`` adds up to that share of the delay (0 to 1), drawn from the occurrence. After ``deadline_ms`` from the slot no
    retry starts; ``None`` is no deadline.
    """

    max: int = 0
    base_ms: Millis = 100
    factor: float = 2.0
    cap_ms: Millis = 30_000
    jitter: float = 0.0
    deadline_ms: Millis | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPlan:
    """The next attempt and when it is due, in wall milliseconds."""

    attempt: int
    at_ms: Millis


def longest_delay_ms(rule: RetryRule) -> Millis:
    """No retry of this rule is planned further ahead than that, whatever its receiver asks for."""
    return max(round(rule.cap_ms * (1 + rule.jitter)), RETRY_AFTER_CAP)


def retry_delay_ms(rule: RetryRule, occurrence: Occurrence, *, retry_after_ms: Millis | None = None) -> Millis:
    """The delay before ``occurrence.attempt`` (1 or more).

    ``retry_after_ms`` is what the receiver asked for: obeyed where it is longer, up to one hour.
    """
    delay = min(float(rule.cap_ms), rule.base_ms * rule.factor ** min(occurrence.attempt - 1, 64))
    if rule.jitter:
        digest = hashlib.sha256(f"retry|{occurrence.member}".encode()).digest()
        delay += delay * rule.jitter * int.from_bytes(digest[:4], "big") / 2**32
    return max(round(delay), min(retry_after_ms or 0, RETRY_AFTER_CAP))
