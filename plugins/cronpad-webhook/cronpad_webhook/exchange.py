"""One request and its answer, within bounds: how much is read, which redirects are followed, what goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import httpx

from cronpad_webhook.message import Message

__all__ = ["Answer", "RedirectRefused", "exchange"]

_FOLLOWED: Final = frozenset({307, 308})
"""The redirects that keep method and body."""

_BODILESS: Final = frozenset({"GET", "HEAD", "DELETE"})


class RedirectRefused(Exception):
    """A redirect leads where it must not: from https to http."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``body`` is the beginning of the answer's bytes as they came, ``read`` how many were read, ``complete`` whether all."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    read: int
    complete: bool
    hops: int = 0


async def exchange(
    client: httpx.AsyncBaseTransport,
    message: Message,
    headers: Mapping[str, str],
    *,
    redirects: int,
    most_read: int,
    most_kept: int,
) -> Answer:
    """Sends it and reads the answer, at most ``most_read`` of its bytes. Raises what the client raises."""
    url, hops = _url(message.url), 0
    while True:
        request = _request(message, url, headers)
        response = await client.handle_async_request(request)
        try:
            target = _target(response, url) if hops < redirects else None
            if target is None:
                return await _read(response, most_read=most_read, most_kept=most_kept, hops=hops)
        finally:
            await response.aclose()
        if url.scheme == "https" and target.scheme != "https":
            raise RedirectRefused("a redirect leads from https to http")
        if (target.scheme, target.host, target.port) != (url.scheme, url.host, url.port):
            headers = {name: value for name, value in headers.items() if name.lower() not in message.private}
        url, hops = target, hops + 1


def _request(message: Message, url: httpx.URL, headers: Mapping[str, str]) -> httpx.Request:
    """Complete with host and length: what the library adds by itself costs as much again as the request."""
    framed = {"Host": url.netloc.decode("ascii"), **headers}
    if message.body or message.method not in _BODILESS:
        framed["Content-Length"] = str(len(message.body))
    request = httpx.Request(message.method, url, headers=framed, stream=httpx.ByteStream(message.body))
    # Ours are ASCII; the library would otherwise try that out again for every header that it is asked for.
    request.headers.encoding = "ascii"
    request.read()
    return request


@lru_cache(maxsize=4_096)
def _url(text: str) -> httpx.URL:
    """Reading a URL costs more than all the rest of a request's making."""
    return httpx.URL(text)


def _target(response: httpx.Response, url: httpx.URL) -> httpx.URL | None:
    location = response.headers.get("location")
    if response.status_code not in _FOLLOWED or not location:
        return None
    return url.join(location)


async def _read(response: httpx.Response, *, most_read: int, most_kept: int, hops: int) -> Answer:
    kept, read, complete = bytearray(), 0, True
    if not isinstance(response.stream, httpx.AsyncByteStream):
        raise TypeError("the client answers nothing that can be read")
    async for piece in response.stream:
        if read + len(piece) > most_read:
            piece, complete = piece[: most_read - read], False
        read += len(piece)
        kept += piece[: max(0, most_kept - len(kept))]
        if not complete:
            break
    return Answer(
        status=response.status_code, headers=response.headers, body=bytes(kept), read=read, complete=complete, hops=hops
    )
