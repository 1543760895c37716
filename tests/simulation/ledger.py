"""The oracle: which slots there should be, by arithmetic of its own, and what became of each. Never cronpad's word alone."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from rules import Breach

from cronpad_core.domain.job import JobSpec, JobStatus, JobVersion
from cronpad_core.domain.occurrence import Occurrence, Trigger
from cronpad_core.domain.run import Run, RunStatus
from cronpad_core.domain.timing import MINUTE

if TYPE_CHECKING:
    from world import World

__all__ = ["audit", "begins_ms", "knows", "outcomes", "settled", "slots"]


_AT = re.compile(r"at (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
_EVERY, _STARS = re.compile(r"every (\d+)s"), re.compile(r"\*/(\d+) \* \* \* \* \*")


def knows(spec: JobSpec) -> bool:
    """Whether the oracle can tell the slots of this job."""
    return all(_EVERY.fullmatch(text) or _STARS.fullmatch(text) or _AT.fullmatch(text) for text in spec.schedule.texts)


def slots(spec: JobSpec, after_ms: int, until_ms: int) -> Iterator[int]:
    """The slots in (after, until] of the schedules that the simulation uses: ``every Ns``, ``*/N * * * * *``, ``at``."""
    found: set[int] = set()
    for text in spec.schedule.texts:
        if every := _EVERY.fullmatch(text):
            period, anchor = int(every[1]) * 1_000, spec.schedule.anchor_ms or 0
        elif stars := _STARS.fullmatch(text):
            period, anchor = int(stars[1]) * 1_000, 0
            assert 60 % int(stars[1]) == 0, "the oracle knows steps that divide a minute"
        elif once := _AT.fullmatch(text):
            at_ms = int(datetime.fromisoformat(once[1]).timestamp()) * 1_000
            found.update({at_ms} if after_ms < at_ms <= until_ms else ())
            continue
        else:
            raise AssertionError(f"the oracle does not know {text!r}")
        first = after_ms - (after_ms - anchor) % period + period
        found.update(range(max(first, anchor), until_ms + 1, period))
    yield from sorted(found)


def outcomes(world: World, job_id: str, version: int, slot: int) -> list[str]:
    """Everything that claims to be the outcome of a slot; there must be one."""
    history = world.state.history
    got = []
    for run in _runs_at(world, job_id, slot):
        if run.status is not RunStatus.PENDING:
            got.append("skipped" if run.status is RunStatus.SKIPPED else "ran")
    rows = history.by_job.get(job_id)
    for row in rows.ranges.get(version, []) if rows else []:
        if row.first_ms <= slot <= row.last_ms:
            got.append(row.kind.value)
    return got


def begins_ms(world: World, job_id: str) -> int:
    """From where on the job's ledger answers: what lies before was pruned."""
    rows = world.state.history.by_job.get(job_id)
    return (rows.ledger_from if rows else None) or 0


def _runs_at(world: World, job_id: str, slot: int) -> list[Run]:
    run = world.state.history.runs.get(
        Occurrence(job_id=job_id, scheduled_at_ms=slot, attempt=0, job_version=1, trigger=Trigger.SCHEDULED).key
    )
    return [] if run is None else [run]


def _covered_ms(world: World, version: JobVersion) -> int:
    """Up to where a version is in force: its end, or now; never while its job is paused or gone."""
    if version.valid_until_ms is not None:
        return version.valid_until_ms
    job = world.state.catalog.jobs[version.job_id]
    if job.status in (JobStatus.PAUSED, JobStatus.DELETED) or job.version != version.version:
        return version.valid_from_ms
    return world.clock.wall_ms()


def _catching_up(world: World, job_id: str, version: int, slot: int) -> bool:
    """Whether the slot is one of a decided catch-up that has not come so far yet."""
    job = world.state.catalog.jobs[job_id]
    if job.version != version or job.replay is None or job.next_run_at_ms is None:
        return False
    return job.next_run_at_ms <= slot <= job.replay.until_ms


