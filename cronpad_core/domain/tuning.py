"""The engine's own figures, as one value: durations in milliseconds, counts as they are."""

from __future__ import annotations

from dataclasses import dataclass

from cronpad_core.domain.timing import MINUTE, SECOND, Millis

__all__ = ["Tuning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How the line is run. The settings of the same names are documented in the reference.

    ``workers`` is how many deliveries run at once; ``renew_ms`` how often the dispatcher lock is renewed; ``trust_margin_ms`` how
    long before the end of the lock its holder stops trusting it; ``cancel_grace_ms`` how long a cancelled delivery may take
    before it is abandoned; ``flush_ms`` how long a result may wait for others to be written with; ``replay_rate`` how many slots
    of the past may be started a second; ``max_running`` how many runs may be running at once, 0 for any number; ``fast`` that a job
    is moved on beside its delivery, not before it.
    """

    workers: int = 64
    claim_batch: int = 500
    lease_ms: Millis = 60 * SECOND
    reap_ms: Millis = SECOND
    reconcile_ms: Millis = 10 * SECOND
    sweep_ms: Millis = 6 * 60 * MINUTE
    tick_ms: Millis = 100
    idle_ms: Millis = SECOND
    overdue_grace_ms: Millis = 30 * SECOND
    lock_ttl_ms: Millis = 15 * SECOND
    renew_ms: Millis = 5 * SECOND
    look_ms: Millis = SECOND
    trust_margin_ms: Millis = SECOND
    cancel_grace_ms: Millis = 5 * SECOND
    max_redeliveries: int = 5
    batch: int = 500
    flush_ms: Millis = 0
    replay_rate: int = 20
    max_running: int = 0
    fast: bool = False

    def grace_ms(self, wanted: Millis) -> Millis:
        """How late a slot may start: what the job asks for, and never less than the overdue check needs to find a lost entry."""
        return max(wanted, self.overdue_grace_ms + self.reconcile_ms)
