"""The check at connect: every connection is opened here, and none to an address that may not be reached."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

from cronpad_webhook.addresses import Allowance, Profile, forbidden, packed

__all__ = ["AddressInfo", "Dial", "EgressRefused", "Guard", "GuardedResolver", "open_socket"]

AddressInfo: TypeAlias = "tuple[int, int, int, str, tuple[Any, ...]]"
Dial: TypeAlias = "Callable[[AddressInfo], socket.socket]"
Lookup: TypeAlias = "Callable[[str, int, int], list[AddressInfo]]"

_LOOKUP_S: Final = 5.0
_MOST_ADDRESSES: Final = 16
_MOST_LOOKUPS: Final = 64


class EgressRefused(OSError):
    """The address may not be reached from here; nothing was sent to it."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EACCES, why)


def open_socket(info: AddressInfo) -> socket.socket:
    """A socket for that address, not connected yet."""
    family, kind, protocol, _, _ = info
    return socket.socket(family, kind, protocol)


class Guard:
    """Opens sockets to addresses that pass, and raises ``EgressRefused`` for all others before there is a socket.

    ``dial`` makes the socket. Whoever connects it connects to the very address that was looked at.
    """

    def __init__(self, *, profile: Profile, allowed: Sequence[Allowance] = (), dial: Dial = open_socket) -> None:
        self._profile = profile
        self._allowed = tuple(allowed)
        self._dial = dial

    def __call__(self, info: AddressInfo) -> socket.socket:
        """The socket factory of a connector."""
        host, port = info[4][:2]
        self.check(packed(host), port)
        return self._dial(info)

    def check(self, address: bytes, port: int) -> None:
        """Raises ``EgressRefused`` where that socket address may not be reached."""
        why = forbidden(address, port, profile=self._profile, allowed=self._allowed)
        if why is None and self._profile is Profile.MULTI and not any(one.covers(address, port) for one in self._allowed):
            why = "the address is this machine's own" if _is_own(address) else None
        if why is not None:
            raise EgressRefused(why)


def _is_own(address: bytes) -> bool:
    """Whether an interface of this machine has the address: only then can a socket be bound to it."""
    family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((socket.inet_ntop(family, address), 0))
        except OSError:
            return False
    return True


class GuardedResolver(AbstractResolver):
    """Looks names up outside the loop, for 5 s at most; a name with one forbidden address among its own is refused as a whole."""

    def __init__(self, guard: Guard | None, *, lookup: Lookup | None = None) -> None:
        self._guard = guard
        self._lookup = lookup or _look_up
        self._places = asyncio.Semaphore(_MOST_LOOKUPS)

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[ResolveResult]:
        """The addresses of a name, 16 at most. Raises ``OSError``."""
        try:
            async with asyncio.timeout(_LOOKUP_S), self._places:
                found = (await self._in_thread(host, port, family))[:_MOST_ADDRESSES]
        except TimeoutError:
            raise OSError(None, f"no answer about the name within {_LOOKUP_S:g} s") from None
        if not found:
            raise OSError(None, "the name has no address")
        if self._guard is not None:
            for info in found:
                self._guard.check(packed(info[4][0]), port)
        return [
            ResolveResult(
                hostname=host,
                host=info[4][0],
                port=port,
                family=info[0],
                proto=info[2],
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for info in found
        ]

    async def close(self) -> None:
        """Nothing is kept."""

    async def _in_thread(self, host: str, port: int, family: int) -> list[AddressInfo]:
        # A thread of its own and a daemon: a lookup that hangs must neither keep others waiting nor the process from ending.
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[AddressInfo] | OSError] = loop.create_future()

        def work() -> None:
            found: list[AddressInfo] | OSError
            try:
                found = self._lookup(host, port, family)
            except OSError as error:
                found = error
            except UnicodeError:
                found = OSError(None, "this is no name that can be looked up")
            if not loop.is_closed():
                loop.call_soon_threadsafe(_answer, answer, found)

        threading.Thread(target=work, name="cronpad-webhook-lookup", daemon=True).start()
        found = await answer
        if isinstance(found, OSError):
            raise found
        return found


def _answer(answer: asyncio.Future[list[AddressInfo] | OSError], found: list[AddressInfo] | OSError) -> None:
    if not answer.done():
        answer.set_result(found)


def _look_up(host: str, port: int, family: int) -> list[AddressInfo]:
    return list(socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG))
