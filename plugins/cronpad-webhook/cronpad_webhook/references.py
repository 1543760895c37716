"""Secrets as settings name them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

__all__ = ["check_url", "is_reference"]

_PREFIX: Final = "secret:"


def is_reference(text: str) -> bool:
    """Whether a setting names a secret instead of holding it."""
    return text.startswith(_PREFIX)


@lru_cache(maxsize=4_096)
def check_url(url: str) -> str:
    """The URL, if a request can go there; its text is not part of what is raised. Raises ``ValueError``."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("the URL cannot be read; write it as https://host/path") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("the URL must begin with http:// or https:// and name a host")
    if any(character <= " " or character == "\x7f" for character in url):
        raise ValueError("the URL holds a space or a control character; write %20 for a space")
    if parts.fragment:
        raise ValueError("the URL has a fragment (#…), which is never sent")
    return url
