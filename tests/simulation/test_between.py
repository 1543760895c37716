"""Something happens between any two steps of one fire: an edit, a removal, a pause, a lost queue, an error of a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from faults import copy_of, failure, pause, resume
from jobs import declare, id_of
from sweep import SLOT, Deed, Fire, sweep
from world import Process, World

from cronpad_core.domain.errors import StoreDamagedError
from cronpad_core.domain.events import QueueRebuilt, StoreFailed, StoreRecovered
from cronpad_core.domain.job import JobStatus
from cronpad_core.domain.run import RunStatus
from cronpad_testkit.tripwire import Call, raises


def first_deliveries(world: World) -> Counter[tuple[int, int]]:
    """How often each attempt of each slot was delivered."""
    return Counter((one.key.scheduled_at_ms, one.delivery.attempt) for one in world.sent("a"))


# --- the job changes --------------------------------------------------------------------------------------------------------------
async def edit(world: World, process: Process, call: Call) -> None:
    """The file changes, and is read again."""
    world.declared = [declare("a", "every 20s", retry=1, tags=("new",))]
    await process.reload()


async def remove(world: World, process: Process, call: Call) -> None:
    """The job leaves its file."""
    world.declared = []
    await process.reload()


async def hold_on(world: World, process: Process, call: Call) -> None:
    """A user pauses the job."""
    assert await pause(world, process, id_of("a"))


def test_an_edit_between_any_two_steps_mixes_no_settings() -> None:
    """Row 86: a run goes by the settings it started with, its version's open slots are dropped, and the new ones fire on time."""

    def check(world: World, where: str) -> None:
        for run in world.runs("a"):
            assert run.spec.tags == (("new",) if run.job_version == 2 else ()), where
            assert run.status is RunStatus.SUCCEEDED, where
        assert {(one.late_ms, count) for one in world.sent("a") for count in first_deliveries(world).values()} <= {
            (late, 1) for late in range(1_500)
        }, where
        assert [run.key.scheduled_at_ms for run in world.runs("a")][-4:] == [SLOT + 10_000 + 20_000 * n for n in range(4)], where

    sweep(Fire(quiet_ms=75_000), edit, check)


def test_a_removal_between_any_two_steps_starts_nothing_more() -> None:
    """Row 87: what was running finishes, its retry is cancelled, nothing else starts, and the queue is empty in the end."""

    def check(world: World, where: str) -> None:
        job = world.state.catalog.jobs[id_of("a")]
        assert job.status is JobStatus.DELETED
        assert len(world.runs("a")) <= 1
        assert all(run.status in (RunStatus.SUCCEEDED, RunStatus.CANCELLED) for run in world.runs("a")), where
        assert set(first_deliveries(world).values()) <= {1}, where
        assert world.members() == [], where

    sweep(Fire(quiet_ms=60_000), remove, check)


def test_a_pause_between_any_two_steps_starts_no_further_attempt() -> None:
    """Row 88: the attempt that was started ends, no retry starts, and after resuming it fires at the next slot after that."""

    async def resumed(world: World, process: Process) -> None:
        await world.run(50_000)
        assert world.state.catalog.jobs[id_of("a")].status is JobStatus.PAUSED
        assert await process.spawn(resume(world, process, id_of("a")))

    def check(world: World, where: str) -> None:
        slots = [run.key.scheduled_at_ms for run in world.runs("a") if run.job_version == 2]
        assert slots == [SLOT + 60_000, SLOT + 90_000], where
        for run in world.runs("a"):
            if run.job_version == 1:
                assert run.status in (RunStatus.FAILED, RunStatus.SUCCEEDED), where
        assert set(first_deliveries(world).values()) == {1}, where

    sweep(Fire(quiet_ms=60_000), hold_on, check, then=resumed)


# --- the queue is lost ------------------------------------------------------------------------------------------------------------
async def lose(world: World, process: Process, call: Call) -> None:
    """``rm cronpad-queue.db``."""
    world.state.queue.delete()


async def damage(world: World, process: Process, call: Call) -> None:
    """Garbage over its pages."""
    file = world.state.queue.file
    assert file is not None
    world.damaged[id(file)] = file


def older() -> Callable[[World, Process, Call], object]:
    """``mv old-copy cronpad-queue.db``: a copy from before the fire."""

    async def replace(world: World, process: Process, call: Call) -> None:
        twin = copy_of(world.state.queue.file) if world.state.queue.file else None
        assert twin is not None
        for member in list(twin.inflight):
            twin.drop(member)
        twin.lock = None
        world.state.queue.set(twin)

    return replace


@pytest.mark.parametrize("deed", [lose, damage, older()], ids=["deleted", "damaged", "older copy"])
def test_a_lost_queue_between_any_two_steps_loses_and_repeats_nothing(deed: Deed) -> None:
    """Rows 27 to 33: noticed within one reconcile, refilled from control and history under the same term; no slot is lost, and no
    delivery is repeated, since nobody died."""

    def check(world: World, where: str) -> None:
        runs = world.runs("a")
        assert [run.key.scheduled_at_ms for run in runs] == [SLOT + 30_000 * n for n in range(len(runs))], where
        assert len(runs) == 4 and {run.status for run in runs} == {RunStatus.SUCCEEDED}, where
        assert set(first_deliveries(world).values()) == {1}, where
        assert len(world.told(QueueRebuilt)) == 1, where
        assert world.state.catalog.term.record.term == 1, where
        late = [one.late_ms for one in world.sent("a") if one.delivery.attempt == 0]
        assert max(late) <= 6_000, where

    sweep(Fire(quiet_ms=100_000), deed, check)


# --- a store fails ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["busy", "unknown, not applied", "unknown, applied"])
def test_an_error_of_a_store_at_any_call_costs_a_moment_only(kind: str) -> None:
    """A call that fails is made again: each attempt is delivered once and recorded, and each episode is told once, with its end."""

    async def fail(world: World, process: Process, call: Call) -> None:
        action = failure(call.step, after=call.after, busy=kind == "busy")
        assert action is not None
        await action()

    def fails(call: Call) -> bool:
        wanted = failure(call.step, after=call.after, busy=kind == "busy") is not None
        return wanted and call.after == (kind == "unknown, applied")

    def check(world: World, where: str) -> None:
        runs = world.runs("a")
        assert len(runs) == 4 and {run.status for run in runs} == {RunStatus.SUCCEEDED}, where
        assert set(first_deliveries(world).values()) == {1}, where
        store = where.split()[1].partition(".")[0].replace("catalog", "control")
        assert [event.store for event in world.told(StoreFailed)] == [store], where
        assert [event.store for event in world.told(StoreRecovered)] == [store], where
        late = [one.late_ms for one in world.sent("a") if one.delivery.attempt == 0]
        assert max(late) <= 1_000, where

    sweep(Fire(quiet_ms=100_000), fail, check, only=fails)


def test_a_queue_that_says_it_is_damaged_and_is_not_is_used_on() -> None:
    """One wrong answer does not throw a whole queue away: it is looked at, found whole, and kept."""

    async def say(world: World, process: Process, call: Call) -> None:
        await raises(StoreDamagedError("database disk image is malformed"))()

    def check(world: World, where: str) -> None:
        runs = world.runs("a")
        assert len(runs) == 4 and {run.status for run in runs} == {RunStatus.SUCCEEDED}, where
        assert set(first_deliveries(world).values()) == {1}, where

    sweep(Fire(quiet_ms=100_000), say, check, only=lambda call: call.step.startswith("queue.") and not call.after)
