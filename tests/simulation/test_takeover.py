"""Two processes over one state: one dispatches, the other stands by, and no moment has two."""

from __future__ import annotations

from collections import Counter

import pytest
from jobs import declare, play
from ledger import audit
from world import QUICK, Act, World

from cronpad_core.domain.events import DispatcherChanged
from cronpad_core.domain.job import Guarantee
from cronpad_core.domain.run import AttemptStatus, RunStatus

TTL = QUICK.lock_ttl_ms


def repeats(world: World) -> int:
    """How many deliveries were repeats."""
    counts = Counter((sent.key, sent.delivery.attempt) for sent in world.sent())
    return sum(counts.values()) - len(counts)


def test_of_two_one_dispatches_and_the_other_only_looks() -> None:
    """Row 45: the standby writes nothing and nothing is delivered twice."""

    async def scenario(world: World) -> None:
        world.start()
        await world.run(100)
        standby = world.start()
        await world.run(600_000)
        steps = {call.step for call in standby.calls}
        assert steps <= {"storage.open", "catalog.read_term", "history.read_term", "queue.look"}
        assert standby.loops.state == "standby"

    world = play(scenario, declare("a", "every 10s"))
    assert len(world.sent()) in (59, 60) and repeats(world) == 0


def test_a_clean_stop_hands_over_within_a_second() -> None:
    """Row 46: the standby takes a released lock at its next look, and every slot stays on time."""

    async def scenario(world: World) -> None:
        for _ in range(6):
            world.start()
            await world.run(7_300)
            old = next(one for one in world.processes if one.active)
            world.start()
            await world.run(1_000)
            await old.stop()
            since = world.clock.boot_ms()
            await world.until(lambda: any(one.active for one in world.processes), within_ms=1_010)
            assert world.clock.boot_ms() - since <= 1_010
            await world.run(5_000)

    world = play(scenario, declare("a", "every 5s"))
    assert repeats(world) == 0
    assert max(sent.late_ms for sent in world.sent()) <= 1_010
    assert audit(world, bound_ms=2_000)["missed"] == 0


def test_a_dead_holder_is_followed_at_once() -> None:
    """The standby takes over at its next look where the holder is provably dead, without waiting for the lock to end."""

    async def scenario(world: World) -> None:
        first = world.start()
        await world.run(10_300)
        second = world.start()
        await world.run(2_000)
        first.kill()
        await world.until(lambda: second.active, within_ms=1_010)
        await world.run(30_000)

    world = play(scenario, declare("a", "every 10s"))
    assert repeats(world) == 0 and max(sent.late_ms for sent in world.sent()) <= 1_010


def test_a_frozen_holder_is_followed_after_its_lock_has_ended() -> None:
    """Row 47: a holder that may wake again is waited for: a full lock's time of unchanged looks, and not much more."""

    async def scenario(world: World) -> None:
        first = world.start()
        await world.run(10_300)
        second = world.start()
        await world.run(2_000)
        first.freeze(60_000)
        since = world.clock.boot_ms()
        await world.until(lambda: second.active, within_ms=30_000)
        assert TTL - QUICK.renew_ms <= world.clock.boot_ms() - since <= TTL + 3_000
        await world.run(80_000)
        assert first.loops.state == "standby"

    world = play(scenario, declare("a", "every 10s"))
    assert repeats(world) == 0


def test_a_holder_that_wakes_in_time_keeps_its_lock() -> None:
    """A freeze that is shorter than the trust in the lock changes no holder."""

    async def scenario(world: World) -> None:
        first = world.start()
        world.start()
        await world.run(10_300)
        for _ in range(10):
            first.freeze(TTL - 3_500)
            await world.run(TTL + 500)
        assert first.active and first.engine.authority.term == 1

    play(scenario, declare("a", "every 10s"))


