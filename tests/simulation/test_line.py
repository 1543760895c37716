"""The line in virtual time, without faults: when jobs fire, what retries, time-outs and overlaps do, and nothing twice."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from jobs import START, allow, declare, id_of, play
from ledger import audit
from world import QUICK, Act, World

from cronpad_core.domain.job import JobStatus
from cronpad_core.domain.outcome import Failed
from cronpad_core.domain.retry import RetryRule
from cronpad_core.domain.run import AttemptStatus, RunStatus, SkipReason
from cronpad_core.domain.tuning import Tuning

HOUR = 3_600_000


def statuses(world: World, name: str | None = None) -> list[str]:
    """The statuses of the runs, in the order of their slots."""
    return [run.status.value for run in world.runs(name)]


def test_jobs_fire_on_time_to_the_millisecond_for_hours() -> None:
    """Every slot of two hours is delivered in the millisecond it is due, once, whatever the schedule's kind."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(2 * HOUR + 500)

    world = play(
        scenario,
        declare("interval", "every 7s"),
        declare("cron", "*/5 * * * *", timezone="Europe/Zurich"),
        declare("seconds", "*/30 * * * * *"),
        tuning=Tuning(),
    )
    assert [len(world.sent(name)) for name in ("interval", "cron", "seconds")] == [2 * 3600 // 7, 24, 240]
    assert {sent.late_ms for sent in world.sent()} == {0}
    assert set(statuses(world)) == {"succeeded"}


def test_jitter_and_offset_delay_a_start_and_never_reach_the_next_slot() -> None:
    """A start is late by its offset and its jitter, differently from slot to slot, and always before the next slot."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(HOUR // 6)

    world = play(scenario, declare("a", "every 10s", jitter_ms=3_000, offset_ms=500), declare("b", "every 10s", jitter_ms=60_000))
    assert all(500 <= sent.late_ms < 3_500 for sent in world.sent("a"))
    assert all(0 <= sent.late_ms < 10_000 for sent in world.sent("b"))
    assert len({sent.late_ms for sent in world.sent("a")}) > 40


def test_an_early_wake_up_starts_nothing_early_and_nothing_twice() -> None:
    """B060: woken some milliseconds early, by a bell or by a clock that was slewed, the slot runs once and not before its time."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(59_990)
        process.engine.wake.ring()
        await world.run(3)
        world.clock.jump(-10)
        await world.run(HOUR)

    world = play(scenario, declare("a", "0 8 * * *"), wall_ms=START + 8 * HOUR - 60_000)
    [sent] = world.sent()
    assert (sent.key.scheduled_at_ms, sent.late_ms) == (START + 8 * HOUR, 0)
    assert world.state.catalog.jobs[id_of("a")].next_run_at_ms == START + 32 * HOUR


def test_an_interval_does_not_drift() -> None:
    """B062: neither the time of a run nor the latency of each step shifts later slots, and the lag does not grow."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=700)
        world.pause = lambda process: 5
        world.start()
        await world.run(HOUR + 1_000)

    world = play(scenario, declare("a", "every 60s"), wall_ms=START + 2 * 60_000)
    assert [run.key.scheduled_at_ms for run in world.runs()] == [START + (3 + n) * 60_000 for n in range(60)]
    lags = [sent.late_ms for sent in world.sent()]
    assert max(lags) <= 100 and max(lags[50:]) <= max(lags[:10])


def test_a_spent_one_shot_stands_in_nobodys_way() -> None:
    """B064: one-shots that are past leave the queue, and others run on."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(2_000)
        world.declared.append(declare("late", "at 2026-01-01T00:00:00Z"))
        world.declared.append(declare("soon", "at 2026-01-01T00:10:10Z"))
        await process.spawn(process.reload())
        await world.run(20_000)

    world = play(scenario, declare("past", "at 2025-12-31T10:00:00Z"), declare("every", "every 5s"), wall_ms=START + 600_000)
    assert len(world.sent("every")) == 4
    assert [sent.late_ms for sent in world.sent("soon")] == [0]
    jobs = world.state.catalog.jobs
    assert {jobs[id_of(name)].status for name in ("past", "late", "soon")} == {JobStatus.COMPLETED}
    assert all(member.startswith(id_of("every")) for member in world.members())


def test_nothing_runs_at_a_start_unless_a_slot_is_due() -> None:
    """B065: a new job has missed nothing, and a restart runs nothing off the schedule."""

    async def scenario(world: World) -> None:
        for _ in range(3):
            process = world.start()
            await world.run(20_000)
            process.kill()
        world.start()
        await world.run(600_000)

    world = play(scenario, declare("a", "*/10 * * * *"), wall_ms=START + 207_000)
    assert [run.key.scheduled_at_ms for run in world.runs()] == [START + 600_000]
    assert world.sent()[0].late_ms == 0


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_max_retries_follow_the_first_try(retries: int) -> None:
    """B083: ``max = n`` is n + 1 executions with attempts 0 to n, one scheduled time and one failed run."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(outcome=Failed(reason="no"))
        world.start()
        await world.run(15_000)

    world = play(scenario, declare("a", "every 10s", retry=retries))
    assert [sent.delivery.attempt for sent in world.sent()] == list(range(retries + 1))
    assert {sent.key.scheduled_at_ms for sent in world.sent()} == {START + 10_000}
    assert len({sent.delivery.idempotency_key for sent in world.sent()}) == 1
    assert statuses(world) == ["failed"]


def test_retries_back_off_to_a_cap() -> None:
    """Attempt k follows the failure before it by 100 ms times 2 to the power of k - 1, and by 30 s at most."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=20, outcome=Failed(reason="no"))
        world.start()
        await world.run(200_000)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z", retry=RetryRule(max=11)))
    times = [sent.boot_ms for sent in world.sent()]
    pauses = [later - earlier - 20 for earlier, later in pairwise(times)]
    assert pauses == [min(100 * 2**k, 30_000) for k in range(11)]


def test_a_receiver_may_ask_for_more_time() -> None:
    """``retry_after`` is obeyed where it is longer than the back-off, up to an hour."""

    async def scenario(world: World) -> None:
        asked = iter([10, 5_000, 9 * HOUR])
        world.script = lambda delivery: Act(outcome=Failed(reason="busy", retry_after_ms=next(asked, None)))
        world.start()
        await world.run(2 * HOUR)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z", retry=RetryRule(max=3)))
    times = [sent.boot_ms for sent in world.sent()]
    assert [later - earlier for earlier, later in pairwise(times)] == [100, 5_000, HOUR]


def test_no_retry_starts_after_the_deadline() -> None:
    """Once the retry deadline has passed, the run fails with what attempts it had."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=300, outcome=Failed(reason="no"))
        world.start()
        await world.run(60_000)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z", retry=RetryRule(max=50, deadline_ms=5_000)))
    assert statuses(world) == ["failed"]
    assert all(sent.late_ms <= 5_000 for sent in world.sent())
    assert len(world.sent()) == 6


def test_a_retry_never_delays_the_next_slot() -> None:
    """Slots fire on time while earlier ones still retry, and each retries on its own."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(outcome=Failed(reason="no"))
        world.start()
        await world.run(60_500)

    world = play(scenario, declare("a", "every 5s", retry=RetryRule(max=3, base_ms=4_000, factor=1.0)))
    first = [sent for sent in world.sent() if sent.delivery.attempt == 0]
    assert [sent.late_ms for sent in first] == [0] * 12


def test_a_sink_that_swallows_cancellation_is_left_behind() -> None:
    """A hung sink's slot is free soon after its time-out, the attempt is ``timed_out``, and other jobs never notice."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=90_000, swallows=True) if delivery.job_name == "hangs" else Act()
        process = world.start()
        await world.run(61_000)
        assert process.engine.worker.abandoned == 1
        assert len(process.engine.holdings) == 0

    tuning = replace(QUICK, workers=1)
    world = play(
        scenario, declare("hangs", "at 2026-01-01T00:00:10Z", timeout_ms=3_000), declare("other", "every 10s"), tuning=tuning
    )
    [run] = world.runs("hangs")
    [attempt] = world.state.history.attempts[run.id].values()
    assert (run.status, attempt.status) == (RunStatus.FAILED, AttemptStatus.TIMED_OUT)
    assert attempt.finished_at_ms == START + 10_000 + 3_000 + QUICK.cancel_grace_ms
    assert len(world.sent("other")) == 6


def test_a_hung_sink_ends_at_its_time_out() -> None:
    """A sink that stops when it is cancelled ends exactly at the job's time-out."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=90_000)
        world.start()
        await world.run(60_000)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z", timeout_ms=3_000))
    [attempt] = world.state.history.attempts[world.runs()[0].id].values()
    assert (attempt.status, attempt.finished_at_ms) == (AttemptStatus.TIMED_OUT, START + 13_000)


def test_a_slow_sink_keeps_its_lease() -> None:
    """A delivery of more than three leases is delivered once: its lease is extended all the while."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=3 * QUICK.lease_ms + 5_000)
        world.start()
        await world.run(100_000)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z"))
    assert len(world.sent()) == 1
    assert statuses(world) == ["succeeded"]
    assert world.rules.hits["queue.extend kept"] >= 9
    assert world.rules.hits["reaped"] == 0


def test_overlap_skip_records_each_slot() -> None:
    """While a run is running, later slots of its job are recorded as skipped, with the reason."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=25_000)
        world.start()
        await world.run(66_000)

    world = play(scenario, declare("a", "every 10s"))
    assert statuses(world) == ["succeeded", "skipped", "skipped"] * 2
    assert {run.skip_reason for run in world.runs()} == {None, SkipReason.PREVIOUS_RUN_IN_PROGRESS}
    assert audit(world, bound_ms=1_000) == {"ran": 2, "skipped": 4}


def test_overlap_allow_runs_so_many_at_once() -> None:
    """``allow(2)`` runs two at once and skips the third."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=25_000)
        world.start()
        await world.run(66_000)

    world = play(scenario, declare("a", "every 10s", overlap=allow(2)))
    assert statuses(world) == ["succeeded", "succeeded", "skipped", "succeeded", "running", "skipped"]


def test_a_backlog_drains_in_order_and_no_faster_than_workers() -> None:
    """Entries that wait for a worker start in the order they were due, as soon as one is free."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=1_000)
        world.start()
        await world.run(20_000)

    jobs = [declare(f"j{number}", f"at 2026-01-01T00:00:{10 + number // 3}Z") for number in range(9)]
    world = play(scenario, *jobs, tuning=replace(QUICK, workers=2))
    order = [(sent.key.scheduled_at_ms, sent.key.job_id) for sent in world.sent()]
    assert order == sorted(order) and len(order) == 9
    assert [sent.wall_ms - START for sent in world.sent()] == [10_000 + 1_000 * (n // 2) for n in range(9)]


def test_an_idle_worker_is_woken_at_once_by_a_new_entry() -> None:
    """An entry that is put for now does not wait for the next look at the queue."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(5_300)
        world.declared.append(declare("new", "every 1s"))
        await process.spawn(process.reload())
        await world.run(5_000)

    world = play(scenario, declare("rare", "0 0 1 1 *"))
    assert [sent.late_ms for sent in world.sent("new")] == [0] * 5
