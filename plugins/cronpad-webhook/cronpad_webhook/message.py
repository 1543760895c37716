"""One request, complete but for its way: what is sent, and which secrets are in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from cronpad_core.api import Delivery, JsonValue
from cronpad_webhook.headers import check_value, merged
from cronpad_webhook.references import check_url, is_reference
from cronpad_webhook.settings import Settings
from cronpad_webhook.signing import PREFIX, key_of, signature_headers
from cronpad_webhook.templates import fill, fill_value, values_of

__all__ = ["Message", "Secrets", "compose_message"]

_BODILESS: Final = ("GET", "HEAD", "DELETE")
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """``private`` are the headers (in small letters) that no other origin may see; ``secrets`` what must not be kept anywhere."""

    method: str
    url: str = field(repr=False)
    url_is_secret: bool = False
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    message_id: str
    private: frozenset[str] = frozenset()
    signing: tuple[str, ...] = field(default=(), repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def headers_at(self, now: float) -> dict[str, str]:
        """The headers of a request that is sent now: its signature says when that was."""
        if not self.signing:
            return dict(self.headers)
        signature = signature_headers(self.signing, message_id=self.message_id, now=now, body=self.body.decode())
        return {**self.headers, **signature}


class Secrets:
    """Looks references up, and remembers what it found for as long as one delivery takes."""

    def __init__(self, secret: Callable[[str], str]) -> None:
        self._secret = secret
        self.found: list[str] = []

    def value(self, text: str) -> str:
        """What a reference stands for, or the text itself. Raises what the host raises."""
        if not is_reference(text):
            return text
        found = self._secret(text)
        self.found.append(found)
        return found


def compose_message(settings: Settings, delivery: Delivery, secrets: Secrets) -> Message:
    """The request of one attempt. Raises ``ValueError`` where it cannot be made, and what the host raises for a secret."""
    url = check_url(secrets.value(settings.url))
    url_is_secret = is_reference(settings.url)
    if url_is_secret:
        secrets.found += _parts_of(url)
    message_id = delivery.idempotency_key
    values = values_of(delivery, message_id)
    body, kind = _body(settings, delivery, values)
    own, private = _own_headers(settings, secrets, values)
    ours = _ours(settings, delivery, message_id, str(values["scheduled_at"]))
    keys = tuple(secrets.value(one) for one in settings.sign_with)
    for key in keys:
        key_of(key)
        secrets.found += [key, key.removeprefix(PREFIX)]
    defaults = {"User-Agent": "cronpad", "Accept": "*/*"} | ({"Content-Type": kind} if kind else {})
    return Message(
        method=settings.method,
        url=url,
        url_is_secret=url_is_secret,
        headers={**merged(own, defaults), **ours, "Accept-Encoding": "identity"},
        body=body.encode(),
        message_id=message_id,
        signing=keys,
        private=frozenset({*private, "authorization", "cookie", "webhook-signature"}),
        secrets=tuple(secrets.found),
    )


def _body(settings: Settings, delivery: Delivery, values: Mapping[str, JsonValue]) -> tuple[str, str | None]:
    if settings.body is not None:
        return fill(settings.body, values), "text/plain; charset=utf-8"
    if settings.json_ is not None:
        return _dumped(fill_value(settings.json_, values)), _JSON
    if settings.method in _BODILESS:
        return "", None
    data = {
        "job": delivery.job_name,
        "job_id": delivery.job_id,
        "run_id": delivery.run_id,
        "workspace": delivery.workspace,
        "trigger": values["trigger"],
        "payload": delivery.payload,
    }
    return _dumped({"type": "cronpad.run", "timestamp": values["scheduled_at"], "data": data}), _JSON


def _own_headers(settings: Settings, secrets: Secrets, values: Mapping[str, JsonValue]) -> tuple[dict[str, str], set[str]]:
    own: dict[str, str] = {}
    private: set[str] = set()
    for name, text in settings.headers.items():
        if is_reference(text):
            own[name] = check_value(name, secrets.value(text))
            private.add(name.lower())
        else:
            own[name] = check_value(name, fill(text, values))
    if settings.bearer is not None:
        own["Authorization"] = check_value("Authorization", f"Bearer {secrets.value(settings.bearer)}")
    return own, private


def _ours(settings: Settings, delivery: Delivery, message_id: str, scheduled_at: str) -> dict[str, str]:
    ours = {
        "webhook-id": message_id,
        "Idempotency-Key": message_id,
        "X-Cronpad-Attempt": str(delivery.attempt),
        "X-Cronpad-Redelivery": str(delivery.redelivery),
        "X-Cronpad-Scheduled-At": scheduled_at,
    }
    if settings.send_fence:
        ours["X-Cronpad-Fence"] = delivery.fence
    for name in ("traceparent", "tracestate"):
        if delivery.trace is not None and name in delivery.trace:
            ours[name] = check_value(name, delivery.trace[name])
    return ours


def _dumped(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _parts_of(url: str) -> list[str]:
    """What of a secret URL is a secret by itself."""
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    found = [user, password, f"{user}:{password}", parts.path, parts.path.strip("/"), parts.query]
    found += [value for _, value in parse_qsl(parts.query)]
    return [part for part in (*found, *parts.path.split("/")) if part]
