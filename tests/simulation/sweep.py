"""One fire, again and again: the same second of the same world, with something happening at each side of each port call in turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from jobs import START, declare, play
from ledger import audit, settled
from world import Act, Process, World

from cronpad_core.control.apply import Declared
from cronpad_core.domain.outcome import Failed
from cronpad_core.ports.sink import Delivery
from cronpad_testkit.tripwire import Action, Call

__all__ = ["PERIOD", "SLOT", "Deed", "Fire", "fails_once", "sweep"]

PERIOD = 30_000
SLOT = START + PERIOD

LINE = ("queue.claim", "history.open_runs", "catalog.move", "queue.put", "history.record", "queue.ack")
"""The steps that every fire passes."""

Deed = Callable[[World, Process, Call], Awaitable[None]]
"""What happens at a call: awaited in the call itself, so that nothing else of the line comes between."""


def fails_once(delivery: Delivery) -> Act:
    """A sink that takes 300 ms, and fails at the first attempt."""
    return Act(for_ms=300, outcome=Failed(reason="not yet")) if delivery.attempt == 0 else Act(for_ms=300)


@dataclass(slots=True, kw_only=True)
class Fire:
    """A job that fires at ``SLOT``, a process that is active by then, and perhaps another that stands by.

    ``quiet_ms`` is how long the world goes on afterwards before the reckoning.
    """

    jobs: tuple[Declared, ...] = field(default_factory=lambda: (declare("a", "every 30s", retry=2),))
    script: Callable[[Delivery], Act] = fails_once
    standby: bool = False
    quiet_ms: int = 100_000
    span_ms: int = 1_500
    fired: bool = field(default=False, init=False)

    def calls(self) -> list[Call]:
        """The calls that the process makes in the second of its fire, both sides of each."""
        seen: list[Call] = []

        async def scenario(world: World) -> None:
            process = await self._begin(world)
            before = len(process.calls)
            await world.run(self.span_ms)
            seen.extend(process.calls[before:])

        play(scenario, *self.jobs)
        return seen

    async def _begin(self, world: World) -> Process:
        world.script = self.script
        process = world.start()
        await world.run(2_000)
        if self.standby:
            world.start()
        await world.run(PERIOD - 2_100)
        return process

    def play(self, number: int, deed: Deed, *, then: Callable[[World, Process], Awaitable[None]] | None = None) -> World:
        """Plays the fire with ``deed`` at its ``number``-th side of a call; ``then`` runs right after the second of the fire."""
        self.fired = False

        async def scenario(world: World) -> None:
            process = await self._begin(world)
            target = len(process.calls) + number

            def plan(call: Call) -> Action | None:
                if len(process.calls) != target + 1 or self.fired:
                    return None
                self.fired = True
                return lambda: deed(world, process, call)

            process.plan = plan
            await world.run(self.span_ms)
            if then is not None:
                await then(world, process)
            await world.run(self.quiet_ms)
            audit(world, bound_ms=self.quiet_ms - 5_000)
            settled(world, bound_ms=self.quiet_ms - 5_000)

        return play(scenario, *self.jobs)


def sweep(
    fire: Fire,
    deed: Deed,
    check: Callable[[World, str], None],
    *,
    then: Callable[[World, Process], Awaitable[None]] | None = None,
    only: Callable[[Call], bool] = lambda call: True,
) -> None:
    """Plays ``deed`` at each side of each call; ``check`` gets the world and a name for what was done."""
    reached = set()
    for number, call in enumerate(fire.calls()):
        if not only(call):
            continue
        reached.add(call.step)
        where = f"{'after' if call.after else 'before'} {call.step} (call {number})"
        try:
            world = fire.play(number, deed, then=then)
            assert fire.fired, "the call was not reached"
            check(world, where)
        except AssertionError as error:
            error.add_note(f"it happened {where}")
            raise
    assert reached >= {step for step in LINE if only(Call(step, 1, after=False)) or only(Call(step, 1, after=True))}
