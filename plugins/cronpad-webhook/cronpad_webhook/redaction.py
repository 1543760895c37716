"""Takes secrets out of what is kept: as they are, in base64, and as they stand in a URL or in JSON."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus, urlsplit

__all__ = ["Redactor", "shown_url"]

_SHORTEST: Final = 8
_MASK: Final = "***"


class Redactor:
    """Masks the given secrets. One of fewer than eight characters is left: it would mask half of every text."""

    __slots__ = ("_pattern", "longest")

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)}
        self.longest = max(map(len, forms), default=0)
        """The length of the longest form, in bytes."""
        found = b"|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        self._pattern = re.compile(found) if forms else None

    def text(self, text: str) -> str:
        """The text with each secret masked."""
        if self._pattern is None:
            return text
        return self._pattern.sub(_MASK.encode(), text.encode("utf-8", "surrogatepass")).decode("utf-8", "backslashreplace")

    def data(self, data: bytes) -> bytes:
        """The bytes, as many as they were, with each secret overwritten."""
        return data if self._pattern is None else self._pattern.sub(lambda found: b"*" * len(found[0]), data)


def _forms(secret: str) -> set[bytes]:
    raw = secret.encode("utf-8", "surrogatepass")
    texts = {quote(raw), quote(raw, safe=""), quote_plus(raw), json.dumps(secret)[1:-1]}
    return {raw, *(text.encode() for text in texts), *_in_base64(raw)}


def _in_base64(raw: bytes) -> set[bytes]:
    """How it looks in base64 wherever it begins: of the letters at each end some depend on what is around it."""
    found = set()
    for before in range(3):
        first = (0, 2, 3)[before]
        letters = base64.b64encode(bytes(before) + raw).rstrip(b"=")
        last = len(letters) - (1 if (before + len(raw)) % 3 else 0)
        found |= {letters[first:last], letters[first:last].replace(b"+", b"-").replace(b"/", b"_")}
    return found


@lru_cache(maxsize=4_096)
def shown_url(url: str, *, secret: bool) -> str:
    """A URL for people: without user and query, and of one that is a secret the host alone."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "(a URL that cannot be read)"
    place = f"[{host}]" if ":" in host else host
    shown = f"{parts.scheme}://{place}{'' if port is None else f':{port}'}"
    return shown if secret else shown + parts.path
