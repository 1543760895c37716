"""Faults that people who run schedulers have met, in the simulated machine; each test names the id of its case."""

from __future__ import annotations

import pytest
from faults import copy_of, failure, pause, resume
from jobs import START, allow, declare, id_of, play
from ledger import audit
from world import QUICK, Act, World

from cronpad_core.domain.events import LeaseLost, SlotsMissed
from cronpad_core.domain.job import JobStatus
from cronpad_core.domain.outcome import Failed
from cronpad_core.domain.run import RunStatus, SkipReason
from cronpad_core.domain.tuning import Tuning
from cronpad_testkit.tripwire import Action, Call

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def ran(world: World, name: str) -> list[int]:
    """The slots of a job's runs, counted from the start of the world."""
    return [run.key.scheduled_at_ms - START for run in world.runs(name) if run.status is not RunStatus.SKIPPED]


@pytest.mark.parametrize(("policy", "caught_up"), [("latest", 1), ("earliest", 1), ("all", 10), ("skip", 0)])
def test_a_clock_far_in_the_future_is_decided_at_once(policy: str, caught_up: int) -> None:
    """B056: 174 years of minutes are counted and never walked; what the policy catches up with is bounded, then all is on time."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(150_000)
        world.clock.jump(174 * 365 * DAY)
        await world.run(2_000)
        before = len(world.witness)
        await world.run(10 * MINUTE)
        assert len(world.witness) - before >= 9

    settings = {"max": caught_up} if policy == "all" else None
    job = declare("a", "* * * * *", policy=policy, misfire_settings=settings, overlap=allow(20))
    world = play(scenario, job, limit_ms=400 * 365 * DAY)
    [told] = world.told(SlotsMissed)
    assert told.chosen == caught_up
    assert told.missed + told.chosen >= 174 * 365 * 1_440
    assert [sent.late_ms for sent in world.sent()][-8:] == [0] * 8


def test_a_process_that_slept_replays_nothing() -> None:
    """B057: after 78 minutes of suspend, a job every ten seconds that catches up with nothing has no burst of 468 runs."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(25_000)
        process.freeze(78 * MINUTE)
        await world.run(78 * MINUTE)
        before = len(world.witness)
        await world.run(10_500)
        assert len(world.witness) - before <= 2
        await world.run(2 * MINUTE)

    world = play(scenario, declare("a", "every 10s", policy="skip", grace_ms=1_000))
    assert audit(world, bound_ms=1_000)["missed"] >= 460
    late = [sent.late_ms for sent in world.sent()]
    assert late[-12:] == [0] * 12


@pytest.mark.parametrize(("policy", "at_once"), [("latest", [600]), ("skip", [])])
def test_a_night_of_downtime_disables_no_job(policy: str, at_once: list[int]) -> None:
    """B066: 600 missed minutes give one run or none, and the job goes on from the next minute."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(30_000)
        world.end()
        await world.run(10 * HOUR - 10_000)
        world.start()
        await world.run(30_000)
        assert [slot // MINUTE for slot in ran(world, "a")] == at_once
        await world.run(3 * MINUTE)

    world = play(scenario, declare("a", "* * * * *", policy=policy, grace_ms=1_000))
    assert [slot // MINUTE for slot in ran(world, "a")] == [*at_once, 601, 602, 603]


def test_a_little_late_is_not_missed() -> None:
    """B068: a wake-up that is 2.5 s late runs the slot of a daily job, with its lateness kept."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(59_000)
        process.freeze(3_500)
        await world.run(10_000)

    world = play(scenario, declare("a", "0 3 * * *"), wall_ms=START + 3 * HOUR - MINUTE)
    [sent] = world.sent()
    assert 2_000 <= sent.late_ms < 4_000
    assert world.told(SlotsMissed) == []
    assert ran(world, "a") == [3 * HOUR]


