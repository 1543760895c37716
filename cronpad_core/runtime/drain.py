"""A graceful stop: claim no more, give what runs its time, tell it to end, and leave what does not finish to the next start."""

from __future__ import annotations

import asyncio

from cronpad_core.domain.timing import SECOND, Millis
from cronpad_core.engine.ticket import Holding
from cronpad_core.engine.worker import SHUTDOWN
from cronpad_core.runtime.compose import Engine
from cronpad_core.runtime.loops import Loops

__all__ = ["Drain"]

_POLL_S = 0.05
_LAST_MS = 1_500


class Drain:
    """The ladder of one stop, on the boot clock.

    Jobs of the runner's JSON are told to stop at once. Others are told when ``min(kill_grace, grace / 2)`` is left, and all are
    ended for good at the end of the grace. :meth:`hurry` (a second signal) moves the telling to now; a third ends at once.
    """

    def __init__(self, engine: Engine, loops: Loops, grace_ms: Millis) -> None:
        self._engine = engine
        self._loops = loops
        self._grace_ms = grace_ms
        self._end_ms: Millis = 0
        self._hurried = 0

    def hurry(self) -> None:
        """Shortens the grace: first to what a told delivery needs, then to nothing."""
        self._hurried += 1
        now = self._engine.parts.clock.boot_ms()
        left = 0 if self._hurried > 1 else self._grace_ms // 2
        self._end_ms = min(self._end_ms, now + left)

    async def run(self) -> int:
        """Drains; answers how many deliveries did not finish by themselves."""
        engine, clock = self._engine, self._engine.parts.clock
        self._loops.draining = True
        engine.wake.ring()
        self._end_ms = clock.boot_ms() + self._grace_ms
        told: set[int] = set()
        while not self._loops.idle and clock.boot_ms() < self._end_ms:
            for holding in engine.holdings:
                if id(holding) not in told and self._due(holding, clock.boot_ms()):
                    told.add(id(holding))
                    self._ask(holding, "stop")
            await self._loops.lines_ended(_POLL_S)
        interrupted = len(told)
        for holding in engine.holdings:
            self._ask(holding, "kill")
            interrupted += id(holding) not in told
        if not self._loops.idle and not await self._loops.lines_ended(_LAST_MS / SECOND):
            await self._loops.abandon_lines()
        await asyncio.sleep(0)
        return interrupted

    def _due(self, holding: Holding, now_ms: Millis) -> bool:
        if holding.at_once or self._hurried:
            return True
        return now_ms >= self._end_ms - min(holding.kill_grace_ms, self._grace_ms // 2)

    @staticmethod
    def _ask(holding: Holding, stage: str) -> None:
        if holding.cancel is not None:
            holding.cancel.ask(stage, SHUTDOWN)
