"""Which headers a job may set, and with what in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["OWN", "HeaderRefused", "check_name", "check_value", "merged"]

OWN: Final = (
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "Idempotency-Key",
    "X-Cronpad-Attempt",
    "X-Cronpad-Redelivery",
    "X-Cronpad-Scheduled-At",
    "X-Cronpad-Fence",
    "traceparent",
    "tracestate",
)
"""What every request carries where it applies; a job cannot set them."""

_FRAMING: Final = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "upgrade",
        "te",
        "trailer",
        "expect",
        "accept-encoding",
        "proxy-authorization",
        "proxy-connection",
    }
)
_RESERVED: Final = _FRAMING | {name.lower() for name in OWN}
_PREFIXES: Final = ("webhook-", "x-cronpad-")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e]{0,4096}")


class HeaderRefused(ValueError):
    """A header cannot be sent, or is not a job's to set."""


def check_name(name: str) -> str:
    """The name, if a job may set it. Raises :class:`HeaderRefused`."""
    if _TOKEN.fullmatch(name) is None:
        raise HeaderRefused(f"{name[:60]!r} is no name of a header: letters, digits and dashes")
    if name.lower() in _RESERVED or name.lower().startswith(_PREFIXES):
        raise HeaderRefused(f"the header {name} is set by cronpad for each request; choose another name")
    return name


def check_value(name: str, value: str) -> str:
    """The value, if it is one line of ASCII. Raises :class:`HeaderRefused`, which does not quote it."""
    if _VALUE.fullmatch(value) is None:
        raise HeaderRefused(f"the value of the header {name} must be one line of at most 4096 ASCII characters")
    return value.strip()


def merged(own: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """A job's headers over the defaults among ours, whatever the case of their letters."""
    said = {name.lower() for name in own}
    return {**{name: value for name, value in ours.items() if name.lower() not in said}, **own}
