"""What all webhooks to one host share: room, rate and breaker."""

from __future__ import annotations

import asyncio

import pytest
from post_office import OK, Desk, Server, answer

from cronpad_core.api import Cancelled, Delivered, Failed, PluginError, TimedOut
from cronpad_webhook.host_settings import host_settings


def _together(plugin, count, behaviour):
    async def scenario():
        server = await Server(answers=[behaviour]).start()
        desk = Desk(plugin=plugin)
        sink = desk.sink()
        deliveries = (desk.delivery({"url": server.url}) for _ in range(count))
        outcomes = await asyncio.gather(*map(sink.deliver, deliveries))
        await sink.close()
        await server.stop()
        return outcomes

    return asyncio.run(scenario())


@pytest.mark.parametrize("limit", [1, 3])
def test_so_many_at_once(limit):
    """No more requests than the limit are under way to one host; all of them are made."""
    now, most = 0, 0

    async def count(_, writer):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        writer.write(OK)

    outcomes = _together({"concurrency": limit}, 12, count)
    assert [type(one) for one in outcomes] == [Delivered] * 12
    assert most == limit


def test_so_many_a_second():
    """Requests beyond the rate wait for the next second: in no second does a host get more than twice its share."""
    at = []

    async def note(_, writer):
        at.append(asyncio.get_running_loop().time())
        writer.write(OK)

    outcomes = _together({"rate": 5}, 11, note)
    assert [type(one) for one in outcomes] == [Delivered] * 11
    assert at[10] - at[0] >= 0.9


def test_waiting_is_part_of_the_deadline():
    """Who waits for room longer than its timeout ends as timed out, and was never sent; a cancel ends the wait."""

    async def scenario():
        async def wait(_, writer):
            await asyncio.sleep(60)

        server = await Server(answers=[wait]).start()
        desk = Desk(plugin={"concurrency": 1})
        sink = desk.sink()
        first = desk.delivery({"url": server.url})
        running = asyncio.create_task(sink.deliver(first))
        while not server.requests:
            await asyncio.sleep(0)
        late = await sink.deliver(desk.delivery({"url": server.url}, timeout_ms=50))
        first.cancel.ask("stop", "enough")
        ended = await running
        await sink.close()
        await server.stop()
        return late, ended, server.requests

    late, ended, requests = asyncio.run(scenario())
    assert isinstance(late, TimedOut)
    assert isinstance(ended, Cancelled)
    assert len(requests) == 1


BREAKER = {"breaker_after": 2, "breaker_for": "10s"}


def test_a_host_that_fails_is_left_alone():
    """After so many failures in a row nothing is sent, and the run is told when to come again."""
    desk = Desk(plugin=BREAKER)
    outcomes, server = desk.run(answer("500 X"), changes=[{}] * 4)
    assert len(server.requests) == 2
    assert [one.facts.get("error") for one in outcomes] == [None, None, "breaker", "breaker"]
    assert isinstance(outcomes[2], Failed)
    assert outcomes[2].undelivered
    assert 0 < (outcomes[2].retry_after_ms or 0) <= 10_000


def test_a_host_that_refuses_is_well():
    """A 4xx is an answer: it opens no breaker, and ends a row of failures."""
    desk = Desk(plugin=BREAKER)
    _, server = desk.run(answer("500 X"), answer("404 X"), answer("500 X"), OK, changes=[{}] * 5)
    assert len(server.requests) == 5


def test_a_host_is_tried_again_by_one():
    """When its time is over one request tries the host, and no second one meanwhile; if that succeeds all are sent again."""

    async def scenario():
        begun, go = asyncio.Event(), asyncio.Event()

        async def slow(_, writer):
            begun.set()
            await go.wait()
            writer.write(OK)

        server = await Server(answers=[answer("500 X"), slow, OK]).start()
        desk = Desk(plugin={"breaker_after": 1, "breaker_for": "50ms"})
        sink = desk.sink()

        async def deliver():
            return await sink.deliver(desk.delivery({"url": server.url}))

        found = [await deliver()]
        while not begun.is_set():
            trial = asyncio.create_task(deliver())
            await asyncio.wait([trial, asyncio.create_task(begun.wait())], return_when=asyncio.FIRST_COMPLETED)
        found.append(await deliver())
        go.set()
        found += [await trial, await deliver()]
        await sink.close()
        await server.stop()
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        for task in pending:
            task.cancel()
        return found

    first, meanwhile, trial, after = asyncio.run(scenario())
    assert first.reason == "HTTP 500"
    assert meanwhile.facts["error"] == "breaker"
    assert [type(trial), type(after)] == [Delivered, Delivered]


@pytest.mark.parametrize(
    "given",
    [
        {"profile": "open"},
        {"allow": ["hooks.internal"]},
        {"allow": ["10.0.0.0/8:99999"]},
        {"allow": ["10.0.0.1/8"]},
        {"proxy": "socks5://h"},
        {"proxy": "unix:/x"},
        {"rate": -1},
        {"breaker_for": "soon"},
        {"trust_env": True},
    ],
)
def test_host_settings_that_are_refused(given):
    """A mistake in ``[plugins.webhook]`` is one error that names the key."""
    with pytest.raises(PluginError, match=next(iter(given))):
        host_settings(given)