def test_a_resumed_job_runs_no_slot_of_its_pause() -> None:
    """B069: paused before its slot and resumed after it, a job runs next on its next slot, and nothing was missed."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(2_000)
        assert await process.spawn(pause(world, process, id_of("a")))
        await world.run(2_000)
        world.end()
        world.clock.jump(7 * HOUR)
        process = world.start()
        await world.run(2_000)
        assert await process.spawn(resume(world, process, id_of("a")))
        await world.run(MINUTE)

    world = play(scenario, declare("a", "0 2 * * *"), wall_ms=START + HOUR)
    assert world.sent() == []
    assert world.state.catalog.jobs[id_of("a")].next_run_at_ms == START + DAY + 2 * HOUR
    assert world.told(SlotsMissed) == []


def test_an_edited_schedule_begins_now() -> None:
    """B071: at ten o'clock a daily job is moved from two to nine: it does not run at once, but at nine tomorrow."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(2 * MINUTE)
        world.end()
        world.clock.jump(8 * HOUR)
        process = world.start()
        await world.run(2_000)
        world.declared[0] = declare("a", "0 9 * * *")
        await process.spawn(process.reload())
        await world.run(MINUTE)

    world = play(scenario, declare("a", "0 2 * * *"), wall_ms=START + 2 * HOUR - MINUTE)
    assert ran(world, "a") == [2 * HOUR]
    assert world.state.catalog.jobs[id_of("a")].next_run_at_ms == START + DAY + 9 * HOUR


def test_one_shots_of_the_past_are_never_left_pending() -> None:
    """B072: one-shots of three seconds and of a year ago are completed; one that ran does not run again after a restart."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(20_000)
        world.end()
        world.start()
        await world.run(20_000)

    past = declare("seconds ago", "at 2026-01-01T00:10:00Z"), declare("a year ago", "at 2025-01-01T00:00:00Z")
    world = play(scenario, *past, declare("soon", "at 2026-01-01T00:10:08Z"), wall_ms=START + 603_000)
    assert len(world.sent("soon")) == 1
    assert {job.status for job in world.state.catalog.jobs.values()} == {JobStatus.COMPLETED}
    assert len(world.sent("seconds ago")) <= 1
    assert world.sent("a year ago") == []
    assert world.members() == []


def test_overlap_is_decided_from_what_is_stored() -> None:
    """B073: killed 20 minutes into a run of 90, the next start delivers it again, and skips the slot that comes meanwhile."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=90 * MINUTE)
        world.start()
        await world.run(71 * MINUTE)
        world.end()
        world.start()
        await world.run(60 * MINUTE)

    world = play(scenario, declare("a", "51 * * * *", timeout_ms=2 * HOUR))
    assert [(sent.key.scheduled_at_ms - START, sent.delivery.redelivery) for sent in world.sent()] == [
        (51 * MINUTE, 0),
        (51 * MINUTE, 1),
    ]
    [skipped] = [run for run in world.runs("a") if run.status is RunStatus.SKIPPED]
    assert (skipped.key.scheduled_at_ms - START, skipped.skip_reason) == (111 * MINUTE, SkipReason.PREVIOUS_RUN_IN_PROGRESS)


@pytest.mark.parametrize("fault", ["failure", "time-out", "store"])
def test_no_end_of_a_run_leaves_its_place_taken(fault: str) -> None:
    """B075: whatever ends a run, the next slot of a job that runs one at a time is run, not skipped."""
    acts = {"failure": Act(outcome=Failed(reason="no luck")), "time-out": Act(for_ms=HOUR), "store": Act()}

    async def scenario(world: World) -> None:
        process = world.start()
        world.script = lambda delivery: acts[fault] if delivery.slot_at_ms == START + 5_000 else Act()
        if fault == "store":
            failed: list[Call] = []

            def plan(call: Call) -> Action | None:
                if call.step == "history.record" and not call.after and len(failed) < 3:
                    failed.append(call)
                    return failure(call.step, after=False, busy=True)
                return None

            process.plan = plan
        await world.run(20_000)
        assert len(process.engine.holdings) == 0

    world = play(scenario, declare("a", "every 5s", timeout_ms=1_000))
    assert ran(world, "a") == [5_000, 10_000, 15_000]
    assert {run.status for run in world.runs("a")[1:]} == {RunStatus.SUCCEEDED}