def audit(world: World, *, bound_ms: int) -> Counter[str]:
    """Every slot has one outcome (L1), and no outcome is without a slot; younger ones than ``bound_ms`` may have none yet."""
    now = world.clock.wall_ms()
    counts: Counter[str] = Counter()
    expected: dict[str, set[int]] = defaultdict(set)
    for job_id, versions in world.state.catalog.versions.items():
        for version in versions.values():
            for slot in slots(version.spec, version.valid_from_ms, _covered_ms(world, version)):
                if slot in expected[job_id]:
                    raise Breach("ledger", f"{job_id}: slot {slot} belongs to two versions")
                expected[job_id].add(slot)
                got = outcomes(world, job_id, version.version, slot)
                counts.update(got)
                if slot < begins_ms(world, job_id):
                    continue
                if len(got) > 1:
                    raise Breach("two outcomes", f"{job_id} v{version.version} {slot}: {got}")
                if not got and slot < now - bound_ms and not _catching_up(world, job_id, version.version, slot):
                    raise Breach("no outcome", f"{job_id} v{version.version} {slot}, {now - slot} ms ago")
    for run in world.state.history.runs.values():
        # A run is judged by its own snapshot: an edit may take its slot out of the version while it is being opened.
        at_ms = run.key.scheduled_at_ms
        if run.key.trigger is Trigger.SCHEDULED and not list(slots(run.spec, at_ms - 1, at_ms)):
            raise Breach("outcome without a slot", f"{run.key} v{run.job_version} {run.status.value}")
    for job_id, rows in world.state.history.by_job.items():
        for number, ranges in rows.ranges.items():
            spec = world.state.catalog.versions[job_id][number].spec
            for row in ranges:
                # A decision that lost against an edit may reach past the end of its version; there it says nothing.
                count = len(list(slots(spec, row.first_ms - 1, row.last_ms)))
                if count != row.count:
                    raise Breach("ledger", f"{row} has {count} slots")
    return counts


def settled(world: World, *, bound_ms: int) -> None:
    """After a quiet time: no stuck run (L2), nothing in flight for long, every job has its next entry (S2), no ghosts (S4).

    Nothing that was decided while the clock was ahead reaches far beyond now either.
    """
    wall, boot = world.clock.wall_ms(), world.clock.boot_ms()
    overdue_ms = wall - world.tuning.overdue_grace_ms - 2 * world.tuning.reconcile_ms
    file = world.state.queue.file
    assert file is not None, "somebody dispatches, so there is a queue"
    for run in world.state.history.runs.values():
        since = run.opened_at_ms or run.created_at_ms
        if not run.status.terminal and since < wall - bound_ms:
            raise Breach("L2", f"stuck: {run}")
    for member, held in file.inflight.items():
        if held.until_ms < file.boot_base_ms + boot - 5_000:
            raise Breach("L2", f"in flight for ever: {member} {held}")
    for job in world.state.catalog.jobs.values():
        if job.status is not JobStatus.ACTIVE or job.next_run_at_ms is None:
            continue
        if job.next_run_at_ms < wall - bound_ms and job.replay is None:
            raise Breach("L1", f"never fires again: {job}")
        if job.next_run_at_ms > (overdue_ms if world.rules.hits["fault entry lost"] else wall + MINUTE):
            continue  # one that was lost is put back once it is overdue
        member = job.slot(job.next_run_at_ms).member
        if member not in file.due and member not in file.inflight:
            raise Breach("S2", f"no entry for {member}, which is due in {job.next_run_at_ms - wall} ms")
    for job_id, rows in world.state.history.by_job.items():
        if world.state.catalog.jobs[job_id].status is JobStatus.DELETED:
            continue  # whatever comes back under its name has a version of its own
        for row in (row for ranges in rows.ranges.values() for row in ranges):
            if row.last_ms > wall + MINUTE:
                raise Breach("ahead", f"decided {row.last_ms - wall} ms ahead of now: {row}")
    for member, due in file.due.items():
        try:
            occurrence = Occurrence.parse(member)
        except Exception as error:
            if due.at_ms > wall - 5_000:
                continue
            raise Breach("Q14", f"a malformed entry stays: {member!r}") from error
        ghost = world.state.history.runs.get(occurrence.key)
        if ghost is not None and ghost.status.terminal and due.at_ms < wall - world.tuning.reconcile_ms - 5_000:
            raise Breach("S4", f"{member} of a run that is {ghost.status.value}")
