"""Deliveries under way share one timer, and each has its own deadline all the same."""

from __future__ import annotations

import asyncio

from cronpad_core.api import Delivered, Outcome
from cronpad_core.engine.worker import _Deadlines
from cronpad_testkit.clock import VirtualClock, run_virtual


def test_each_delivery_is_given_up_at_its_own_time() -> None:
    """Whatever order they begin in, and whoever ends before: each is told of after its own time, not after another's."""

    async def main(clock: VirtualClock) -> None:
        deadlines = _Deadlines()
        told: list[tuple[str, bool, int]] = []

        async def work(for_ms: int) -> Outcome:
            await clock.sleep(for_ms)
            return Delivered()

        async def wait(name: str, *, begin: int, takes: int, within: int) -> None:
            await clock.sleep(begin)
            task = asyncio.get_running_loop().create_task(work(takes))
            ended = await deadlines.ends(task, within)
            told.append((name, ended, clock.boot_ms() - began))
            task.cancel()

        began = clock.boot_ms()
        await asyncio.gather(
            wait("long", begin=0, takes=90_000, within=5_000),
            wait("shorter, later", begin=100, takes=90_000, within=1_000),
            wait("ends first", begin=200, takes=10, within=500),
            wait("same time", begin=1_000, takes=90_000, within=4_000),
            wait("after all", begin=6_000, takes=90_000, within=250),
        )
        assert told == [
            ("ends first", True, 210),
            ("shorter, later", False, 1_100),
            ("long", False, 5_000),
            ("same time", False, 5_000),
            ("after all", False, 6_250),
        ]
        assert deadlines._timer is None, "nothing is under way any more"

    run_virtual(main)
