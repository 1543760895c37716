"""Signatures by the Standard Webhooks, over the very bytes that are sent."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from standardwebhooks import Webhook

__all__ = ["PREFIX", "SecretUnusable", "key_of", "signature_headers"]

PREFIX: Final = "whsec_"
_SHORTEST, _LONGEST = 24, 64


class SecretUnusable(ValueError):
    """A signing secret is not what the standard asks for; its text is not part of the message."""


def key_of(secret: str) -> bytes:
    """The key behind ``whsec_`` and base64. Raises :class:`SecretUnusable`."""
    if not secret.startswith(PREFIX):
        raise SecretUnusable(f"a signing secret begins with {PREFIX}, followed by base64")
    text = secret.removeprefix(PREFIX).rstrip("=")
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise SecretUnusable(f"what follows {PREFIX} in a signing secret is not base64") from None
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise SecretUnusable(f"a signing secret holds {_SHORTEST} to {_LONGEST} bytes, this one {len(key)}")
    return key


@lru_cache(maxsize=256)
def _signer(secret: str) -> Webhook:
    return Webhook(key_of(secret))


def signature_headers(secrets: Sequence[str], *, message_id: str, now: float, body: str) -> dict[str, str]:
    """The three headers; a receiver that knows any one of the secrets accepts them. Raises :class:`SecretUnusable`."""
    moment = datetime.fromtimestamp(int(now), UTC)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": " ".join(_signer(secret).sign(message_id, moment, body) for secret in secrets),
    }
