"""What webhooks cost. Prints tables; decides nothing.

    python tests/benchmarks/webhooks.py                    both tables
    python tests/benchmarks/webhooks.py --requests 20000 --in-flight 64 --slow 1000

First: requests a second and processor time for each, of the sink and of the bare client library in the same run, against a server
in a process of its own. Second: so many requests under way to endpoints that take 5 s each, begun a few dozen at a time as the line
begins them, in a process of its own: its memory, and how late other work on its loop starts meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import aiohttp

from cronpad_core.api import CancelSignal, Delivered, Delivery, Outcome, SinkContext, Trigger
from cronpad_webhook.settings import Settings
from cronpad_webhook.sink import WebhookSink

SLOW_S = 5.0
OTHER_EVERY_S = 0.02
BATCH, BATCH_EVERY_S = 64, 0.05
SECRET = "whsec_" + "QUFB" * 10
BODY = json.dumps({"type": "cronpad.run", "data": {"job": "bench", "payload": None}}).encode()


class _Answering(asyncio.Protocol):
    """The least that answers HTTP, so that the client and not the server is measured."""

    delay = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            asyncio.get_running_loop().call_later(self.delay, self._answer)

    def _answer(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")  # type: ignore[attr-defined]  # a socket's


def _serve(pipe: Connection, delay: float) -> None:
    async def serve() -> None:
        kind = type("Answering", (_Answering,), {"delay": delay})
        server = await asyncio.get_running_loop().create_server(kind, "127.0.0.1", 0, backlog=4096)
        pipe.send(server.sockets[0].getsockname()[1])
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)

    asyncio.run(serve())


def _with_server(delay: float, measure: Callable[[str], None]) -> None:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, delay))
    process.start()
    try:
        measure(f"http://127.0.0.1:{ours.recv()}/hook")
    finally:
        ours.send(None)
        process.join()


def _sink() -> WebhookSink:
    return WebhookSink(SinkContext(settings={}, environ={}, secret=lambda reference: SECRET))


def _delivery(settings: Settings, number: int) -> Delivery:
    return Delivery(
        job_id="job_bench",
        job_name="bench",
        workspace="default",
        run_id=f"run_{number}",
        occurrence="job_bench|0|0|1|s",
        trigger=Trigger.SCHEDULED,
        attempt=0,
        redelivery=0,
        slot_at_ms=1_767_225_600_000 + number,
        scheduled_at_ms=1_767_225_600_000 + number,
        timezone="UTC",
        fence="1",
        timeout_ms=60_000,
        kill_grace_ms=1_000,
        deadline_boot_ms=0,
        settings=settings,
        cancel=CancelSignal(),
        still_ours=lambda: True,
    )


async def _drive(one: Callable[[int], Awaitable[object]], count: int, in_flight: int) -> tuple[float, float]:
    """Requests a second, and milliseconds of processor time for each."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await one(number)

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    return count / (time.perf_counter() - wall), (time.process_time() - cpu) / count * 1000


async def _throughput(url: str, count: int, in_flight: int, rounds: int) -> None:
    plain, signed = Settings(url=url), Settings(url=url, sign_with=["secret:env:KEY"])  # type: ignore[arg-type]  # read as a list
    sink = _sink()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def bare(_: int) -> None:
            async with session.post(url, data=BODY) as response:
                await response.read()

        async def webhook(number: int) -> None:
            assert isinstance(await sink.deliver(_delivery(plain, number)), Delivered)

        async def with_signature(number: int) -> None:
            assert isinstance(await sink.deliver(_delivery(signed, number)), Delivered)

        contenders = {"bare aiohttp": bare, "webhook": webhook, "webhook, signed": with_signature}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
        for one in contenders.values():
            await _drive(one, in_flight * 4, in_flight)
        for _ in range(rounds):
            for name, one in contenders.items():
                found[name].append(await _drive(one, count, in_flight))
    await sink.close()
    print(f"{count} requests, {in_flight} in flight, medians of {rounds} rounds\n")
    print(f"{'':18} {'requests/s':>10} {'CPU ms each':>12}")
    for name, rows in found.items():
        print(f"{name:18} {statistics.median(row[0] for row in rows):10.0f} {statistics.median(row[1] for row in rows):12.3f}")


async def _others_late(until: asyncio.Event) -> list[float]:
    """How many milliseconds late other work starts that is due every 20 ms."""
    loop, late = asyncio.get_running_loop(), []
    due = loop.time() + OTHER_EVERY_S
    while not until.is_set():
        await asyncio.sleep(max(0.0, due - loop.time()))
        late.append((loop.time() - due) * 1000)
        due = max(due + OTHER_EVERY_S, loop.time())
    return late


async def _slow(url: str, count: int) -> None:
    before = _resident_mb()
    sink, settings, over = _sink(), Settings(url=url), asyncio.Event()
    watching = asyncio.create_task(_others_late(over))
    started = time.perf_counter()
    await asyncio.sleep(0)
    running: list[asyncio.Task[Outcome]] = []
    for number in range(count):
        running.append(asyncio.create_task(sink.deliver(_delivery(settings, number))))
        if number % BATCH == BATCH - 1:
            # The line waits for the commits of one batch before it begins the next.
            await asyncio.sleep(BATCH_EVERY_S)
    outcomes = await asyncio.gather(*running)
    took = time.perf_counter() - started
    over.set()
    late = sorted(await watching)
    await sink.close()
    delivered = sum(isinstance(one, Delivered) for one in outcomes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    p99 = late[int(len(late) * 0.99)]
    print(f"\n{count} endpoints of {SLOW_S:g} s at once: {delivered} delivered in {took:.2f} s")
    print(f"resident before {before:.0f} MB, peak {peak:.0f} MB")
    print(f"other work late: p50 {statistics.median(late):.1f} ms, p99 {p99:.1f} ms, most {late[-1]:.1f} ms ({len(late)} starts)")


def _resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _in_a_process(work: Callable[[str, int], Awaitable[None]], url: str, count: int) -> None:
    asyncio.run(work(url, count))  # type: ignore[arg-type]  # a coroutine, as both are


def main() -> None:
    """Reads the command line and measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=5_000)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slow", type=int, default=1_000)
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    _with_server(0.0, lambda url: asyncio.run(_throughput(url, given.requests, given.in_flight, given.rounds)))
    if given.slow:

        def slow(url: str) -> None:
            process = multiprocessing.get_context("spawn").Process(target=_in_a_process, args=(_slow, url, given.slow))
            process.start()
            process.join()

        _with_server(SLOW_S, slow)


if __name__ == "__main__":
    main()
