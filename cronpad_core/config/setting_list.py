"""Every setting with its type, default and meaning: the reference and the reader both go by this list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cronpad_core.domain.timing import SECOND

__all__ = ["Setting", "describe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting as users know it. ``kind`` is ``duration``, ``count``, ``path`` or the words that are allowed, joined by ``|``.

    ``low`` is the least value: of a duration in milliseconds.
    """

    name: str
    kind: str
    default: str
    meaning: str
    low: int = 0
    high: int = 1_000_000

    @property
    def attribute(self) -> str:
        """Its name in :class:`Settings`."""
        word = self.name.replace(".", "_")
        return f"{word}_ms" if self.kind == "duration" else word

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"CRONPAD_{self.name.replace('.', '__').upper()}"


_SETTINGS: Final = (
    Setting(
        name="queue.path", kind="path", default="", meaning="the queue file; without it, cronpad-queue.db in the state directory"
    ),
    Setting(name="workers.count", kind="count", default="64", meaning="how many runs are delivered at once", low=1, high=100_000),
    Setting(
        name="scheduler.claim_batch",
        kind="count",
        default="500",
        meaning="how many due entries one claim takes",
        low=1,
        high=10_000,
    ),
    Setting(
        name="scheduler.lease_duration",
        kind="duration",
        default="60s",
        meaning="how long a claim holds without being extended; extended every third of it",
        low=3 * SECOND,
    ),
    Setting(
        name="scheduler.reconcile_interval",
        kind="duration",
        default="10s",
        meaning="how often the queue is compared with the databases, and expired leases are taken back",
        low=100,
    ),
    Setting(
        name="scheduler.tick_interval", kind="duration", default="100ms", meaning="the longest sleep between two claims", low=1
    ),
    Setting(
        name="scheduler.overdue_grace",
        kind="duration",
        default="30s",
        meaning="how far a job's next fire may lie back before the reconciler puts it in the queue again",
    ),
    Setting(
        name="scheduler.lock_ttl",
        kind="duration",
        default="15s",
        meaning="how long the dispatcher's lock holds without a heartbeat",
        low=SECOND,
    ),
    Setting(
        name="scheduler.replay_rate",
        kind="count",
        default="20",
        meaning="how many slots catch-up and backfills may start per second, all jobs together",
        low=1,
        high=10_000,
    ),
    Setting(
        name="scheduler.max_running",
        kind="count",
        default="0",
        meaning="how many runs of all jobs may run at once, further ones are held back and not skipped; 0: no cap",
        high=100_000,
    ),
    Setting(
        name="results_flush_interval",
        kind="duration",
        default="0s",
        meaning="how long results wait for others to be written with; 0s: only while a write is under way",
    ),
    Setting(
        name="results_max_batch",
        kind="count",
        default="500",
        meaning="how many results one write holds at most",
        low=1,
        high=10_000,
    ),
    Setting(
        name="shutdown_grace",
        kind="duration",
        default="30s",
        meaning="how long a graceful stop waits for running deliveries",
    ),
    Setting(
        name="delivery",
        kind="durable|fast",
        default="durable",
        meaning="durable: every run is on disk before and after its delivery; fast: a power cut may lose the newest rows of "
        "history, so that slots are left without an outcome",
    ),
    Setting(
        name="history.keep_for",
        kind="duration",
        default="90d",
        meaning="how long ended runs stay in the history; 0s: for ever",
    ),
    Setting(
        name="history.keep_runs",
        kind="count",
        default="10000",
        meaning="how many ended runs of each job stay, the newest; 0: all",
        high=1_000_000_000,
    ),
    Setting(
        name="history.keep_mb",
        kind="count",
        default="2000",
        meaning="how many megabytes the history may hold before its oldest ended runs go; 0: no limit",
        high=1_000_000_000,
    ),
)


def describe() -> tuple[Setting, ...]:
    """Every setting with its type, default and meaning, in the order of the reference."""
    return _SETTINGS
