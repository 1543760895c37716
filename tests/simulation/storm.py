"""One seed: random jobs and sinks, then random faults and edits between any two port calls, then quiet, then the reckoning.

The same seed gives the same storm. Faults come in two ways: at a random time, and as a trap that snaps at the next call of a step.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from chance import any_act, any_job, tuning_of
from faults import copy_of, failure, pause, resume
from jobs import START, id_of
from ledger import audit, settled
from reckoning import agrees, backfilled, punctual, repeats
from rules import Breach
from users import ASKS, set_free
from world import Process, World

from cronpad_core.domain.errors import CronpadError, StoreError, TermRefusedError
from cronpad_core.domain.occurrence import Trigger
from cronpad_core.ports.asked import PendingRequest
from cronpad_core.ports.queue import Entry
from cronpad_testkit.clock import VirtualClock, run_virtual
from cronpad_testkit.tripwire import STEPS, Action, Call

__all__ = ["Report", "Storm", "storm"]

FAULTS_FOR, QUIET_FOR, BOUND = 150_000, 120_000, 75_000
NOBODYS = frozenset({"queue.counts", "queue.peek", "queue.close", "catalog.jobs_named", "catalog.workspaces"})
NOBODYS |= {
    "history.begin_ledger",
    "history.attempts",
    "history.ledger_from",
    "history.run_by_id",
    "history.runs",
    "history.ranges",
}
"""Steps that no storm makes: a trap there never snaps, and keeps the place of one that would."""

TRAPPED = tuple(step for step in STEPS if step.partition(".")[0] in ("queue", "catalog", "history") and step not in NOBODYS)
NEAR = ("queue.claim", "queue.put", "queue.ack", "queue.release", "queue.extend", "queue.renew", "queue.acquire", "queue.open")
NEAR += ("history.open_runs", "history.record", "history.add_ranges", "catalog.move", "catalog.write", "history.raise_fence")
NEAR += ("queue.reassert", "history.add_pending", "history.move_backfill", "history.cut_ranges", "catalog.set_workspace")
FAULTS = {
    "kill": 4,
    "freeze": 4,
    "stop": 2,
    "downtime": 2,
    "trouble": 5,
    "queue lost": 2,
    "queue old": 2,
    "queue damaged": 1,
    "lock gone": 1,
    "entry lost": 2,
    "clock forward": 2,
    "clock back": 1,
    "leases": 2,
    "slow": 3,
    "garbage": 1,
    "edit": 4,
    "remove": 1,
    "add": 2,
    "pause": 2,
    "resume": 3,
    "manual": 1,
    "trigger": 2,
    "cancel": 2,
    "retry": 1,
    "backfill": 2,
    "workspace": 2,
    "prune": 1,
}
HARMLESS = ("edit", "remove", "add", "pause", "resume", "manual", *ASKS, "clock forward", "clock back", "garbage")


@dataclass(slots=True)
class Report:
    """What came of a seed."""

    seed: int
    breach: Breach | None
    hits: dict[str, int]
    deliveries: int
    log: list[str] = field(default_factory=list)


class Storm:
    """The weather over one world."""

    def __init__(self, world: World, seed: int, kinds: Sequence[str] = ()) -> None:
        self.world, self.rng = world, random.Random(seed)
        self.calm = False
        self.spans: list[tuple[int, int]] = []
        self.errors: dict[str, tuple[int, float]] = {}
        self.slow_until = 0
        self.ahead_ms = 0
        self.traps: list[tuple[str, bool, str]] = []
        self.copies: list[Any] = []
        self.kinds = list(kinds) or [kind for kind in FAULTS if self.rng.random() < 0.5] or ["kill"]
        self.every_ms = self.rng.choice([700, 2_000, 5_000, 12_000])
        world.pause = self.pause
        world.script = lambda delivery: any_act(self.rng, calm=self.calm)
        world.declared = [any_job(self.rng, f"job{number}") for number in range(self.rng.randint(1, 3))]

    # --- what the world is made of ------------------------------------------------------------------------------------------------
    def pause(self, process: Process) -> int:
        """How long one side of a port call takes; mostly nothing."""
        if self.calm or self.rng.random() < 0.97:
            return 0
        if self.world.clock.boot_ms() < self.slow_until:
            return self.rng.choice([200, 1_000, 3_000, 6_000])
        return self.rng.choice([1, 5, 40])

    # --- the faults ---------------------------------------------------------------------------------------------------------------
    def plan(self, process: Process, call: Call) -> Action | None:
        """What happens at this side of this call: a trap that snaps, or a store in trouble."""
        for trap in self.traps:
            step, after, kind = trap
            if (call.step, call.after) == (step, after):
                self.traps.remove(trap)
                self.world.note("TRAP", kind, step, after)
                return self._snap(process, kind)
        until, chance = self.errors.get(call.step) or self.errors.get(call.step.partition(".")[0], (0, 0.0))
        if self.world.clock.boot_ms() < until and self.rng.random() < chance:
            action = failure(call.step, after=call.after, busy=self.rng.random() < 0.7)
            if action is not None:
                self.world.rules.hit(f"trouble {'after' if call.after else 'before'}")
            return action
        return None

    def _snap(self, process: Process, kind: str) -> Action:
        async def act() -> None:
            await self.strike(kind, process)
            await asyncio.sleep(0)
            await process.thawed()

        return act

    def start(self) -> Process:
        """Starts a process under this weather."""
        process = self.world.start()
        process.plan = lambda call: self.plan(process, call)
        return process

    def start_in(self, after_ms: int) -> None:
        """Starts a process later, as a supervisor would."""
        asyncio.get_running_loop().call_later(after_ms / 1_000, lambda: None if self.calm else self.start())

    def span(self, for_ms: int) -> None:
        """Notes when a fault is to blame for a repeated delivery: until its leases have ended."""
        now = self.world.clock.boot_ms()
        self.spans.append((now, now + for_ms + self.world.tuning.lease_ms + 2_000))

    async def strike(self, kind: str, process: Process | None = None) -> None:
        """Causes one fault, at this process or at any."""
        alive = [one for one in self.world.processes if one.alive]
        if kind in ("kill", "freeze", "stop"):
            victim = process or (self.rng.choice(alive) if alive else None)
            if victim is None or not victim.alive:
                return
            await self._at(kind, victim)
        elif kind in ASKS:
            ask = ASKS[kind](self.world, self.rng)
            if ask is None:
                return
            await self._through_active(ask)
        else:
            await getattr(self, "_" + kind.replace(" ", "_"))()
        self.world.note("FAULT", kind)
        self.world.rules.hit(f"fault {kind}")
        if kind not in HARMLESS:
            self.span(5_000)

    async def _at(self, kind: str, victim: Process) -> None:
        if kind == "kill":
            victim.kill()
            self.start_in(self.rng.choice([0, 0, 1_000, 3_000, 20_000]))
        elif kind == "freeze":
            for_ms = self.rng.choice([1_000, 5_000, 10_000, 14_000, 30_000, 45_000])
            victim.freeze(for_ms)
            self.span(for_ms)
        else:
            # From outside: a stop that a port call of the victim waits for would wait for itself.
            self.world.keep(victim.stop(self.rng.choice([0, 2_000, 10_000])))
            self.span(10_000)
            self.start_in(self.rng.choice([0, 2_000, 15_000]))

    async def _downtime(self) -> None:
        for one in self.world.processes:
            one.kill()
        for_ms = self.rng.choice([10_000, 25_000, 60_000])
        self.start_in(for_ms)
        self.start_in(for_ms + self.rng.choice([0, 1_000, 5_000]))

    async def _trouble(self) -> None:
        for_ms, store = self.rng.choice([1_000, 5_000, 12_000, 30_000]), self.rng.choice(["queue", "history", "catalog"])
        self.errors[store] = (self.world.clock.boot_ms() + for_ms, self.rng.choice([0.3, 0.9, 1.0]))
        self.span(for_ms)

    async def _leases(self) -> None:
        """Leases cannot be kept, and nothing else is wrong: they end, and the process meets its own entries again."""
        for_ms = self.rng.choice([22_000, 45_000])
        self.errors["queue.extend"] = (self.world.clock.boot_ms() + for_ms, 1.0)
        self.span(for_ms)

    async def _slow(self) -> None:
        for_ms = self.rng.choice([2_000, 10_000, 25_000])
        self.slow_until = self.world.clock.boot_ms() + for_ms
        self.span(for_ms + 6_000)

    async def _queue_lost(self) -> None:
        self.world.state.queue.delete()

    async def _queue_old(self) -> None:
        if self.copies:
            self.world.state.queue.set(copy_of(self.rng.choice(self.copies)))

    async def _queue_damaged(self) -> None:
        file = self.world.state.queue.file
        if file is not None:
            self.world.damaged[id(file)] = file

    async def _lock_gone(self) -> None:
        if self.world.state.queue.file is not None:
            self.world.state.queue.file.lock = None

    async def _entry_lost(self) -> None:
        file = self.world.state.queue.file
        if file is not None and file.due:
            file.drop(self.rng.choice(sorted(file.due)))

    async def _clock_forward(self) -> None:
        self.world.clock.jump(self.rng.choice([3_000, 20_000, 60_000, 200_000]))

    async def _clock_back(self) -> None:
        self.ahead_ms = max(self.ahead_ms, self.world.clock.wall_ms())
        self.world.clock.jump(-self.rng.choice([3_000, 40_000, 90_000, 200_000]))

    async def _garbage(self) -> None:
        await self._through_active(
            lambda one: self._put(one, self.rng.choice(["", "job|x|0|1|s", "a|1|0|1|s|", "\0", "nobody|5|0|1|s"]))
        )

    async def _manual(self) -> None:
        await self._through_active(self._put_manual)

    async def _put_manual(self, one: Process) -> None:
        jobs = sorted(self.world.state.catalog.jobs.values(), key=lambda job: job.id)
        term, now = one.engine.authority.term, self.world.clock.wall_ms()
        if not jobs or term is None:
            return
        job = self.rng.choice(jobs)
        asked = PendingRequest(
            job_id=job.id,
            job_version=job.version,
            spec=job.spec,
            trigger=Trigger.MANUAL,
            at_ms=now,
            slot_at_ms=now,
            now_ms=now,
        )
        (answer,) = await one.storage.history.add_pending([asked], term=term)
        occurrence = replace(job.slot(answer.run.key.scheduled_at_ms), trigger=Trigger.MANUAL)
        await self._put(one, occurrence.member)

    async def _put(self, one: Process, member: str) -> None:
        term = one.engine.authority.term
        if term is not None:
            with suppress(StoreError, TermRefusedError):
                await one.storage.queue.put([Entry(member=member, at_ms=self.world.clock.wall_ms())], term=term)

    # --- what users do ------------------------------------------------------------------------------------------------------------
    async def _through_active(self, work: Callable[[Process], Any]) -> None:
        active = [one for one in self.world.processes if one.active and self.world.clock.boot_ms() >= one.frozen_until_ms]
        if active:
            active[0].spawn(self._quietly(active[0], work))

    async def _quietly(self, one: Process, work: Callable[[Process], Any]) -> None:
        with suppress(StoreError, TermRefusedError):
            await work(one)

    async def _edit(self) -> None:
        if self.world.declared:
            at = self.rng.randrange(len(self.world.declared))
            self.world.declared[at] = any_job(self.rng, self.world.declared[at].spec.name)
        await self._through_active(Process.reload)

    async def _remove(self) -> None:
        if len(self.world.declared) > 1:
            self.world.declared.pop(self.rng.randrange(len(self.world.declared)))
        await self._through_active(Process.reload)

    async def _add(self) -> None:
        missing = sorted({"job0", "job1", "job2"} - {one.spec.name for one in self.world.declared})
        if missing:
            self.world.declared.append(any_job(self.rng, self.rng.choice(missing)))
        await self._through_active(Process.reload)

    async def _pause(self) -> None:
        job_id = id_of(self.rng.choice(["job0", "job1", "job2"]))
        await self._through_active(lambda one: pause(self.world, one, job_id))

    async def _resume(self) -> None:
        job_id = id_of(self.rng.choice(["job0", "job1", "job2"]))
        await self._through_active(lambda one: resume(self.world, one, job_id))

    # --- the course of a seed -----------------------------------------------------------------------------------------------------
    async def blow(self) -> None:
        """Faults, then quiet, then the reckoning. Raises :class:`Breach`."""
        world, rng = self.world, self.rng
        self.start()
        if rng.random() < 0.7:
            self.start()
        end = world.clock.boot_ms() + FAULTS_FOR
        while world.clock.boot_ms() < end:
            await world.run(min(int(rng.expovariate(1 / self.every_ms)) + 1, 30_000))
            if world.state.queue.file is not None and rng.random() < 0.3:
                self.copies.append(copy_of(world.state.queue.file))
            kind = rng.choices(self.kinds, [FAULTS[kind] for kind in self.kinds])[0]
            if rng.random() < 0.5:
                await self.strike(kind)
            elif len(self.traps) < 3:
                step = rng.choice(NEAR if rng.random() < 0.7 else TRAPPED)
                self.traps.append((step, rng.random() < 0.5, kind))
        await self._quieten()
        # Up to where the clock has been, slots may have been decided before it was set back.
        calm_wall, before = max(world.clock.wall_ms(), self.ahead_ms), len(world.witness)
        await world.run(QUIET_FOR)
        for kind, count in audit(world, bound_ms=BOUND).items():
            world.rules.hits[f"slot {kind}"] += count
        settled(world, bound_ms=BOUND)
        backfilled(world, bound_ms=BOUND)
        await agrees(world)
        punctual(world, calm_wall, before, bound_ms=BOUND)
        repeats(world, self.spans)

    async def _quieten(self) -> None:
        world = self.world
        self.calm, self.errors, self.slow_until = True, {}, 0
        self.traps.clear()
        now = world.clock.boot_ms()
        self.spans.append((now, now + BOUND))
        for one in world.processes:
            one.frozen_until_ms = min(one.frozen_until_ms, now)
        if not any(one.alive for one in world.processes):
            self.start()
        self.start()
        world.keep(self._lift())

    async def _lift(self) -> None:
        """Takes away what limits were set, as soon as somebody dispatches."""
        while True:
            active = [one for one in self.world.processes if one.active]
            if active:
                with suppress(CronpadError):
                    return await active[0].spawn(set_free(active[0]))
            await asyncio.sleep(1)


def storm(
    seed: int,
    *,
    tracing: bool = False,
    kinds: Sequence[str] = (),
    broken: Callable[[Any, Process], Any] | None = None,
    rebuild: Callable[[Any], Any] | None = None,
) -> Report:
    """Plays one seed.

    ``kinds`` are the only faults that it has, instead of any; ``broken`` and ``rebuild`` put a mutant in the place of a store or
    of a part of the engine.
    """
    worlds: list[World] = []

    async def main(clock: VirtualClock) -> None:
        world = World(clock, tuning=tuning_of(seed), tracing=tracing)
        world.chores = True
        worlds.append(world)
        world.broken = broken or world.broken
        world.rebuild = rebuild or world.rebuild
        try:
            await Storm(world, seed, kinds).blow()
        finally:
            world.end()

    breach: Breach | None = None
    try:
        run_virtual(main, seed=seed, wall_ms=START + seed % 60_000, limit_ms=FAULTS_FOR + QUIET_FOR + 60_000)
    except Breach as error:
        breach = error
    world = worlds[0]
    return Report(seed=seed, breach=breach, hits=dict(world.rules.hits), deliveries=len(world.witness), log=world.log or [])
