"""What is held against a storm once it is quiet again, beside the ledger: the product's own audit, punctuality, repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledger import slots
from rules import Breach

from cronpad_core.builtin.memory import MemoryStorage
from cronpad_core.control.audit import audit as product_audit
from cronpad_core.domain.backfill import BackfillStatus
from cronpad_core.domain.job import Guarantee
from cronpad_core.domain.limits import month_of
from cronpad_core.domain.occurrence import Occurrence, RunKey, Trigger
from cronpad_core.ports.storage import StorageOptions

if TYPE_CHECKING:
    from world import World

__all__ = ["agrees", "backfilled", "punctual", "repeats"]


async def agrees(world: World) -> None:
    """``cronpad audit`` finds nothing either: zero findings is the only passing answer."""
    storage = MemoryStorage(StorageOptions(url="memory://", wall_ms=world.clock.wall_ms), state=world.state)
    now, handling = world.clock.wall_ms(), world.tuning.overdue_grace_ms + world.tuning.reconcile_ms
    async for found in product_audit(storage, schedules=world.schedules, now_ms=now, handling_ms=handling):
        for one in found.findings:
            raise Breach("audit", str(one))


def punctual(world: World, calm_wall: int, before: int, *, bound_ms: int) -> None:
    """Long after the last fault everything is on time again, and nothing is missed."""
    settled_by = calm_wall + bound_ms
    for rows in world.state.history.by_job.values():
        for row in (row for ranges in rows.ranges.values() for row in ranges):
            if row.kind.value == "missed" and row.last_ms > settled_by:
                raise Breach("L4", f"missed without a fault: {row}")
    for sent in world.witness[before:]:
        occurrence = Occurrence.parse(sent.delivery.occurrence)
        if sent.key not in world.state.history.runs:
            continue  # pruned
        spec = world.state.history.runs[sent.key].spec
        due = sent.key.scheduled_at_ms + spec.jitter_ms + spec.offset_ms
        if occurrence.is_slot and sent.key.scheduled_at_ms > settled_by and sent.wall_ms > due + 2_000:
            raise Breach("L4", f"late without a fault: {occurrence.member} at {sent.wall_ms}")


def _is_refused(world: World, job_id: str) -> bool:
    """Whether its workspace lets nothing run for the moment: then a backfill waits."""
    workspace = world.state.catalog.workspaces.get(world.state.catalog.jobs[job_id].spec.workspace)
    if workspace is None:
        return False
    used = world.state.history.used[workspace.name, month_of(world.clock.wall_ms())]
    quota = workspace.quota
    return workspace.suspended or (quota is not None and quota.blocking and used >= quota.max)


def backfilled(world: World, *, bound_ms: int) -> None:
    """Every backfill comes to its end; a finished one has gone through each of its slots, each by its own run or another's."""
    for one in world.state.history.backfills.values():
        world.rules.hit(f"backfill {one.status.value}")
        key = RunKey(job_id=one.job_id, scheduled_at_ms=one.cursor_ms, trigger=Trigger.BACKFILL)
        run = world.state.history.runs.get(key)
        if run is not None and run.retry is not None and run.retry.at_ms > world.clock.wall_ms():
            continue  # a clock that was set back makes it wait for longer, up to the longest delay of a retry
        if _is_refused(world, one.job_id):
            continue
        if one.status is BackfillStatus.OPEN and one.created_at_ms < world.clock.wall_ms() - bound_ms:
            raise Breach("backfill", f"does not come to an end: {one}")
        spec = world.state.catalog.versions[one.job_id][one.job_version].spec
        wanted = list(slots(spec, one.from_ms - 1, one.to_ms))
        if one.status is BackfillStatus.FINISHED and one.started + one.passed != len(wanted):
            raise Breach("backfill", f"{one} had {len(wanted)} slots")


def repeats(world: World, spans: Sequence[tuple[int, int]]) -> None:
    """L3: an attempt is delivered again only where a fault lies between, and never where it may be delivered once at most."""
    last: dict[tuple[RunKey, int], int] = {}
    forgotten = bool(world.rules.hits["fault clock back"] and world.rules.hits["pruned runs"])
    for sent in world.witness:
        attempt = sent.key, sent.delivery.attempt
        run = world.state.history.runs.get(sent.key)
        if attempt in last and forgotten:
            world.rules.hit("forgotten slot again")  # the clock may have come to a slot once more whose row was pruned
        elif attempt in last:
            world.rules.hit("delivered twice")
            if run is not None and run.spec.guarantee is Guarantee.AT_MOST_ONCE:
                raise Breach("at most once", f"{attempt} was delivered twice")
            if not any(begin <= sent.boot_ms and last[attempt] <= end for begin, end in spans):
                raise Breach("L3", f"{attempt} was delivered at {last[attempt]} and {sent.boot_ms} without a fault")
        last[attempt] = sent.boot_ms
