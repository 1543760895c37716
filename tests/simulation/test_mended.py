"""Faults that were found once by reading: a clock that was ahead, stores that do not answer, waiting that costs too much."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from faults import pause
from jobs import START, declare, id_of, play
from world import QUICK, Act, World

from cronpad_core.control.refit import refit
from cronpad_core.control.workspaces import set_workspace
from cronpad_core.domain.errors import StoreBusyError
from cronpad_core.domain.job import JobStatus, Replay
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.run import RunStatus
from cronpad_testkit.tripwire import raises

MINUTE = 60_000


def test_catching_up_goes_on_after_the_clock_was_set_back() -> None:
    """The budget of catching up is counted in time that no one sets."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(2_000)
        world.clock.jump(10 * MINUTE)
        await world.run(20_000)  # a catch-up takes from the budget
        world.clock.jump(-5 * MINUTE)
        await world.run(20_000)
        world.clock.jump(50_000)  # and another one
        await world.run(60_000)

    world = play(scenario, declare("a", "*/5 * * * * *", policy="all", misfire_settings={"max": 20}, grace_ms=1_000))
    sent = [(one.key.scheduled_at_ms - START, one.wall_ms - START) for one in world.sent("a")]
    assert sent[-1][1] > world.clock.wall_ms() - START - 10_000


def test_an_open_run_that_is_dated_in_the_future_is_delivered_again_at_once() -> None:
    """The clock was ahead when it was opened, its process and its queue are gone: the next start puts it now."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=1_000)
        first = world.start()
        await world.run(2_000)
        world.clock.jump(10 * MINUTE)
        await world.until(lambda: bool(world.sent("a")))
        first.kill()
        world.state.queue.delete()
        world.clock.jump(-10 * MINUTE)
        world.start()
        await world.run(60_000)

    world = play(scenario, declare("a", "every 10s"))
    stuck = [run for run in world.runs("a") if run.status is RunStatus.RUNNING]
    assert not stuck, stuck


def test_a_death_half_way_through_moving_back_leaves_no_slot_without_an_outcome() -> None:
    """Killed after the ranges were cut and before the version was: the next start, when the clock is less than a minute behind,
    finishes what was begun."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(2_000)
        world.clock.jump(200_000)
        await world.run(15_000)
        await process.spawn(pause(world, process, id_of("a")))
        await world.run(10_000)
        killed: list[int] = []

        def plan(call: Any) -> Any:
            if call.step == "history.cut_ranges" and call.after and not killed:
                killed.append(1)

                async def act() -> None:
                    process.kill()
                    await asyncio.sleep(0)
                    await process.thawed()

                return act
            return None

        process.plan = plan
        world.clock.jump(-100_000)
        await world.until(lambda: bool(killed))
        await world.run(80_000)
        world.start()
        await world.run(120_000)
        from ledger import audit

        audit(world, bound_ms=60_000)

    play(scenario, declare("a", "every 10s"))


