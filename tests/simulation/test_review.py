"""What users ask for while things break: waiting, held, cancelled and asked-for runs over kills, pauses and edits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from faults import pause
from jobs import declare, id_of, play
from world import QUICK, Act, World

from cronpad_core.control.runs import cancel
from cronpad_core.control.trigger import trigger
from cronpad_core.domain.job import JobStatus
from cronpad_core.domain.limits import ConcurrencyRule
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.run import RunStatus

LAST_MS = 5_000
"""Nobody who waits for room is given back for longer."""


def test_who_waits_starts_soon_after_its_predecessor_ended_while_nobody_kept_the_book() -> None:
    """The process dies, the next one knows of no line of those who wait: each comes up by itself within seconds."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=0 if delivery.redelivery else 15_000)
        first = world.start()
        await world.until(lambda: any(run.status is RunStatus.WAITING for run in world.runs("a")))
        first.kill()
        world.declared = [replace(one, spec=replace(one.spec, tags=("edited",))) for one in world.declared]
        world.start()
        await world.run(LAST_MS + 3_000)

    world = play(scenario, declare("a", "every 10s", overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=3)))
    first, second = world.sent("a")[0].key, world.runs("a")[1]
    assert [one.key for one in world.sent("a")][:3] == [first, first, second.key]
    assert second.status in (RunStatus.RUNNING, RunStatus.SUCCEEDED)


@pytest.mark.parametrize("kill", [False, True])
def test_a_cancelled_run_starts_no_further_attempt_whoever_had_it(kill: bool) -> None:
    """Told to end while its process dies, it ends as cancelled when it comes up again; told in time, it ends at once."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=60_000)
        process = world.start()
        await world.until(lambda: bool(world.sent("a")))
        (run,) = world.runs("a")
        if kill:
            process.engine.holdings.tell = lambda key, stage, reason: False  # type: ignore[method-assign]  # nobody hears of it
        await process.spawn(cancel(process.engine.desk, run))
        if kill:
            process.kill()
            world.start()
        await world.run(5_000)

    world = play(scenario, declare("a", "every 50s", retry=3, timeout_ms=90_000))
    (run,) = world.runs("a")
    assert (run.status, len(world.sent("a"))) == (RunStatus.CANCELLED, 1)


def test_a_paused_job_runs_when_it_is_asked_to_and_keeps_its_pause() -> None:
    """A pause stops the schedule alone: a run that somebody asks for runs, with its retries, and no slot does."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(2_000)
        assert await process.spawn(pause(world, process, id_of("a")))
        job = world.state.catalog.jobs[id_of("a")]
        await process.spawn(trigger(process.engine.desk, job, token="once"))
        await process.spawn(trigger(process.engine.desk, job, token="once"))
        await world.run(30_000)

    world = play(scenario, declare("a", "every 10s"))
    assert [(run.key.trigger.value, run.status) for run in world.runs("a")] == [("m", RunStatus.SUCCEEDED)]
    assert world.state.catalog.jobs[id_of("a")].status is JobStatus.PAUSED


def test_a_slot_that_is_held_when_its_job_is_paused_never_starts() -> None:
    """It has no row yet: its entry is dropped when it comes up, and the ledger says that the slot was dropped."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=20_000 if delivery.job_name == "hog" else 0)
        process = world.start()
        await world.until(lambda: bool(world.sent("hog")))
        await world.run(2_500)
        assert not world.sent("a")
        assert await process.spawn(pause(world, process, id_of("a")))
        await world.run(40_000)

    rule = ConcurrencyRule(max=1, key="k")
    world = play(
        scenario,
        declare("hog", "every 10s", concurrency=rule, timeout_ms=60_000),
        declare("a", "every 11s", concurrency=rule),
        tuning=replace(QUICK, workers=8),
    )
    assert not world.sent("a") and not world.runs("a")
    ranges = world.state.history.by_job[id_of("a")].ranges[1]
    assert [(row.kind.value, row.count) for row in ranges] == [("dropped", 1)]
    assert not [member for member in world.members() if member.startswith(id_of("a"))]
