"""The alert emitter: an alert is one signed request, or a ping of a service that waits for signs of life."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from cronpad_core.api import Alert, Delivered
from cronpad_webhook.clock import unix_now
from cronpad_webhook.host_settings import HostSettings
from cronpad_webhook.message import Message
from cronpad_webhook.redaction import Redactor, shown_url
from cronpad_webhook.settings import File, Settings, checked_secrets, checked_target, listed

__all__ = ["AlertSettings", "WebhookEmitter"]

_BAD: Final = frozenset(
    {"run_failed", "run_poisoned", "run_late", "run_slow", "slot_missed", "quota_exceeded", "emitter_failing", "several"}
)


class AlertSettings(BaseModel):
    """The settings of an alert of type ``webhook``."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: Annotated[str, AfterValidator(checked_target)] = Field(description="Where the request goes: http or https.")
    sign_with: Annotated[
        tuple[str, ...],
        BeforeValidator(listed, json_schema_input_type=str | tuple[str, ...]),
        AfterValidator(checked_secrets),
    ] = Field(default=(), max_length=4, description="Signing secrets, the current one first; each signs the request.")
    bearer: str | None = Field(default=None, description="What is sent as Authorization: Bearer.")
    ping: bool = Field(
        default=False,
        description="Whether only the text goes: to the URL where all is well, to URL/start at a start, to URL/fail in trouble.",
    )
    ca_file: File = Field(default=None, description="The certificates of the authorities to trust instead of the system's.")


class WebhookEmitter:
    """Posts each alert as JSON under its own id, signed where a secret is given; it was sent where the answer is a 2xx.

    The same guard as for jobs stands before each connection, with the profile ``single``.
    """

    name: ClassVar[str] = "webhook"
    api: ClassVar[int] = 1
    Settings: ClassVar[type[BaseModel]] = AlertSettings

    def __init__(self, settings: AlertSettings) -> None:
        self._settings = settings

    async def emit(self, alert: Alert) -> None:
        """One request over a connection of its own. Raises ``RuntimeError`` that says why it was not sent."""
        # Not at the top: whoever only reads a jobs file needs none of the HTTP libraries.
        from cronpad_webhook.addresses import Profile
        from cronpad_webhook.clients import ClientFactory
        from cronpad_webhook.sending import Sender

        message = _message(self._settings, alert)
        factory = ClientFactory(profile=Profile.SINGLE)
        try:
            outcome = await Sender(factory.client, HostSettings(), now=unix_now).send(
                message,
                Settings(url=message.url, ca_file=self._settings.ca_file),
                Redactor(message.secrets),
                shown_url(message.url, secret=True),
            )
        finally:
            await factory.close()
        if not isinstance(outcome, Delivered):
            raise RuntimeError(outcome.reason)


def _message(settings: AlertSettings, alert: Alert) -> Message:
    url, kind, body = settings.url, "application/json", json.dumps(alert.to_json()).encode()
    if settings.ping:
        url = url.rstrip("/") + _way_of(alert.kind)
        kind, body = "text/plain; charset=utf-8", alert.text.encode("utf-8", "replace")
    message_id = alert.id.replace(".", "_")  # the standard's ids hold no dots
    headers = {"User-Agent": "cronpad", "Accept": "*/*", "Content-Type": kind, "webhook-id": message_id}
    secrets: Sequence[str] = settings.sign_with
    if settings.bearer is not None:
        headers["Authorization"] = f"Bearer {settings.bearer}"
        secrets = (*secrets, settings.bearer)
    return Message(
        method="POST",
        url=url,
        url_is_secret=True,
        headers=headers,
        body=body,
        message_id=message_id,
        private=frozenset({"authorization"}),
        signing=settings.sign_with,
        secrets=tuple(secrets),
    )


def _way_of(kind: str) -> str:
    if kind == "run_started":
        return "/start"
    return "/fail" if kind in _BAD else ""
