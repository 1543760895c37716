"""A thousand jobs with every overlap rule and every cap, failing at random: no limit is exceeded, nothing is left."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import cycle

from jobs import declare, play
from world import QUICK, Act, World

from cronpad_core.control.apply import Declared
from cronpad_core.control.workspaces import set_workspace
from cronpad_core.domain.limits import ConcurrencyRule
from cronpad_core.domain.outcome import Failed, Unknown
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.run import RunStatus
from cronpad_core.ports.sink import Delivery

JOBS, MINUTES = 1_000, 10
ROOM = replace(QUICK, workers=64, claim_batch=50, max_running=40)
ANSWERS = (Failed(reason="no"), Failed(reason="never", retryable=False), Unknown())


def thousand(rng: random.Random) -> list[Declared]:
    """A few that come up every few seconds, most every few minutes: at most times there is more to do than room."""
    rules = cycle(OverlapRule(policy=policy, max=3) for policy in OverlapPolicy)
    caps = cycle([None, ConcurrencyRule(max=1), ConcurrencyRule(max=2), *(ConcurrencyRule(max=3, key=f"k{n}") for n in range(9))])
    return [
        declare(
            f"j{number:03}",
            f"every {rng.randint(10, 15) if number % 11 == 0 else rng.randint(100, 290)}s",
            overlap=next(rules),
            concurrency=next(caps),
            workspace=f"w{number % 3}",
            retry=rng.randint(0, 2),
            policy=rng.choice(["latest", "skip", "all", "earliest"]),
            timeout_ms=20_000,
            sink=rng.choice(["script", "graceful"]),
        )
        for number in range(JOBS)
    ]


def test_a_thousand_jobs_with_every_limit_leave_nothing_behind() -> None:
    """The rules of the world count what runs at every opening. Once the jobs are gone the last runs end, and no book has a line."""
    rng = random.Random(20261130)

    def act(delivery: Delivery) -> Act:
        long = rng.choice([0, 0, 50, 400, 4_000, 18_000])
        return Act(for_ms=long) if rng.random() < 0.7 else Act(for_ms=long, outcome=rng.choice(ANSWERS))

    async def scenario(world: World) -> None:
        world.script = act
        process = world.start()
        await world.until(lambda: process.active)
        desk = process.engine.desk
        await process.spawn(set_workspace(desk, "w0", concurrency=10))
        await process.spawn(set_workspace(desk, "w1", quota=300))
        await world.run(MINUTES * 60_000)
        world.declared = []
        await process.spawn(process.reload())
        await world.run(30_000)
        assert [run for run in world.runs() if not run.status.terminal] == []
        await world.run(300_000)  # entries of jobs that are gone are dropped when they come up
        engine = process.engine
        assert (len(engine.holdings), len(engine.line.holds), engine.advancer.owed, process.loops.idle) == (0, 0, 0, True)
        assert engine.budget._running == set()
        assert world.members() == []
        rows = world.state.history
        assert not rows.unfinished and not any(rows.running.values()) and not any(book.waiting for book in rows.by_job.values())

    world = play(scenario, *thousand(rng), tuning=ROOM)
    found = {run.status for run in world.runs()}
    assert found >= {RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.SKIPPED, RunStatus.CANCELLED, RunStatus.UNKNOWN}
    reached = world.rules.hits
    assert reached["history.open held"] > 100 and reached["history.open waiting"] > 100
    assert {"skipped previous_run_in_progress", "skipped queue_full", "skipped quota_exceeded"} <= reached.keys()
    assert len(world.sent()) > 1_000
