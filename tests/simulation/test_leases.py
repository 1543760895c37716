"""Leases that end although their holder lives, and entries that a process meets again while it still works on them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from faults import failure
from jobs import START, allow, declare, play
from ledger import audit, settled
from rules import Breach
from world import QUICK, Act, Process, World

from cronpad_core.domain.events import EntryDropped, LeaseLost
from cronpad_core.domain.run import AttemptStatus, RunStatus
from cronpad_core.ports.queue import Entry
from cronpad_testkit.tripwire import Action, Call, raises, sleeps

LEASE = QUICK.lease_ms


def failing(world: World, process: Process, *steps: str) -> None:
    """These steps fail from now on; none: all go well again."""
    process.plan = lambda call: failure(call.step, after=False, busy=True) if call.step in steps and not call.after else None


def test_a_worker_takes_over_the_newer_lease_of_its_own_entry() -> None:
    """Its lease ended, was put back and claimed again by the same process: one delivery goes on, under the newer fence."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=LEASE + 15_000)
        process = world.start()
        await world.run(9_000)
        failing(world, process, "queue.extend")
        await world.run(LEASE + 5_000)
        failing(world, process)
        await world.run(60_000)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z"))
    [run] = world.runs()
    [attempt] = world.state.history.attempts[run.id].values()
    assert (len(world.sent()), run.status, attempt.status) == (1, RunStatus.SUCCEEDED, AttemptStatus.DELIVERED)
    assert world.rules.hits["reaped"] == 1 and world.rules.hits["history.raise_fence True"] == 1
    assert run.fence == attempt.fence > int(world.sent()[0].delivery.fence)
    assert world.members() == [] and world.told(LeaseLost) == []


def test_a_lease_that_was_put_back_is_taken_back_by_its_holder() -> None:
    """Put back by the reaper and claimed by nobody yet, a lease under the same fence is taken back at the next extension."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=LEASE + 15_000)
        process = world.start()
        await world.run(9_000)
        failing(world, process, "queue.extend")
        await world.run(LEASE + 2_500)
        failing(world, process)
        await world.run(60_000)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z"), tuning=replace(QUICK, workers=1))
    assert (len(world.sent()), world.runs()[0].status) == (1, RunStatus.SUCCEEDED)
    assert world.rules.hits["queue.extend reclaimed"] == 1
    assert world.members() == []


def test_a_hand_over_before_the_run_was_opened_moves_nothing() -> None:
    """2 before 3: while history does not answer, an entry that comes up again does not advance its job; killed then, nothing is
    lost."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(9_000)
        failing(world, process, "history.open_runs", "queue.extend")
        await world.run(LEASE + 5_000)
        assert world.rules.hits["reaped"] == 1
        process.kill()
        world.start()
        await world.run(60_000)
        settled(world, bound_ms=20_000)

    world = play(scenario, declare("a", "every 10s", policy="all", overlap=allow(9)))
    assert audit(world, bound_ms=1_000)["ran"] == len(world.runs()) >= 7


def test_an_unreadable_entry_holds_nobody_hostage() -> None:
    """An entry that cannot even be acknowledged, claimed together with a good one, does not keep that from running: neither while
    the queue fails nor when the lock is lost meanwhile."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(9_000)
        term = process.engine.authority.term
        assert term is not None
        entry = Entry(member="~garbage", at_ms=START + 10_000)
        await process.spawn(process.storage.queue.put([entry], term=term))
        failing(world, process, "queue.ack", "queue.renew")
        await world.run(QUICK.lock_ttl_ms + 3_000)
        failing(world, process)
        await world.run(60_000)
        assert {holding.occurrence.member for holding in process.engine.holdings} == set()
        settled(world, bound_ms=20_000)

    world = play(scenario, declare("a", "every 10s", policy="all", overlap=allow(9)))
    assert [event.member for event in world.told(EntryDropped)].count("~garbage") >= 1
    assert world.sent()[0].late_ms == 0
    assert audit(world, bound_ms=1_000) == {"ran": 7}


def test_two_newer_leases_of_one_entry_make_no_two_lines() -> None:
    """However often an entry came up again while its worker ran, at most one line of it is under way when that ends."""
    live: Counter[str] = Counter()

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=2 * LEASE + 6_000)
        process = world.start()
        await world.run(9_000)

        def plan(call: Call) -> Action | None:
            if call.step == "queue.extend" and not call.after:
                return failure(call.step, after=False, busy=True)
            if call.step == "history.raise_fence" and not call.after:
                return sleeps(2 * LEASE + 4_000)
            return None

        process.plan = plan
        for _ in range(1_200):
            await world.run(100)
            for key, count in process.delivering.items():
                live[str(key)] = max(live[str(key)], count)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z"))
    assert set(live.values()) == {1}
    assert [run.status for run in world.runs()] == [RunStatus.SUCCEEDED]


def test_a_result_that_comes_too_late_gives_its_entry_back_at_once() -> None:
    """The run belongs to a holder that has died, and the entry is ours again: it is delivered again soon, not after two leases."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=45_000)
        first = world.start()
        await world.run(10_500)
        failing(world, first, "queue.renew", "queue.look", "queue.acquire")
        second = world.start()
        await world.until(lambda: len(world.sent()) == 2, within_ms=30_000)
        second.kill()
        failing(world, first)
        await world.run(120_000)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z"))
    assert [run.status for run in world.runs()] == [RunStatus.SUCCEEDED]
    assert [sent.process for sent in world.sent()] == ["P1", "P2", "P1"]
    assert world.sent()[2].wall_ms - START <= 10_000 + 45_000 + 1_000


def test_an_error_in_keeping_leases_ends_the_process() -> None:
    """A loop of the core that dies does not die alone: leases that nobody keeps would end one after another."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(9_000)
        world.script = lambda delivery: Act(for_ms=LEASE)
        process.plan = lambda call: raises(RuntimeError("a bug")) if call.step == "queue.extend" else None
        await world.run(LEASE)

    with pytest.raises(Breach, match="a bug"):
        play(scenario, declare("a", "every 10s"))


def test_a_delivery_that_another_holder_ended_still_counts_for_its_job() -> None:
    """It runs on although its run has ended elsewhere: no other run of its job is delivered beside it, right after a new taking
    too."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=200_000 if len(world.sent()) == 1 else 0)
        first = world.start()
        await world.run(10_500)
        second = world.start()
        await world.run(200)
        failing(world, first, "queue.extend")  # so that it does not learn before its next run that the lease is gone
        first.freeze(QUICK.lock_ttl_ms + 9_000)
        await world.until(lambda: any(run.status is RunStatus.SUCCEEDED for run in world.runs()))
        await second.stop(0)
        await world.until(lambda: first.active)
        await world.run(25_000)

    world = play(scenario, declare("a", "every 5s", policy="skip"))
    assert {sent.process for sent in world.sent()} == {"P1", "P2"}
    skipped = [run for run in world.runs() if run.status is RunStatus.SKIPPED]
    assert len(skipped) >= 4


def test_a_run_whose_lease_is_lost_is_not_counted_twice() -> None:
    """After the queue was lost a delivery has no lease, but its row is running: with ``allow(2)`` one more run fits beside it."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=60_000 if len(world.sent()) == 1 else 0)
        world.start()
        await world.run(10_500)
        world.state.queue.delete()
        await world.run(40_000)

    world = play(scenario, declare("a", "every 10s", overlap=allow(2)))
    assert len(world.told(LeaseLost)) == 1
    assert [run.status for run in world.runs()] == [RunStatus.RUNNING] + [RunStatus.SUCCEEDED] * 4
