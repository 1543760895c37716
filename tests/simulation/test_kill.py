"""A process is killed, or frozen for long, at each side of each port call of one fire: faults.md 2.1, rows 1 to 10, 14 and 47."""

from __future__ import annotations

from collections import Counter

import pytest
from jobs import START, declare, play
from sweep import SLOT, Fire, fails_once, sweep
from world import QUICK, Act, Process, World

from cronpad_core.domain.job import Guarantee
from cronpad_core.domain.occurrence import RunKey
from cronpad_core.domain.run import Run, RunStatus
from cronpad_testkit.tripwire import Action, Call


async def kill(world: World, process: Process, call: Call) -> None:
    """SIGKILL, and a supervisor that starts the next one at once unless another stands by."""
    world.note("killed at", call)
    process.kill()
    if len(world.processes) == 1:
        world.start()
    await process.thawed()


async def freeze(world: World, process: Process, call: Call) -> None:
    """SIGSTOP for longer than lease and lock live."""
    process.freeze(40_000)
    await process.thawed()


def one_run(world: World, status: RunStatus = RunStatus.SUCCEEDED) -> None:
    """One run row for the slot, which ended well; the later slots too."""
    runs = world.runs("a")
    assert [run.key.scheduled_at_ms for run in runs] == [SLOT + 30_000 * n for n in range(len(runs))]
    assert runs[0].status is status
    assert {run.status for run in runs[1:]} == {RunStatus.SUCCEEDED}
    assert len(runs) == 4


def same_delivery(world: World) -> Counter[int]:
    """All deliveries of the slot carry the same ids; answers how many each attempt had."""
    sent = [one for one in world.sent("a") if one.key.scheduled_at_ms == SLOT]
    assert len({(one.delivery.run_id, one.delivery.idempotency_key, one.delivery.slot_at_ms) for one in sent}) == 1
    return Counter(one.delivery.attempt for one in sent)


@pytest.mark.parametrize("standby", [False, True], ids=["restarted", "standby"])
def test_a_kill_at_any_call_loses_nothing_and_repeats_at_most_one_delivery(standby: bool) -> None:
    """One run row, one repeat of the attempt that was running, none of one that was recorded, on again within two seconds."""

    def check(world: World, where: str) -> None:
        one_run(world)
        counts = same_delivery(world)
        assert max(counts.values()) <= 2 and sum(counts.values()) <= 3, where
        late = [one.late_ms for one in world.sent("a") if one.delivery.attempt == 0 and one.delivery.redelivery == 0]
        # A renewal between a taker's look and its row costs that taker a full wait: its own record has hidden the dead holder.
        refused = world.rules.hits["queue.acquire False"]
        assert max(late) <= (QUICK.lock_ttl_ms + 3_000 if refused else 2_000), where
        repeated = [one for one in world.sent("a") if one.delivery.redelivery]
        assert all(one.delivery.redelivery == 1 for one in repeated)

    sweep(Fire(standby=standby), kill, check)


def test_a_recorded_attempt_is_never_delivered_again() -> None:
    """B085: killed after its record the attempt is acknowledged without another delivery; killed before, it has one more."""
    before: list[tuple[int, bool]] = []

    async def note_and_kill(world: World, process: Process, call: Call) -> None:
        before.append((len(world.sent("a")), bool(world.runs("a")) and world.runs("a")[0].status.terminal))
        await kill(world, process, call)

    def check(world: World, where: str) -> None:
        one_run(world)
        sent, recorded = before[-1]
        assert same_delivery(world)[0] == sent + (0 if recorded else 1), where

    sweep(Fire(script=lambda delivery: Act(for_ms=300)), note_and_kill, check)
    assert {(0, False), (1, False), (1, True)} == set(before)


def test_at_most_once_is_never_delivered_twice() -> None:
    """Killed while it may have been delivered, the run ends as unknown; otherwise it is delivered once."""

    def check(world: World, where: str) -> None:
        [run, *_] = world.runs("a")
        counts = same_delivery(world) if world.sent("a")[0].key == run.key else Counter()
        assert counts[0] <= 1, where
        assert run.status in (RunStatus.SUCCEEDED, RunStatus.UNKNOWN), where
        if run.status is RunStatus.SUCCEEDED:
            assert counts[0] == 1, where

    job = declare("a", "every 30s", guarantee=Guarantee.AT_MOST_ONCE)
    sweep(Fire(jobs=(job,), script=lambda delivery: Act(for_ms=300)), kill, check)


def test_a_process_that_wakes_after_its_lock_and_lease_ended_changes_nothing() -> None:
    """Row 47: frozen at any call, another one finishes its work; when it wakes, no row of that run changes any more."""

    seen: list[dict[RunKey, Run]] = []

    async def look_before_it_wakes(world: World, process: Process) -> None:
        await world.run(36_000)
        assert process.frozen_until_ms > world.clock.boot_ms()
        seen.append(dict(world.state.history.runs))
        assert world.processes[1].engine.authority.trusted() and not process.engine.authority.trusted()

    def check(world: World, where: str) -> None:
        one_run(world)
        counts = same_delivery(world)
        assert max(counts.values()) <= 2, where
        ended = {key: run for key, run in seen[-1].items() if run.status.terminal}
        assert SLOT in {key.scheduled_at_ms for key in ended}, where
        assert {key: world.state.history.runs[key] for key in ended} == ended, where

    sweep(Fire(standby=True, quiet_ms=64_000), freeze, check, then=look_before_it_wakes)


def test_a_run_that_kills_its_holder_again_and_again_is_poisoned() -> None:
    """After five holders died while it was running, a run is given up, and later slots go on."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=5_000)

        async def deadly(sent: object) -> None:
            if len(world.sent("a")) <= 8 and world.witness[-1].key.scheduled_at_ms == START + 10_000:
                alive = next(one for one in world.processes if one.alive)
                alive.kill()
                world.start().at_delivery = deadly

        world.start().at_delivery = deadly
        await world.run(60_000)

    world = play(scenario, declare("a", "every 10s"))
    first, *others = world.runs("a")
    assert (first.status, first.redeliveries) == (RunStatus.POISONED, QUICK.max_redeliveries)
    assert sum(one.key == first.key for one in world.sent()) == QUICK.max_redeliveries
    assert {run.status for run in others[:-1]} == {RunStatus.SUCCEEDED}


def test_killed_while_starting() -> None:
    """Row 13: killed at any call of a start, the next start does the rest."""
    number = 0
    while _killed_at(number):
        number += 1
    assert number > 20


def _killed_at(number: int) -> bool:
    """Kills the second start at its ``number``-th side of a call; False where it was active before."""
    reached: list[Call] = []

    async def scenario(world: World) -> None:
        world.script = fails_once
        world.start()
        await world.run(15_000)
        world.processes[0].kill()
        await world.run(5_000)
        process = world.start()

        async def kill_it() -> None:
            process.kill()
            world.start()
            await process.thawed()

        def plan(call: Call) -> Action | None:
            if len(process.calls) == number + 1 and not process.active:
                reached.append(call)
                return kill_it
            return None

        process.plan = plan
        await world.run(60_000)

    world = play(scenario, declare("a", "every 10s", retry=1))
    assert {run.status for run in world.runs()[:-1]} == {RunStatus.SUCCEEDED}
    assert [run.key.scheduled_at_ms for run in world.runs()] == [START + 10_000 * n for n in range(1, len(world.runs()) + 1)]
    assert len(world.runs()) >= 7
    return bool(reached)
