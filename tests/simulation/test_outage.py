"""Stores that do not answer for a while: nothing is lost, nothing is repeated, and each outage is told once."""

from __future__ import annotations

from collections import Counter

import pytest
from faults import failure
from jobs import START, declare, play
from ledger import audit, settled
from world import QUICK, Act, Process, World

from cronpad_core.domain.events import StoreFailed, StoreRecovered
from cronpad_core.domain.run import RunStatus
from cronpad_core.domain.tuning import Tuning
from cronpad_testkit.tripwire import Action, Call


def out(world: World, process: Process, store: str, *, busy: bool = True) -> None:
    """From now on every call of that store fails; ``store`` may be a single step."""

    def plan(call: Call) -> Action | None:
        if store in (call.step, call.step.partition(".")[0]):
            return failure(call.step, after=call.after and not busy, busy=busy)
        return None

    process.plan = plan


def back(process: Process) -> None:
    """It answers again."""
    process.plan = lambda call: None


@pytest.mark.parametrize("store", ["queue", "history", "catalog"])
def test_after_an_outage_of_thirty_seconds_runs_resume(store: str) -> None:
    """B086: with the real figures, runs go on within 40 s of the end, the hole is decided by policy, and it is told once."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(25_500)
        out(world, process, store)
        await world.run(30_000)
        assert [sent.wall_ms for sent in world.sent()][2:] == []
        back(process)
        await world.run(300_000 - 55_500)
        assert process.alive

    world = play(scenario, declare("a", "every 10s"), tuning=Tuning())
    first = next(sent for sent in world.sent() if sent.wall_ms > START + 55_500)
    assert first.wall_ms - (START + 55_500) <= 40_000
    late = [sent.late_ms for sent in world.sent()][-10:]
    assert late == [0] * 10
    counts = audit(world, bound_ms=1_000)
    assert counts["ran"] + counts["missed"] + counts["skipped"] == 29
    settled(world, bound_ms=60_000)
    name = store.replace("catalog", "control")
    assert [event.store for event in world.told(StoreFailed)] == [name]
    [recovered] = world.told(StoreRecovered)
    assert recovered.store == name and 20_000 <= recovered.after_ms <= 36_000
    repeats = Counter((sent.key, sent.delivery.attempt) for sent in world.sent())
    assert set(repeats.values()) == {1}


def test_an_outage_of_the_queue_costs_the_lock_before_another_could_take_it() -> None:
    """Row 37: a holder that cannot renew stops trusting its lock a second before it ends, and takes it again afterwards."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(10_500)
        out(world, process, "queue")
        await world.run(QUICK.lock_ttl_ms)
        assert not process.engine.authority.trusted()
        back(process)
        await world.run(20_000)
        assert process.engine.authority.trusted()

    world = play(scenario, declare("a", "every 10s"))
    assert {run.status for run in world.runs()} == {RunStatus.SUCCEEDED}
    assert len(world.runs()) == 3


def test_a_finished_delivery_waits_for_its_record() -> None:
    """Row 22: while history is full no delivery starts; one that is under way finishes, and is recorded when history is back."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=3_000)
        process = world.start()
        await world.run(11_000)
        out(world, process, "history")
        await world.run(13_000)
        assert len(world.sent()) == 1
        assert world.runs()[0].status is RunStatus.RUNNING
        back(process)
        await world.run(7_000)
        assert world.runs()[0].status is RunStatus.SUCCEEDED

    world = play(scenario, declare("a", "every 10s"))
    assert max(Counter(sent.key for sent in world.sent()).values()) == 1


def test_control_that_is_locked_delays_the_delivery_and_repeats_none() -> None:
    """Row 23: delivery follows advance, so while control cannot be written nothing new is delivered."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(9_000)
        out(world, process, "catalog.move")
        await world.run(3_000)
        assert world.sent() == []
        assert [run.status for run in world.runs()] == [RunStatus.RUNNING]
        back(process)
        await world.run(6_000)

    world = play(scenario, declare("a", "every 10s"))
    assert len(world.sent()) == 1


def test_a_damaged_control_is_not_taken_for_a_damaged_queue() -> None:
    """An error of control leaves the queue alone: it is not moved aside, and nothing is rebuilt."""
    from cronpad_core.domain.errors import StoreDamagedError
    from cronpad_core.domain.events import QueueRebuilt
    from cronpad_testkit.tripwire import raises

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(1_000)
        process.plan = lambda call: raises(StoreDamagedError("no")) if call.step == "catalog.read_term" else None
        await world.run(4_000)
        back(process)
        await world.run(40_000)

    world = play(scenario, declare("a", "every 10s"))
    assert world.told(QueueRebuilt) == []
    assert [event.store for event in world.told(StoreFailed)] == ["control"]
    assert [sent.late_ms for sent in world.sent()] == [0] * 4


def test_a_claim_that_nobody_was_told_of_is_read_back() -> None:
    """A claim whose commit is unknown is looked up by owner and fence: its entries run at once, not when their leases end."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(9_000)
        failures = iter([True])

        def plan(call: Call) -> Action | None:
            if call.step == "queue.claim" and call.after and next(failures, False):
                return failure(call.step, after=True, busy=False)
            return None

        process.plan = plan
        await world.run(10_000)

    world = play(scenario, declare("a", "every 10s"), declare("b", "every 10s"))
    assert [sent.late_ms for sent in world.sent()] == [0, 0]
