"""For people who receive: is a request ours, and was it here before? Plain functions, without any HTTP library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Final

from standardwebhooks import Webhook, WebhookVerificationError

from cronpad_webhook.clock import unix_now
from cronpad_webhook.signing import SecretUnusable, key_of

__all__ = ["TOLERANCE_S", "Refused", "is_repeat", "verify"]

TOLERANCE_S: Final = 300
"""How far the sender's clock may be from ours."""


class Refused(Exception):
    """The request is not from somebody who knows one of the secrets, or is too old."""


def verify(body: bytes, headers: Mapping[str, str], secrets: Iterable[str]) -> str:
    """Answers the message's id, the same over retries. Raises :class:`Refused`.

    ``body`` are the bytes as they came, before anybody parsed them; ``secrets`` every one that is valid now. Raises
    ``SecretUnusable`` where one of them is no ``whsec_…``.
    """
    given = {name.lower(): value for name, value in headers.items()}
    keys = [key_of(secret) for secret in secrets]
    if not keys:
        raise SecretUnusable("there is no secret to verify with")
    why = "no signature matches"
    for key in keys:
        try:
            Webhook(key).verify(body, given, json_parse=False)
        except WebhookVerificationError as error:
            why = str(error)
        except ValueError:
            why = "a header or the body cannot be read"
        else:
            return given["webhook-id"]
    raise Refused(why)


def is_repeat(
    message_id: str,
    seen: MutableMapping[str, float],
    *,
    now: float | None = None,
    remember_s: float = 86_400,
    most: int = 100_000,
) -> bool:
    """Whether the id was here before; it is then remembered. Of ``seen`` what is older than ``remember_s`` is forgotten.

    ``seen`` is yours: it must outlive a restart where a repeat after one would hurt. Its order is that of arrival.
    """
    moment = unix_now() if now is None else now
    while seen and seen[oldest := next(iter(seen))] < moment - remember_s:
        del seen[oldest]
    if message_id in seen:
        return True
    while len(seen) >= most:
        del seen[next(iter(seen))]
    seen[message_id] = moment
    return False
