"""What retention would remove, counted without removing it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from cronpad_core.control.queries import all_jobs
from cronpad_core.domain.timing import Millis
from cronpad_core.engine.retention import Keep
from cronpad_core.ports.storage import Storage

__all__ = ["Going", "would_go"]

_PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Going:
    """How many ended runs, and how many ranges of slots, are older or more than what is kept."""

    runs: int
    ranges: int


async def would_go(storage: Storage, *, keep: Keep, now_ms: Millis) -> Going:
    """Counts what goes by age and by number; what goes for the size of the store depends on how far the rest shrinks it."""
    request = keep.request(now_ms, limit=1)
    seen: Counter[str] = Counter()
    runs, before = 0, None
    while True:
        page = await storage.history.runs(before=before, limit=_PAGE)
        for run in page:
            if not run.status.terminal:
                continue
            seen[run.key.job_id] += 1
            old = request.before_ms is not None and run.created_at_ms < request.before_ms
            runs += old or (request.keep is not None and seen[run.key.job_id] > request.keep)
        if len(page) < _PAGE:
            break
        before = page[-1].id
    ranges = 0
    for job in await all_jobs(storage.catalog, deleted=True):
        of_version = Counter[int]()
        for one in reversed(await storage.history.ranges(job.id)):  # by version and first instant: the newest first
            of_version[one.version] += 1
            old = request.before_ms is not None and one.last_ms < request.before_ms
            ranges += old or (request.keep is not None and of_version[one.version] > request.keep)
    return Going(runs=runs, ranges=ranges)
