"""Virtual time behaves like time, only faster and repeatably."""

from __future__ import annotations

import asyncio

import pytest

from cronpad_testkit.clock import VirtualClock, VirtualDeadlockError, VirtualLimitError, run_virtual


def test_sleep_moves_both_lines_by_exactly_what_was_asked() -> None:
    """A day of sleeps in odd steps ends a day later on both lines."""

    async def main(clock: VirtualClock) -> tuple[int, int]:
        wall_ms, boot_ms = clock.wall_ms(), clock.boot_ms()
        for _ in range(86_400_000 // 32_000):
            await clock.sleep(31_999)
            await clock.sleep(1)
        return clock.wall_ms() - wall_ms, clock.boot_ms() - boot_ms

    assert run_virtual(main) == (86_400_000, 86_400_000)


def test_decades_pass_without_a_timer_getting_stuck() -> None:
    """Timers fire after forty virtual years, although seconds are floats."""

    async def main(clock: VirtualClock) -> int:
        start_ms = clock.boot_ms()
        await clock.sleep(40 * 366 * 86_400_000)
        before_ms = clock.boot_ms()
        for _ in range(1_000):
            await clock.sleep(1)
        assert clock.boot_ms() - before_ms == 1_000
        return clock.boot_ms() - start_ms

    assert run_virtual(main) == 40 * 366 * 86_400_000 + 1_000


def _trace(seed: int | None) -> list[str]:
    seen: list[str] = []

    async def main(clock: VirtualClock) -> None:
        async def worker(name: str) -> None:
            for step in range(5):
                seen.append(f"{name}{step}@{clock.boot_ms()}")
                await clock.sleep(10 if step % 2 else 0)

        await asyncio.gather(*(worker(name) for name in "abcdef"))

    run_virtual(main, seed=seed)
    return seen


def test_the_same_seed_gives_the_same_run() -> None:
    """Orders differ between seeds and never within one; without a seed the order is asyncio's."""
    assert _trace(1) == _trace(1)
    assert len({tuple(_trace(seed)) for seed in range(20)}) > 15
    assert _trace(None) == _trace(None)


def test_a_deadlock_names_who_waits() -> None:
    """Waiting for something that can never happen is an error, not a hang."""

    async def main(clock: VirtualClock) -> None:
        asyncio.create_task(asyncio.Event().wait(), name="the-stuck-one")  # noqa: RUF006  # it is meant to be lost
        await asyncio.Event().wait()

    with pytest.raises(VirtualDeadlockError, match="the-stuck-one"):
        run_virtual(main)


def test_limits_end_a_run_that_would_go_on() -> None:
    """Virtual time past the limit is an error."""

    async def main(clock: VirtualClock) -> None:
        while True:
            await clock.sleep(1_000)

    with pytest.raises(VirtualLimitError, match="60"):
        run_virtual(main, limit_ms=60_000)


def test_threads_become_steps_of_the_loop() -> None:
    """``to_thread`` answers and raises as it does with threads."""

    async def main(clock: VirtualClock) -> int:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return await asyncio.to_thread(sum, (1, 2, 3))

    assert run_virtual(main, seed=3) == 6


def test_jumps_suspends_and_reboots() -> None:
    """A jump moves the wall alone, a suspend both lines, a reboot begins another boot line while the wall goes on."""

    async def main(clock: VirtualClock) -> None:
        wall_ms, boot_ms = clock.wall_ms(), clock.boot_ms()
        clock.jump(-5_000)
        assert (clock.wall_ms(), clock.boot_ms()) == (wall_ms - 5_000, boot_ms)
        clock.suspend(60_000)
        assert (clock.wall_ms(), clock.boot_ms()) == (wall_ms + 55_000, boot_ms + 60_000)
        clock.reboot(boot_id="boot-2", down_ms=1_000)
        assert (clock.wall_ms(), clock.boot_ms(), clock.boot_id()) == (wall_ms + 56_000, 0, "boot-2")
        clock.set_wall(7)
        await clock.sleep(3)
        assert (clock.wall_ms(), clock.boot_ms()) == (10, 3)

    run_virtual(main)


def test_timeouts_and_cancellation_work_in_every_order() -> None:
    """asyncio's own tools keep their promises when callbacks are shuffled."""

    async def main(clock: VirtualClock) -> list[object]:
        queue: asyncio.Queue[int] = asyncio.Queue(1)

        async def feed() -> None:
            for number in range(10):
                await queue.put(number)

        async with asyncio.TaskGroup() as group:
            group.create_task(feed())
            numbers = [await queue.get() for _ in range(10)]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        return [numbers, clock.boot_ms()]

    for seed in range(50):
        assert run_virtual(main, seed=seed) == [list(range(10)), 1_005_000]
