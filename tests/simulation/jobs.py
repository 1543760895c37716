"""Short ways to declare jobs, and to run a scenario."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from world import QUICK, World

from cronpad_core.control.apply import Declared
from cronpad_core.domain.ids import job_id_for
from cronpad_core.domain.job import JobSpec, ScheduleSpec, SinkSpec
from cronpad_core.domain.misfire import MisfireRule
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.retry import RetryRule
from cronpad_core.domain.timing import DAY
from cronpad_core.domain.tuning import Tuning
from cronpad_testkit.clock import WALL_START, VirtualClock, run_virtual

__all__ = ["START", "allow", "declare", "id_of", "play"]

START = WALL_START
ORIGIN = "sim"


def declare(
    name: str = "job",
    schedule: str | tuple[str, ...] = "every 10s",
    *,
    policy: str = "latest",
    window_ms: int | None = None,
    misfire_settings: dict[str, int] | None = None,
    retry: RetryRule | int = 0,
    sink: str = "script",
    timezone: str = "UTC",
    **rest: Any,
) -> Declared:
    """A job as a jobs file of the simulation declares it; ``retry`` is a rule or a number of retries 200 ms apart."""
    rule = retry if isinstance(retry, RetryRule) else RetryRule(max=retry, base_ms=200, factor=1.0)
    misfire = MisfireRule(policy=policy, window_ms=DAY if window_ms is None else window_ms, settings=misfire_settings or {})
    texts = (schedule,) if isinstance(schedule, str) else schedule
    spec = JobSpec(
        name=name,
        schedule=ScheduleSpec(texts=texts, timezone=timezone),
        sink=SinkSpec(type=sink),
        misfire=misfire,
        retry=rule,
        **rest,
    )
    return Declared(spec=spec, origin=ORIGIN)


def allow(most: int) -> OverlapRule:
    """Up to ``most`` runs of the job at once."""
    return OverlapRule(policy=OverlapPolicy.ALLOW, max=most)


def id_of(name: str) -> str:
    """The id that a declared job gets."""
    return job_id_for(ORIGIN, name)


def play(
    scenario: Callable[[World], Coroutine[Any, Any, None]],
    *jobs: Declared,
    seed: int | None = None,
    tuning: Tuning = QUICK,
    wall_ms: int = START,
    limit_ms: int = 48 * 3_600_000,
) -> World:
    """Plays a scenario in a world with these jobs, on a clean end checks the rules once more, and answers the world."""
    made: list[World] = []

    async def main(clock: VirtualClock) -> None:
        world = World(clock, tuning=tuning, jobs=jobs)
        made.append(world)
        await scenario(world)
        await world.run(0)
        world.end()

    run_virtual(main, seed=seed, wall_ms=wall_ms, limit_ms=limit_ms)
    return made[0]
