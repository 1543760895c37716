"""What users ask of the process that dispatches, through the same operations as its control socket; drawn from the storm's seed."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from cronpad_core.control.backfills import plan_backfill, start_backfill
from cronpad_core.control.desk import Desk
from cronpad_core.control.runs import cancel, retry
from cronpad_core.control.trigger import trigger
from cronpad_core.control.workspaces import CLEAR, set_workspace
from cronpad_core.domain.errors import CronpadError
from cronpad_core.domain.job import Job
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.run import Run
from cronpad_core.engine.retention import Keep, Pruner
from cronpad_core.ports.catalog import StaleWriteError

if TYPE_CHECKING:
    from world import Process, World

__all__ = ["ASKS", "Ask", "set_free"]

Ask = Callable[["Process"], Awaitable[None]]
"""What is asked of a process."""

WORKSPACE = "default"
_FURTHEST_MS, _FEW = 40_000, 8
RULES = (
    None,
    None,
    OverlapRule(policy=OverlapPolicy.ALLOW, max=3),
    OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=3),
    OverlapRule(policy=OverlapPolicy.CANCEL_RUNNING),
)


def _politely(ask: Callable[[Desk], Awaitable[object]]) -> Ask:
    """Asks, and takes a refusal for an answer."""

    async def asked(process: Process) -> None:
        try:
            await ask(process.engine.desk)
        except (CronpadError, StaleWriteError):
            return

    return asked


def _any_job(world: World, rng: random.Random) -> Job | None:
    jobs = sorted(world.state.catalog.jobs.values(), key=lambda job: job.id)
    return rng.choice(jobs) if jobs else None


def _any_run(world: World, rng: random.Random, *, ended: bool) -> Run | None:
    runs = [run for run in world.state.history.runs.values() if run.status.terminal is ended]
    return rng.choice(sorted(runs, key=lambda run: run.id)) if runs else None


def _trigger(world: World, rng: random.Random) -> Ask | None:
    """A run now, perhaps by a word that was used before, perhaps under another overlap rule."""
    job, token, rule = _any_job(world, rng), rng.choice([None, "one", "two", "three"]), rng.choice(RULES)
    return None if job is None else _politely(lambda desk: trigger(desk, job, token=token, overlap=rule))


def _cancel(world: World, rng: random.Random) -> Ask | None:
    """The end of a run that has not ended."""
    run = _any_run(world, rng, ended=False)
    return None if run is None else _politely(lambda desk: cancel(desk, run, reason="a user says so"))


def _retry(world: World, rng: random.Random) -> Ask | None:
    """A run of a slot that has ended, once more."""
    run, token = _any_run(world, rng, ended=True), rng.choice([None, "again"])
    return None if run is None else _politely(lambda desk: retry(desk, run, token=token))


def _backfill(world: World, rng: random.Random) -> Ask | None:
    """A few slots of the past."""
    job, now = _any_job(world, rng), world.clock.wall_ms()
    from_ms, rule = now - rng.randint(1_000, _FURTHEST_MS), rng.choice(RULES)
    if job is None:
        return None

    async def ask(desk: Desk) -> None:
        plan = plan_backfill(job, from_ms, now, schedules=desk.schedules, now_ms=max(now, desk.now_ms()))
        if plan.slots <= _FEW:
            await start_backfill(desk, plan, overlap=rule)

    return _politely(ask)


def _workspace(world: World, rng: random.Random) -> Ask:
    """Limits of the workspace of all jobs: a suspension, a quota, a cap, or none of them."""
    suspended, blocking = rng.random() < 0.2, rng.random() < 0.5
    quota, most = rng.choice([CLEAR, CLEAR, 5, 30]), rng.choice([CLEAR, 1, 2])
    return _politely(
        lambda desk: set_workspace(
            desk,
            WORKSPACE,
            suspended=suspended,
            quota=quota,
            quota_blocking=None if quota is CLEAR else blocking,
            concurrency=most,
        )
    )


def _prune(world: World, rng: random.Random) -> Ask:
    """History is shortened, to a few runs of each job or to the last moments."""
    keep = rng.choice([Keep(runs=3), Keep(for_ms=20_000), Keep(runs=20, for_ms=60_000)])

    async def ask(process: Process) -> None:
        parts, engine = process.engine.parts, process.engine
        pruner = Pruner(
            history=parts.storage.history,
            clock=parts.clock,
            authority=engine.authority,
            patience=engine.patience,
            keep=keep,
            emit=parts.emit,
            batch=5,
        )
        while await pruner.step():
            continue

    return ask


ASKS: dict[str, Callable[[World, random.Random], Ask | None]] = {
    "trigger": _trigger,
    "cancel": _cancel,
    "retry": _retry,
    "backfill": _backfill,
    "workspace": _workspace,
    "prune": _prune,
}
"""By the name of the user's deed: draws what to ask, ``None`` where there is nothing to ask about."""


async def set_free(process: Process) -> None:
    """Takes all limits of the workspace away."""
    desk = process.engine.desk
    await set_workspace(desk, WORKSPACE, suspended=False, quota=CLEAR, concurrency=CLEAR)
