"""Jobs whose schedule cannot be read for a while, a zone that is unknown for instance: nothing of them is lost, others run on."""

from __future__ import annotations

from jobs import declare, id_of, play
from ledger import audit
from test_leases import LEASE, failing
from world import Act, World

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.domain.events import JobUnreadable
from cronpad_core.domain.job import ScheduleSpec
from cronpad_core.domain.run import RunStatus
from cronpad_core.ports.schedule import Schedule


class Zones:
    """Reads schedules; those of ``gone`` (job id and version, or any version) cannot be read."""

    def __init__(self, world: World) -> None:
        self.known, self.gone = world.schedules, set[tuple[str, int | None]]()
        world.schedules = self

    def __call__(self, job_id: str, version: int, spec: ScheduleSpec) -> Schedule:
        """The schedule of a job version."""
        if self.gone & {(job_id, version), (job_id, None)}:
            raise ScheduleError("no such zone", code="zone")
        return self.known(job_id, version, spec)


def test_a_worker_takes_a_newer_lease_over_although_its_job_cannot_be_read() -> None:
    """A zone that vanishes while a run is under way ends neither the delivery nor the process."""

    async def scenario(world: World) -> None:
        world.script = lambda delivery: Act(for_ms=LEASE + 15_000) if delivery.job_name == "a" else Act()
        zones = Zones(world)
        process = world.start()
        await world.run(9_000)
        failing(world, process, "queue.extend", "catalog.move")
        await world.run(LEASE - 1_000)
        zones.gone.add((id_of("a"), None))
        await world.run(6_000)
        failing(world, process)
        await world.run(40_000)
        assert process.alive

    world = play(scenario, declare("a", "every 10s"), declare("b", "every 10s"))
    assert len(world.told(JobUnreadable)) >= 1
    assert len(world.sent("b")) >= 6


def test_a_job_that_cannot_be_read_opens_nothing_and_loses_nothing() -> None:
    """While it cannot be read it has no runs, whoever dies meanwhile; once it can, its slots are decided and it fires on time."""

    async def scenario(world: World) -> None:
        zones = Zones(world)
        process = world.start()
        await world.run(15_000)
        zones.gone.add((id_of("a"), None))
        for _ in range(7):
            process.kill()
            process = world.start()
            await world.run(20_000)
        assert [run.status for run in world.runs("a")] == [RunStatus.SUCCEEDED]
        zones.gone.clear()
        await world.run(81_000)

    world = play(scenario, declare("a", "every 10s"), declare("b", "every 10s"))
    assert len(world.told(JobUnreadable)) >= 1
    assert max(sent.late_ms for sent in world.sent("b")) <= 1_000
    assert audit(world, bound_ms=2_000)["missed"] >= 14
    assert [sent.late_ms for sent in world.sent("a")][-1] == 0


def test_what_an_ended_version_dropped_is_owed_until_its_schedule_can_be_read() -> None:
    """A version that ended while its zone was unknown gets its row in the ledger later, not never."""

    async def scenario(world: World) -> None:
        zones = Zones(world)
        world.start()
        await world.run(5_000)
        world.end()
        await world.run(30_000)
        zones.gone.add((id_of("a"), 1))
        world.declared = [declare("a", "every 7s")]
        world.start()
        await world.run(30_000)
        zones.gone.clear()
        await world.run(20_000)

    world = play(scenario, declare("a", "every 10s"))
    assert audit(world, bound_ms=1_000)["dropped"] == 3
