"""The one place that builds HTTP clients: each connection of each of them passes the guard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from cronpad_webhook.addresses import Allowance, Profile
from cronpad_webhook.guard import AddressInfo, Dial, Guard, GuardedResolver, open_socket
from cronpad_webhook.tls import Identity, tls_context

__all__ = ["ClientFactory", "Transports"]

# Below what servers commonly wait for a further request: a connection that the other side is just closing fails a delivery.
_KEPT_S: Final = 2.0
_NAMES_KEPT_S: Final = 30

Transports = Callable[[Identity], httpx.AsyncBaseTransport]
"""What a delivery gets its client from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    stamps: tuple[int, ...]
    transport: httpx.AsyncBaseTransport


class ClientFactory:
    """Builds clients that obey one policy, and keeps one for each identity. Used from one event loop.

    With ``proxy`` every request goes to it, and it decides which addresses are reached; the environment's proxies are never
    looked at. ``dial`` and ``lookup`` replace the socket and the system's names.
    """

    def __init__(
        self,
        *,
        profile: Profile,
        allowed: Sequence[Allowance] = (),
        proxy: str | None = None,
        dial: Dial = open_socket,
        lookup: Callable[[str, int, int], list[AddressInfo]] | None = None,
    ) -> None:
        # The way to the proxy is the operator's word; what lies behind it is the proxy's business.
        self._guard = None if proxy is not None else Guard(profile=profile, allowed=allowed, dial=dial)
        self._proxy = None if proxy is None else httpx.Proxy(proxy)
        self._dial = dial
        self._lookup = lookup
        self._made: dict[Identity, _Made] = {}
        self._left: list[httpx.AsyncBaseTransport] = []

    def client(self, identity: Identity) -> httpx.AsyncBaseTransport:
        """The client of that identity, built anew where one of its files was. Raises ``OSError``."""
        stamps = identity.stamps()
        made = self._made.get(identity)
        if made is None or made.stamps != stamps:
            if made is not None:
                self._left.append(made.transport)
            made = _Made(stamps=stamps, transport=self._build(identity))
            self._made[identity] = made
        return made.transport

    async def close(self) -> None:
        """Closes every connection of every client."""
        clients = [*self._left, *(made.transport for made in self._made.values())]
        self._made, self._left = {}, []
        for client in clients:
            await client.aclose()

    def _build(self, identity: Identity) -> httpx.AsyncBaseTransport:
        context = tls_context(identity)
        connector = aiohttp.TCPConnector(
            limit=0,
            ssl=context,
            keepalive_timeout=_KEPT_S,
            ttl_dns_cache=_NAMES_KEPT_S,
            resolver=GuardedResolver(self._guard, lookup=self._lookup),
            socket_factory=self._guard or self._dial,
        )
        # Cookies of one job are no business of another.
        session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=False
        )
        return AiohttpTransport(verify=context, trust_env=False, proxy=self._proxy, client=session)
