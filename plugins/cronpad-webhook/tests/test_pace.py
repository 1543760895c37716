"""A burst begins a few at a time."""

from __future__ import annotations

import asyncio

from cronpad_webhook.pace import Pace


def test_a_burst_leaves_room_for_others():
    """Of a hundred that come at once no more than eight begin in one turn of the loop, and all of them begin."""

    async def scenario():
        pace, begun, turns = Pace(), [], []

        async def one(number):
            await pace.turn()
            begun.append(number)

        async def other():
            while len(begun) < 100:
                turns.append(len(begun))
                await asyncio.sleep(0)

        await asyncio.gather(other(), *map(one, range(100)))
        return begun, [after - before for before, after in zip(turns, [*turns[1:], len(begun)], strict=True)]

    begun, each = asyncio.run(scenario())
    assert begun == list(range(100))
    assert max(each) <= 8


def test_who_comes_alone_begins_at_once():
    """Without a burst nobody waits, not even after one."""

    async def scenario():
        pace = Pace()
        await asyncio.gather(*(pace.turn() for _ in range(50)))
        for _ in range(10):
            await asyncio.sleep(0)
        turn = pace.turn()
        try:
            turn.send(None)
        except StopIteration:
            return True
        return False

    assert asyncio.run(scenario())
