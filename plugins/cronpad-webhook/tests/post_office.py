"""Real deliveries to real servers on loopback."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cronpad_core.api import CancelSignal, ConfigurationError, Delivery, Outcome, SinkContext, Trigger
from cronpad_webhook.settings import Settings
from cronpad_webhook.sink import WebhookSink

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
WHSEC = "whsec_Y3JvbnBhZC1maWVsZC1ldmlkZW5jZS1rZXktMDAwMSE="


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as its server read it."""

    line: str
    headers: Mapping[str, str]
    names: tuple[str, ...]
    body: bytes


Answer = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class Server:
    """A server that answers each request with what it was given, and remembers all requests."""

    answers: list[bytes | Answer] = field(default_factory=lambda: [OK])
    requests: list[Request] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    scheme: str = "http"
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self.scheme}://127.0.0.1:{self.port}/hook"

    async def start(self, context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Server:
        """Listens on a free port."""
        self._server = await asyncio.start_server(self._serve, host, 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]
        self.scheme = "http" if context is None else "https"
        return self

    async def stop(self) -> None:
        """Ends it and every connection."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(request, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.closed.set()
            writer.close()
            self._tasks.discard(task)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head.rstrip("\r\n").split("\r\n")
    pairs = [(name.lower(), value.strip()) for name, _, value in (one.partition(":") for one in rest)]
    headers = dict(pairs)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(line=line, headers=headers, names=tuple(name for name, _ in pairs), body=body)


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    """The bytes of an answer."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, f"content-length: {len(body)}", "", ""]).encode() + body


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Builds sinks and deliveries, and runs them against a server."""

    secrets: dict[str, str] = field(default_factory=dict)
    plugin: dict[str, Any] = field(default_factory=dict)

    def secret(self, reference: str) -> str:
        """As the host looks secrets up."""
        if reference not in self.secrets:
            raise ConfigurationError(f"the environment variable of {reference} is not set")
        return self.secrets[reference]

    def sink(self, **how: Any) -> WebhookSink:
        """A sink as the host builds it."""
        return WebhookSink(SinkContext(settings=self.plugin, environ={}, secret=self.secret), **how)

    def delivery(self, settings: Mapping[str, Any], **changes: Any) -> Delivery:
        """A first attempt with a timeout that no test means to meet, unless it says so."""
        first = Delivery(
            job_id="job_a",
            job_name="nightly",
            workspace="default",
            run_id="run_a",
            occurrence="job_a|1767225600000|0|1|s",
            trigger=Trigger.SCHEDULED,
            attempt=0,
            redelivery=0,
            slot_at_ms=1_767_225_600_000,
            scheduled_at_ms=1_767_225_600_000,
            timezone="UTC",
            fence="7",
            timeout_ms=60_000,
            kill_grace_ms=1_000,
            deadline_boot_ms=0,
            settings=Settings.model_validate(dict(settings)),
            cancel=CancelSignal(),
            still_ours=lambda: True,
        )
        return replace(first, **changes)

    def run(
        self,
        *answers: bytes | Answer,
        settings: Mapping[str, Any] | None = None,
        changes: list[dict[str, Any]] | None = None,
        sink: dict[str, Any] | None = None,
    ) -> tuple[list[Outcome], Server]:
        """Delivers once for each of ``changes`` to a server with these answers; ``{url}`` in texts is its own."""

        async def scenario() -> tuple[list[Outcome], Server]:
            server = await Server(answers=list(answers) or [OK]).start()
            built = self.sink(**(sink or {}))
            given = {"url": server.url, **(settings or {})}
            try:
                outcomes = [await built.deliver(self.delivery(given, **one)) for one in changes or [{}]]
                return outcomes, server
            finally:
                await built.close()
                await server.stop()

        return asyncio.run(scenario())

    def one(self, *answers: bytes | Answer, settings: Mapping[str, Any] | None = None, **changes: Any) -> Outcome:
        """The outcome of one delivery."""
        return self.run(*answers, settings=settings, changes=[changes])[0][0]
