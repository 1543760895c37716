"""Names that are derived, never drawn: the same job, run and slot keep their ids over restarts, rebuilds and re-adding."""

from __future__ import annotations

import hashlib

from cronpad_core.domain.occurrence import Occurrence, RunKey
from cronpad_core.domain.timing import Millis

__all__ = ["alert_id_for", "backfill_id_for", "digest_below", "idempotency_key", "job_id_for", "run_id_for"]


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\x1f".join(parts).encode()).digest()


_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [first + second for first in _LETTERS for second in _LETTERS]
_PLACES = range(120, -1, -10)


def _base32(*parts: str) -> str:
    # 26 letters are 130 bits. base64.b32encode would give the same, several times slower, and every run needs two.
    number = int.from_bytes(_digest(*parts)[:17], "big") >> 6
    return "".join([_PAIRS[number >> place & 1023] for place in _PLACES])


def job_id_for(origin: str, name: str) -> str:
    """The id of a job that declares none: stable for its origin (a file, the API, code) and name."""
    return "job_" + _base32("job", origin, name)


def run_id_for(key: RunKey) -> str:
    """The run's id: a function of its key, so a redelivery after any loss carries the same one."""
    return "run_" + _base32("run", key.job_id, str(key.scheduled_at_ms), key.trigger)


def backfill_id_for(job_id: str, from_ms: Millis, to_ms: Millis, created_at_ms: Millis) -> str:
    """The id of a backfill: asking for the same range in the same millisecond is asking for the same backfill."""
    return "bf_" + _base32("backfill", job_id, str(from_ms), str(to_ms), str(created_at_ms))


def alert_id_for(name: str, kind: str, job_id: str, about: str) -> str:
    """The id of one thing that one alert tells: the same however often it is told or sent."""
    return "al_" + _base32("alert", name, kind, job_id, about)


def idempotency_key(key: RunKey) -> str:
    """What a receiver may deduplicate by: the same over retries and redeliveries, and without dots (Standard Webhooks)."""
    return "cp_" + _base32("key", key.job_id, str(key.scheduled_at_ms), key.trigger)


def digest_below(bound: Millis, occurrence: Occurrence) -> Millis:
    """A number in [0, ``bound``) that depends on the slot alone, evenly spread over slots; 0 for a bound of 0."""
    if bound <= 0:
        return 0
    key = occurrence.key
    return int.from_bytes(_digest("jitter", key.job_id, str(key.scheduled_at_ms))[:8], "big") % bound