def test_a_long_job_delays_no_other() -> None:
    """B076: while one job runs for twenty minutes, one of every five minutes starts on time with only two workers."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=20 * MINUTE if delivery.job_name == "long" else 0)
        world.start()
        await world.run(31 * MINUTE)

    long = declare("long", "14 5 * * *", timeout_ms=HOUR)
    tuning = Tuning(workers=2)
    world = play(scenario, long, declare("short", "*/5 * * * *"), tuning=tuning, wall_ms=START + 5 * HOUR + 10 * MINUTE - 1_000)
    assert [sent.late_ms for sent in world.sent("short")] == [0] * 7
    assert len(world.sent("long")) == 1


def test_a_lease_is_renewed_often_enough() -> None:
    """B077: with the real figures a healthy run of three minutes is delivered once, although each renewal is up to 5 s late."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=180_000)
        world.start()
        world.pause = lambda process: 5_000 if process.calls and process.calls[-1].step == "queue.extend" else 0
        await world.run(10 * MINUTE)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z", timeout_ms=HOUR), tuning=Tuning())
    assert [run.status for run in world.runs("a")] == [RunStatus.SUCCEEDED]
    assert len(world.sent()) == 1
    assert world.told(LeaseLost) == []
    assert world.rules.hits["queue.extend kept"] >= 180 // 25 - 1


def test_a_leader_that_slept_notices_before_it_claims() -> None:
    """B079: stopped for twice its lock's life, the old holder wakes as standby; each slot has one run, and one delivery."""

    async def scenario(world: World) -> None:
        first = world.start()
        await world.run(12_000)
        second = world.start()
        await world.run(2_000)
        first.freeze(2 * QUICK.lock_ttl_ms + 4_000)
        await world.run(2 * QUICK.lock_ttl_ms + 3_000)
        assert second.active
        before = len([sent for sent in world.sent() if sent.process == first.name])
        await world.run(60_000)
        assert not first.active
        assert len([sent for sent in world.sent() if sent.process == first.name]) == before

    world = play(scenario, declare("a", "every 5s"))
    keys = [sent.key for sent in world.sent()]
    assert len(set(keys)) == len(keys)
    assert audit(world, bound_ms=6_000)["missed"] == 0


@pytest.mark.parametrize("step", ["queue.reap", "catalog.overdue", "queue.requeue"])
def test_recovery_that_is_killed_recovers(step: str) -> None:
    """B081: killed while it repairs, the next start repairs, with nobody's help and no lock that outlives its end."""

    async def scenario(world: World) -> None:
        killed = []

        async def kill(world: World, call: Call) -> None:
            killed.append(call)
            process = world.processes[-1]
            process.kill()
            await process.thawed()

        for _ in range(3):
            process = world.start()
            process.plan = lambda call: (lambda: kill(world, call)) if call.step == step else None
            await world.run(20_000)
            process.kill()
            file = world.state.queue.file
            if file is not None and file.due:
                file.drop(sorted(file.due)[0])
        assert killed
        world.start()
        await world.run(QUICK.overdue_grace_ms + QUICK.reconcile_ms + 30_000)

    world = play(scenario, declare("a", "every 10s", overlap=allow(50), grace_ms=HOUR))
    counts = audit(world, bound_ms=10_000)
    assert counts["ran"] >= 8
    assert set(counts) == {"ran"}


def test_a_slot_that_is_seen_twice_is_one_run() -> None:
    """B082: the loop wakes twice in the minute of a slot, and an older copy of the queue brings its entry back: it runs once."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(30_000)
        older = copy_of(world.state.queue.file)  # type: ignore[arg-type]  # it is there
        await world.run(58_000)
        process.engine.wake.ring()
        await world.run(1_000)
        world.state.queue.set(older)
        await world.run(60_000)

    world = play(scenario, declare("a", "0 6 * * *"), wall_ms=START + 6 * HOUR - MINUTE)
    assert len(world.sent()) == 1
    assert ran(world, "a") == [6 * HOUR]