def test_a_zombie_that_delivers_on_changes_nothing() -> None:
    """The old holder's delivery goes on beside the new one's; its result is kept as a stale attempt and the run ends once."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=15_000)
        first = world.start()
        await world.run(9_000)
        world.start()
        await world.run(1_500)
        first.freeze(TTL + 20_000)
        await world.run(60_000)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z"))
    [run] = world.runs()
    attempts = list(world.state.history.attempts[run.id].values())
    assert run.status is RunStatus.SUCCEEDED and run.redeliveries == 1
    assert sorted(attempt.status for attempt in attempts) == sorted([AttemptStatus.DELIVERED, AttemptStatus.STALE])
    assert [sent.delivery.redelivery for sent in world.sent()] == [0, 1]


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_stop_interrupts_what_does_not_finish(guarantee: Guarantee) -> None:
    """Row 17: what outlasts the grace is recorded as interrupted and delivered again by the next start; or, where a delivery may
    happen once at most, ends as unknown."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=20_000)
        first = world.start()
        await world.run(11_000)
        since = world.clock.boot_ms()
        assert await first.stop(5_000) == 1
        assert world.clock.boot_ms() - since <= 7_000
        world.start()
        await world.run(30_000)

    job = declare("a", "at 2026-01-01T00:00:10Z", guarantee=guarantee)
    world = play(scenario, job)
    [run] = world.runs()
    first, *later = world.state.history.attempts[run.id].values()
    assert first.status is AttemptStatus.INTERRUPTED
    if guarantee is Guarantee.AT_MOST_ONCE:
        assert (run.status, later, len(world.sent())) == (RunStatus.UNKNOWN, [], 1)
    else:
        assert (run.status, run.redeliveries, len(world.sent())) == (RunStatus.SUCCEEDED, 0, 2)


def test_a_stop_waits_for_what_finishes_in_time_and_starts_no_retry() -> None:
    """A delivery that ends within the grace is recorded as it ended; its retry waits for the next start."""
    from cronpad_core.domain.outcome import Failed

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=3_000, outcome=Failed(reason="no"))
        first = world.start()
        await world.run(11_000)
        assert await first.stop(10_000) == 0
        assert [run.status for run in world.runs()] == [RunStatus.RETRYING]
        await world.run(5_000)
        assert len(world.sent()) == 1
        world.start()
        await world.run(20_000)

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z", retry=1))
    assert [sent.delivery.attempt for sent in world.sent()] == [0, 1]
    assert [run.status for run in world.runs()] == [RunStatus.FAILED]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_stop_that_meets_a_claim_waits_for_what_it_brought(after: bool) -> None:
    """What a claim under way brings is delivered within the grace, not opened and left running by a runner that is gone."""
    from cronpad_testkit.tripwire import Action, Call, sleeps

    async def scenario(world: World) -> None:
        first = world.start()

        def plan(call: Call) -> Action | None:
            if call.step == "queue.claim" and call.after is after and not first.loops.draining:
                world.keep(first.stop(5_000))
                return sleeps(500)
            return None

        first.plan = plan
        await world.run(20_000)
        assert not first.alive

    world = play(scenario, declare("a", "at 2026-01-01T00:00:10Z"))
    assert [(run.status, run.redeliveries) for run in world.runs()] == [(RunStatus.SUCCEEDED, 0)]
    assert len(world.sent()) == 1


def test_a_stop_that_meets_a_renewal_gives_trust_up_for_good() -> None:
    """A renewal that is answered while the lock is given back does not bring trust back beside the next holder."""
    from cronpad_testkit.tripwire import Action, Call, sleeps

    async def scenario(world: World) -> None:
        first = world.start()
        world.start()
        await world.run(1_000)

        def plan(call: Call) -> Action | None:
            if call.step == "queue.renew" and call.after and not first.loops.draining:
                world.keep(first.stop(0))
                return sleeps(500)
            return None

        first.plan = plan
        await world.run(10_000)
        assert not first.engine.authority.trusted()

    world = play(scenario, declare("a", "every 10s"))
    assert [event.term for event in world.told(DispatcherChanged) if event.state == "active"] == [1, 2]


def test_a_lock_row_that_was_deleted_is_lost_and_taken_anew() -> None:
    """Row 56: without its row the holder's next renewal says no; it stands by and takes the lock again under a new term."""

    async def scenario(world: World) -> None:
        process = world.start()
        await world.run(5_000)
        assert world.state.queue.file is not None
        world.state.queue.file.lock = None
        await world.run(4_000)
        assert process.engine.authority.term == 2
        await world.run(30_000)

    world = play(scenario, declare("a", "every 10s"))
    assert len(world.sent()) == 3 and repeats(world) == 0
