"""Which addresses may be reached: decided on the bytes of an address, never on its text or on a name."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

__all__ = ["Allowance", "Profile", "forbidden", "packed"]

Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"


class Profile(StrEnum):
    """Who may write jobs: people of one trust, or of several."""

    SINGLE = "single"
    MULTI = "multi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """A network, and one of its ports or all of them, that ``multi`` may reach all the same."""

    network: Network
    port: int | None = None

    def covers(self, address: bytes, port: int) -> bool:
        """Whether that socket address is in it."""
        return self.port in (None, port) and _within(address, self.network)


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(word) for word in text.split())


_NEVER: Final = _networks(
    # This network, link-local, multicast, reserved and broadcast.
    "0.0.0.0/8 169.254.0.0/16 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32 ::/128 fe80::/10 fec0::/10 ff00::/8 "
    # What clouds answer for their machines at other addresses than link-local ones.
    "100.100.100.200/32 192.0.0.192/32 168.63.129.16/32 fd00:ec2::254/128 fd20:ce::254/128"
)
_NOT_PUBLIC: Final = _networks(
    "127.0.0.0/8 ::1/128 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 "
    "198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 fc00::/7 2001::/23 2001:db8::/32 100::/64 2002::/16 64:ff9b:1::/48"
)
_PORTS: Final = frozenset({80, 443, 8080, 8443})

_MAPPED, _COMPATIBLE = bytes(10) + b"\xff\xff", bytes(12)
_NAT64, _LOCAL_NAT64 = bytes.fromhex("0064ff9b") + bytes(8), bytes.fromhex("0064ff9b0001")
_SIX_TO_FOUR, _TEREDO = bytes.fromhex("2002"), bytes.fromhex("20010000")
_ISATAP = (bytes.fromhex("00005efe"), bytes.fromhex("02005efe"))


def packed(text: str) -> bytes:
    """The bytes of an address as it stands in a socket address, without its zone. Raises ``ValueError``."""
    return ipaddress.ip_address(text.partition("%")[0]).packed


def forbidden(address: bytes, port: int, *, profile: Profile, allowed: Sequence[Allowance] = ()) -> str | None:
    """Why a socket address may not be reached; ``None`` where it may. Addresses inside an address count as well."""
    forms = (address, *_inside(address))
    if any(_within(form, network) for form in forms for network in _NEVER):
        return "the address is link-local, reserved, or of a machine's metadata"
    if profile is Profile.SINGLE or any(one.covers(address, port) for one in allowed):
        return None
    if any(_within(form, network) for form in forms for network in _NOT_PUBLIC):
        return "the address is not public"
    if port not in _PORTS:
        return f"port {port} is not one of {', '.join(map(str, sorted(_PORTS)))}"
    return None


def _within(address: bytes, network: Network) -> bool:
    if len(address) != len(network.network_address.packed):
        return False
    shift = len(address) * 8 - network.prefixlen
    return int.from_bytes(address, "big") >> shift == int(network.network_address) >> shift


def _inside(address: bytes) -> Iterator[bytes]:
    """The IPv4 addresses that an IPv6 address carries."""
    if len(address) != 16:
        return
    # :: and ::1 are addresses of their own, not 0.0.0.0 and 0.0.0.1.
    if address[:12] in (_MAPPED, _NAT64) or (address[:12] == _COMPATIBLE and int.from_bytes(address, "big") > 1):
        yield address[12:]
    if address[:6] == _LOCAL_NAT64:
        # Which of the lengths it has is not known; read with a wrong one, most addresses begin with a zero.
        yield from (form for form in _embedded(address) if form[0])
    if address[:2] == _SIX_TO_FOUR:
        yield address[2:6]
    if address[:4] == _TEREDO:
        yield address[4:8]
        yield bytes(byte ^ 0xFF for byte in address[12:])
    if address[8:12] in _ISATAP:
        yield address[12:]


def _embedded(address: bytes) -> Iterator[bytes]:
    """A translator's own prefix may be 48, 56, 64 or 96 bits long; the ninth byte is never part of the address within."""
    yield address[6:8] + address[9:11]
    yield address[7:8] + address[9:12]
    yield address[9:13]
    yield address[12:]
