"""Why there was no answer, in words for people, and what may follow from it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Final

import aiohttp
import httpx

from cronpad_core.api import Failed, JsonValue
from cronpad_webhook.exchange import RedirectRefused
from cronpad_webhook.guard import EgressRefused

__all__ = ["NO_ANSWER", "failure_of"]

NO_ANSWER: Final = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, RedirectRefused)
"""What a request may raise."""

_MOST_CAUSES: Final = 16


def failure_of(error: BaseException, shown: str) -> Failed:
    """The outcome of a request that was not answered; ``shown`` is its URL for people."""
    causes = tuple(_causes(error))
    for kind, word, retryable, undelivered, said in _KINDS:
        cause = next((one for one in causes if isinstance(one, kind)), None)
        if cause is not None:
            facts: dict[str, JsonValue] = {"error": word, "url": shown}
            detail = _detail(cause, word)
            reason = f"{said}: {detail}" if detail else said
            return Failed(reason=f"{reason} ({shown})", facts=facts, retryable=retryable, undelivered=undelivered)
    facts = {"error": "connection", "url": shown, "type": type(error).__name__}
    return Failed(reason=f"the request failed: {type(error).__name__} ({shown})", facts=facts)


def _causes(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__


_CONNECTOR: Final = (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError)
_KINDS: Final[tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str, bool, bool, str], ...]] = (
    (EgressRefused, "egress_policy", False, True, "refused by the egress policy"),
    (RedirectRefused, "redirect", False, False, "a redirect was not followed"),
    ((aiohttp.InvalidURL, httpx.InvalidURL, httpx.UnsupportedProtocol), "bad_url", False, True, "the URL cannot be used"),
    ((ssl.SSLError, ssl.CertificateError), "tls", True, True, "TLS failed"),
    (aiohttp.ClientConnectorDNSError, "dns", True, True, "the name of the host was not found"),
    (aiohttp.ClientHttpProxyError, "proxy", True, True, "the proxy refused"),
    (_CONNECTOR, "connect", True, True, "no connection"),
    (
        aiohttp.ServerDisconnectedError,
        "reset",
        True,
        False,
        "the connection ended before an answer; what became of it is unknown",
    ),
    (aiohttp.ClientPayloadError, "reset", True, False, "the connection ended within the answer"),
    (aiohttp.ClientResponseError, "protocol", True, False, "the answer is not HTTP"),
    ((aiohttp.ClientOSError, ConnectionError), "reset", True, False, "the connection broke; what became of it is unknown"),
)
"""By the first cause of that kind: word, whether a retry can help, whether nothing was delivered, what is said."""


def _detail(cause: BaseException, word: str) -> str:
    """What a person needs besides; nothing that somebody at the other end has written."""
    if isinstance(cause, EgressRefused):
        return str(cause.strerror)
    if isinstance(cause, RedirectRefused):
        return str(cause)
    if isinstance(cause, ssl.SSLError):
        return _tls_detail(cause)
    if word == "connect" and isinstance(cause, aiohttp.ClientConnectorError):
        return (cause.os_error.strerror or "").lower()
    return ""


def _tls_detail(cause: ssl.SSLError) -> str:
    """What the TLS library says: the client's own errors are of its kinds, but carry its words one step further in."""
    found: BaseException = cause
    if isinstance(cause, aiohttp.ClientConnectorCertificateError):
        found = cause.certificate_error
    elif isinstance(cause, aiohttp.ClientConnectorError):
        found = cause.os_error
    if isinstance(found, ssl.SSLCertVerificationError):
        return str(found.verify_message)
    return (getattr(found, "reason", None) or "").lower().replace("_", " ")