def test_results_are_written_while_control_does_not_answer() -> None:
    """Row 36: a locked control database keeps no other delivery from being recorded and acknowledged."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=5_000 if delivery.job_name == "slow" else 100)
        process = world.start()
        await world.run(9_900)
        assert not world.sent()
        await world.until(lambda: len(world.sent("slow")) == 1)
        until = world.clock.boot_ms() + 40_000

        def plan(call: Any) -> Any:
            if call.step == "catalog.move" and not call.after and world.clock.boot_ms() < until:
                return raises(StoreBusyError("control is locked"))
            return None

        process.plan = plan
        await world.run(8_000)
        # the batch of a and b at 13 s hangs in control; slow, sent at 10 s, ended at 15 s
        assert [run.status for run in world.runs("slow")] == [RunStatus.SUCCEEDED]

    play(
        scenario,
        declare("slow", "every 10s", timeout_ms=30_000),
        declare("a", "every 13s"),
        declare("b", "every 13s"),
        tuning=replace(QUICK, workers=8, claim_batch=8),
    )


def test_who_waits_takes_nothing_from_the_replay_budget() -> None:
    """Runs that wait for their turn come up again and again; that gives out no instants of the budget that all catch-ups share."""
    taken: list[int] = []

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=60_000)
        process = world.start()
        await world.run(2_000)
        budget = process.engine.budget
        inner = budget.next_ms
        process.engine.advancer._budget.next_ms = lambda now: (taken.append(now), inner(now))[1]  # type: ignore[method-assign]
        world.clock.jump(100_000)
        await world.run(30_000)

    play(
        scenario,
        declare(
            "a",
            "every 5s",
            policy="all",
            misfire_settings={"max": 100},
            grace_ms=1_000,
            timeout_ms=90_000,
            overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=4),
        ),
    )
    assert len(taken) <= 12, f"{len(taken)} instants for a handful of slots"


@pytest.mark.parametrize("mended", [False, True])
def test_a_catch_up_goes_on_within_a_minute_after_the_clock_was_set_back(mended: bool) -> None:
    """Its slots are older than the step, so its job does not stand ahead; its entry, due by the clock of before, does.

    Also with a budget that goes by the boot clock (``mended``)."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(2_000)
        if mended:
            free = [0.0]

            def next_ms(now: int) -> int:
                boot = world.clock.boot_ms()
                at = max(float(boot), free[0])
                free[0] = at + 1_000
                return now + int(at - boot)

            process.engine.advancer._budget.next_ms = next_ms  # type: ignore[method-assign]
        world.clock.jump(20 * 3_600_000 + 40 * MINUTE)
        await world.run(6_000)
        assert 0 < len(world.sent("a")) < 15
        world.clock.jump(-10 * MINUTE)
        await world.run(90_000)

    world = play(
        scenario,
        declare("a", "0 * * * *", policy="all", misfire_settings={"max": 100}),
        tuning=replace(QUICK, replay_rate=1),
    )
    assert len(world.sent("a")) >= 20, len(world.sent("a"))


def test_a_schedule_that_raises_anything_ends_no_process() -> None:
    """One entry's trouble reaches no other, whether it was claimed alone or with others."""
    from cronpad_core.runtime.schedules import ScheduleBook

    async def scenario(world: World) -> None:
        book = ScheduleBook()
        broken = False

        class Broken:
            def __init__(self, inner: Any) -> None:
                self.inner = inner

            def __getattr__(self, name: str) -> Any:
                if broken:
                    raise OverflowError("date value out of range")
                return getattr(self.inner, name)

        world.schedules = lambda job_id, version, spec: (  # type: ignore[assignment]
            Broken(book(job_id, version, spec)) if job_id == id_of("bad") else book(job_id, version, spec)
        )
        process = world.start()
        await world.run(5_000)
        broken = True
        await world.run(30_000)
        assert process.crash is None

    world: list[World] = []

    async def watched(w: World) -> None:
        world.append(w)
        bad = w.rules.bad
        w.rules.bad = lambda rule, what: None if "a line failed" in what else bad(rule, what)  # type: ignore[method-assign]
        await scenario(w)

    play(watched, declare("bad", "every 10s", jitter_ms=1), declare("good", "every 10s"))
    assert len(world[0].sent("good")) >= 3


