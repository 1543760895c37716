"""The loops that drive the engine while this process dispatches, and the one that decides whether it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from cronpad_core.domain.errors import LockHeldError, StoreError, TermRefusedError
from cronpad_core.domain.events import DispatcherChanged, LineFailed
from cronpad_core.runtime.compose import Engine

__all__ = ["Loops"]

_FINE_MS = 2
_RARE_MS = 100

OnActive = Callable[[], Awaitable[None]]
Chore = Callable[[], Awaitable[int]]
"""Done while this process dispatches; answers after how many milliseconds it is to be called again."""

_AGAIN_MS, _LATER_MS = 1_000, 60_000


class Loops:
    """Drives one engine until told to stop.

    ``prepare`` runs once for each taking, under the lock and before anything is claimed (migrations, applying files).
    A core loop that ends with an unexpected error ends :meth:`run` with it: fail loudly, and let a supervisor restart.
    """

    def __init__(self, engine: Engine, *, prepare: OnActive, stand_by: bool = True, chores: Sequence[Chore] = ()) -> None:
        self._engine = engine
        self._prepare = prepare
        self._stand_by = stand_by
        self._chores = chores
        self._lines: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None
        self._sweep_at = 0
        self._claimed_at = 0
        self._claiming = False
        self.draining = False
        self.active = asyncio.Event()
        self.state = "starting"

    async def run(self) -> None:
        """Stands by, takes, dispatches, and begins again when the lock is lost; returns only by cancellation or error."""
        self._failed = asyncio.get_running_loop().create_future()
        keeper = asyncio.ensure_future(self._every(self._engine.parts.tuning.lease_ms // 3, self._engine.leases.extend))
        keeper.add_done_callback(self._ended)
        try:
            while True:
                await self._take()
                await self._dispatch()
        finally:
            keeper.cancel()
            self._failed.cancel()

    async def _take(self) -> None:
        engine = self._engine
        if self.draining:
            await asyncio.Event().wait()
        while not await engine.dispatcher.try_take():
            if not self._stand_by:
                raise LockHeldError("another cronpad dispatches on this state", hint="leave --no-standby out to wait for its end")
            if self.state != "standby":
                self._tell("standby", "another process dispatches on this state")
            await engine.parts.clock.sleep(engine.parts.tuning.look_ms)

    def _tell(self, state: str, reason: str = "") -> None:
        self.state = state
        self._engine.parts.emit(DispatcherChanged(state=state, term=self._engine.authority.term, reason=reason))

    async def _dispatch(self) -> None:
        """Everything under one term."""
        engine, tuning = self._engine, self._engine.parts.tuning
        term = engine.authority.term
        engine.authority.changed.clear()
        engine.advancer.forget()
        engine.catalog.forget()
        engine.holdings.outlive()
        engine.line.holds.clear()
        loops: list[asyncio.Task[None]] = [asyncio.ensure_future(self._keep_lock())]
        try:
            start = asyncio.ensure_future(self._start())
            await self._first(start, *loops)
            if engine.authority.term == term:
                self._tell("active")
                self.active.set()
                loops += [
                    asyncio.ensure_future(loop)
                    for loop in (
                        self._claim(),
                        self._every(tuning.reap_ms, self._guarded(engine.reaper.reap)),
                        self._every(tuning.reconcile_ms, self._guarded(self._reconcile)),
                        self._every(1_000, self._guarded(self._repay)),
                        self._every(500, self._guarded(self._look_at_clock)),
                        *map(self._repeat, self._chores),
                    )
                ]
                await self._first(asyncio.ensure_future(self._until_lost()), *loops)
        finally:
            self.active.clear()
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
        if not self.draining:
            self._tell("standby", engine.dispatcher.lost_because)

    async def _until_lost(self) -> None:
        while self._engine.authority.term is not None:
            self._engine.authority.changed.clear()
            await self._engine.authority.changed.wait()

    async def _first(self, wanted: asyncio.Task[None], *others: asyncio.Task[None]) -> None:
        """Waits for ``wanted``; a core loop or a line that dies first ends everything."""
        assert self._failed is not None
        waiting: set[asyncio.Future[None]] = {wanted, *others, self._failed}
        try:
            while not wanted.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if task is not wanted:
                        await task
            await wanted
        finally:
            wanted.cancel()

    async def _start(self) -> None:
        """From taking the lock to the first claim: migrate, apply, requeue, sweep. Tried again while the lock is ours."""
        engine = self._engine
        term = engine.authority.term
        prepared = False
        while engine.authority.term == term:
            try:
                if not prepared:
                    await self._prepare()
                    prepared = True
                await engine.reaper.requeue()
                await engine.rewinder.check(thorough=engine.dispatcher.clock_was_ahead)
                await engine.reconciler.sweep()
                self._sweep_at = engine.parts.clock.boot_ms() + engine.parts.tuning.sweep_ms
                return
            except StoreError:
                await engine.parts.clock.sleep(500)
            except TermRefusedError:
                engine.dispatcher.lose("another process took over")
                return

    async def _keep_lock(self) -> None:
        """Renews in time, and moves on when the queue's file turns out to be another one or damaged."""
        engine, tuning = self._engine, self._engine.parts.tuning
        while engine.authority.term is not None:
            doubts = engine.authority.doubts
            try:
                await asyncio.wait_for(doubts.wait(), tuning.renew_ms / 1000)
                doubts.clear()
                if not await engine.dispatcher.whole():
                    if not await engine.dispatcher.move():
                        return engine.dispatcher.lose("the queue was replaced and could not be taken again")
                    self._spawn(self._refill())
                    continue
            except TimeoutError:
                pass
            if not await engine.dispatcher.renew():
                return engine.dispatcher.lose("the lock could not be renewed")

    async def _refill(self) -> None:
        """After moving to another queue file: requeue and full sweep, then claiming goes on."""
        engine = self._engine
        term = engine.authority.term
        while term is not None and engine.authority.term == term:
            try:
                await engine.reaper.requeue()
                await engine.reconciler.sweep()
                if engine.authority.term == term and engine.parts.storage.queue.present():
                    engine.authority.rebuilding = False
                engine.wake.ring()
                return
            except StoreError:
                await engine.parts.clock.sleep(500)
            except TermRefusedError:
                if engine.authority.term == term:
                    engine.dispatcher.lose("another process took over")
                return

    async def _claim(self) -> None:
        """Sleeps until the earliest entry is due, or something earlier is put; claims only what can start now."""
        engine, tuning, clock = self._engine, self._engine.parts.tuning, self._engine.parts.clock
        due = await engine.claimer.earliest()
        while not self.draining:
            now = clock.wall_ms()
            engine.wake.starved = engine.claimer.free() <= 0
            if due is not None and due <= now and not engine.wake.starved and await self._claim_once():
                due = await engine.claimer.earliest()
            elif due is not None and 0 < due - now <= tuning.idle_ms:
                if not await self._sleep_until(due, due - now):
                    due = await engine.claimer.earliest()
            else:
                pause = tuning.tick_ms if due is not None and due <= now else tuning.idle_ms
                await engine.wake.wait(now + pause, pause)
                due = await engine.claimer.earliest()
        await asyncio.Event().wait()

    async def _sleep_until(self, due_ms: int, ahead_ms: int) -> bool:
        """Sleeps to the millisecond where claims are rare; False where something rang before."""
        clock = self._engine.parts.clock
        # The last stretch costs processor time, which a busy queue has a better use for.
        early = _FINE_MS if clock.boot_ms() + ahead_ms - self._claimed_at > _RARE_MS else 0
        if ahead_ms > early and await self._engine.wake.wait(due_ms, ahead_ms - early):
            return False
        if early:
            await clock.until(due_ms)
        return True

    async def _claim_once(self) -> bool:
        """One claim; its lines begin. False where nothing came of it: trouble, or no trust for the moment."""
        engine = self._engine
        self._claimed_at = engine.parts.clock.boot_ms()
        self._claiming = True
        try:
            catch = await engine.claimer.claim()
        except StoreError:
            return False
        except TermRefusedError:
            engine.dispatcher.lose("another process took over")
            return False
        finally:
            self._claiming = False
        if len(catch.tickets) == 1:
            self._spawn(engine.line.walk(catch.tickets[0]))
        elif catch.tickets:
            self._spawn(engine.line.begin(catch.tickets, self._spawn))
        for handover in catch.handovers:
            self._spawn(engine.line.hand_over(*handover))
        return bool(catch.tickets or catch.handovers)

    async def _reconcile(self) -> None:
        engine = self._engine
        await engine.parts.storage.check()
        if engine.authority.rebuilding or not engine.authority.trusted():
            return
        if not await engine.dispatcher.whole():
            engine.authority.doubt()
            return
        if engine.watch.went_back:
            await engine.rewinder.check(thorough=True)
            engine.watch.settled()
        if engine.parts.clock.boot_ms() >= self._sweep_at:
            await engine.rewinder.check(thorough=False)
            await engine.reconciler.sweep()
            self._sweep_at = engine.parts.clock.boot_ms() + engine.parts.tuning.sweep_ms
        else:
            await engine.reconciler.check()
        engine.wake.ring()

    async def _look_at_clock(self) -> None:
        """A clock that was set or a machine that slept: what is due is found at once, not at the next look."""
        if self._engine.watch.look():
            if self._engine.watch.went_back:
                await self._reconcile()
            self._engine.wake.ring()

    async def _repay(self) -> None:
        term = self._engine.authority.term
        if term is not None and self._engine.authority.may_claim():
            await self._engine.advancer.repay(term)

    def _guarded(self, step: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[None]]:
        async def once() -> None:
            try:
                await step()
            except StoreError:
                pass  # told by Patience; the next round tries again
            except TermRefusedError:
                self._engine.dispatcher.lose("another process took over")

        return once

    async def _every(self, period_ms: int, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._engine.parts.clock.sleep(period_ms)
            await step()

    async def _repeat(self, chore: Chore) -> None:
        pause_ms = 0

        async def once() -> None:
            nonlocal pause_ms
            pause_ms = _AGAIN_MS
            try:
                pause_ms = await chore()
            except (StoreError, TermRefusedError):
                raise
            except Exception as error:  # a mistake in what is done beside the line must not end the line
                pause_ms = _LATER_MS
                name = getattr(chore, "__name__", "chore").strip("_")
                self._engine.parts.emit(LineFailed(member=name, error=f"{type(error).__name__}: {error}"))

        guarded = self._guarded(once)
        while True:
            await self._engine.parts.clock.sleep(pause_ms)
            await guarded()

    def _spawn(self, walk: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(walk)
        self._lines.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._lines.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(task.exception() or RuntimeError("a line ended without a reason"))

    @property
    def idle(self) -> bool:
        """Whether no line runs, and no claim is under way that would begin one."""
        return not self._lines and not self._claiming

    async def lines_ended(self, timeout_s: float) -> bool:
        """Waits for all lines; answers whether they ended in time."""
        if self._lines:
            await asyncio.wait(set(self._lines), timeout=timeout_s)
        elif self._claiming:
            await asyncio.sleep(timeout_s)
        return self.idle

    async def abandon_lines(self) -> None:
        """Cancels what still runs, and waits for it to be gone."""
        for task in set(self._lines):
            task.cancel()
        if self._lines:
            await asyncio.wait(set(self._lines), timeout=2.0)
