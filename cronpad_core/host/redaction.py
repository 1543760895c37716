"""Taking secrets out of texts: whole, in the spellings in which they travel, and the parts of those that are addresses."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus, unquote, urlsplit

__all__ = ["redacted"]

_MASK: Final = "***"
_SHORTEST: Final = 4
_SHORTEST_PART: Final = 6


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text with each secret masked; of a secret that is a URL, its user, its password, its path and its query as well."""
    for form in _forms_of(frozenset(secrets)):
        text = text.replace(form, _MASK)
    return text


@lru_cache(maxsize=64)
def _forms_of(secrets: frozenset[str]) -> tuple[str, ...]:
    """The longest first. Every answer of a sink is looked through, mostly for the same few secrets."""
    return tuple(sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True))


def _forms(secret: str) -> Iterator[str]:
    for part in (secret, *_parts(secret)):
        if len(part) < _SHORTEST:
            continue
        yield part
        yield from (quote(part), quote(part, safe=""), quote_plus(part), unquote(part))
        yield from (repr(part)[1:-1], part.encode("unicode_escape").decode())
        yield base64.b64encode(part.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _parts(secret: str) -> Iterator[str]:
    if "://" not in secret:
        return
    try:
        url = urlsplit(secret)
        found = [url.username or "", url.password or "", *url.path.split("/"), url.query, *url.query.replace("=", "&").split("&")]
    except ValueError:
        return
    # In the addresses of most services the host is a part of the secret too, where it is no name of a machine.
    if "." not in url.netloc:
        found.append(url.netloc)
    yield from (part for part in found if len(part) >= _SHORTEST_PART)