def test_kill_running_does_not_wait_for_the_whole_time_out_of_a_sink_that_ignores_it() -> None:
    """Told to end at once, a delivery that does not is abandoned after the cancel grace, as at its time-out."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=500_000, swallows=True)
        world.start()
        await world.run(60_000)

    world = play(scenario, declare("a", "every 10s", timeout_ms=400_000, overlap=OverlapRule(policy=OverlapPolicy.KILL_RUNNING)))
    assert len(world.sent("a")) >= 2


def test_what_the_replay_budget_holds_back_is_not_claimed_again_and_again() -> None:
    """However many catch-ups wait for a worker of the past, each is looked at now and then, as what a full scope holds back."""
    claims: list[int] = []

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=50_000)
        world.start()
        await world.run(2_000)
        world.clock.jump(100_000)
        await world.run(10_000)

        before = world.rules.hits["queue.release done"]
        await world.run(20_000)
        claims.append(world.rules.hits["queue.release done"] - before)

    play(
        scenario,
        *(
            declare(f"a{n}", "every 10s", policy="all", misfire_settings={"max": 5}, grace_ms=1_000, timeout_ms=90_000)
            for n in range(60)
        ),
        tuning=replace(QUICK, workers=8, claim_batch=8),
    )
    # with the rule of holds (250 ms times the place in the line, at most 5 s) it would be about 60 * 20 / 5 = 240 and a few more
    assert claims[0] <= 1_500, claims


def test_new_zone_rules_move_the_end_of_a_catch_up_too() -> None:
    """A job that is catching up under old rules goes on, past its last missed slot, to a slot of the new rules."""
    from cronpad_core.builtin.memory import MemoryState, MemoryStorage
    from cronpad_core.domain.job import Job, JobSpec, JobVersion, ScheduleSpec, SinkSpec
    from cronpad_core.engine.advancer import next_step
    from cronpad_core.ports.catalog import JobWrite
    from cronpad_core.ports.storage import StorageOptions
    from cronpad_core.runtime.schedules import ScheduleBook

    HOUR = 3_600_000

    async def main() -> None:
        storage = MemoryStorage(StorageOptions(url="memory://", wall_ms=lambda: START), state=MemoryState())
        spec = JobSpec(name="a", schedule=ScheduleSpec(texts=("0 * * * *",)), sink=SinkSpec(type="x"))
        then = START + 30 * 60_000  # a fire by the old rules: half an hour off by the new ones
        job = Job(
            id="j",
            origin="t",
            version=1,
            status=JobStatus.ACTIVE,
            spec=spec,
            next_run_at_ms=START - 2 * HOUR,
            valid_from_ms=START - 9 * HOUR,
            replay=Replay(until_ms=START - HOUR, then_ms=then),
        )
        begins = JobVersion(job_id="j", version=1, spec=spec, valid_from_ms=START - 9 * HOUR)
        await storage.catalog.write([JobWrite(job=job, expected=None, begins=begins)], term=storage.catalog and 0)
        book = ScheduleBook()
        await refit(catalog=storage.catalog, history=storage.history, schedules=book, now_ms=START, term=0)
        stored = await storage.catalog.job("j")
        assert stored is not None
        slot, version = stored.next_run_at_ms, stored.version
        schedule = book("j", version, stored.spec.schedule)
        while stored.replay is not None and slot is not None and slot <= stored.replay.until_ms:
            slot, replay = next_step(stored, slot, schedule)
            stored = replace(stored, replay=replay, next_run_at_ms=slot)
        assert slot is not None and schedule.next_after_ms(slot - 1) == slot, slot - START

    asyncio.run(main())


def test_a_run_is_limited_by_the_workspace_that_it_belongs_to() -> None:
    """A manual run that was asked for before its job moved to a full workspace is not skipped for that one's quota."""
    from cronpad_core.control.trigger import trigger
    from cronpad_core.domain.overlap import OverlapRule as Rule

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=8_000)
        process = world.start()
        await world.run(2_000)
        desk = process.engine.desk
        await process.spawn(set_workspace(desk, "full", suspended=True))
        job = world.state.catalog.jobs[id_of("a")]
        queue = Rule(policy=OverlapPolicy.QUEUE_ALL, max=5)
        await process.spawn(trigger(desk, job, overlap=queue))
        await process.spawn(trigger(desk, job, overlap=queue))
        await world.run(1_000)
        world.declared = [replace(one, spec=replace(one.spec, workspace="full")) for one in world.declared]
        await process.spawn(process.reload())
        await world.run(30_000)

    world = play(scenario, declare("a", "every 3600s"))
    assert [run.status.value for run in world.runs("a")] == ["succeeded", "succeeded"], [
        (run.status.value, run.skip_reason, run.spec.workspace) for run in world.runs("a")
    ]
