"""The sink: one delivery is one request, and its answer is the outcome."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from cronpad_core.api import Cancelled, CronpadError, Delivery, Failed, Outcome, SinkContext, TimedOut
from cronpad_webhook.clock import unix_now
from cronpad_webhook.host_settings import allowance, host_settings
from cronpad_webhook.message import Message, Secrets, compose_message
from cronpad_webhook.pace import Pace
from cronpad_webhook.redaction import Redactor, shown_url
from cronpad_webhook.settings import Settings as WebhookSettings

if TYPE_CHECKING:
    from cronpad_webhook.clients import Transports
    from cronpad_webhook.sending import Sender

__all__ = ["WebhookSink"]

_TRACEBACK = 4_096


class WebhookSink:
    """Sends a request per delivery; of a request it keeps nothing but the open connection.

    ``transports`` replaces the clients, ``now`` the wall clock.
    """

    name: ClassVar[str] = "webhook"
    api: ClassVar[int] = 1
    Settings: ClassVar[type[WebhookSettings]] = WebhookSettings
    capabilities: ClassVar[frozenset[str]] = frozenset({"graceful"})

    def __init__(
        self, context: SinkContext, *, transports: Transports | None = None, now: Callable[[], float] = unix_now
    ) -> None:
        # Not at the top: whoever only reads a jobs file needs none of the HTTP libraries, which take a third of a second.
        from cronpad_webhook.clients import ClientFactory
        from cronpad_webhook.sending import Sender

        host = host_settings(context.settings)
        proxy = None if host.proxy is None else Secrets(context.secret).value(host.proxy)
        self._factory = ClientFactory(profile=host.profile, allowed=[allowance(one) for one in host.allow], proxy=proxy)
        self._sender: Sender = Sender(transports or self._factory.client, host, now=now)
        self._secret = context.secret
        self._pace = Pace()

    async def deliver(self, delivery: Delivery) -> Outcome:
        """Sends the request and answers what came of it, within one deadline for all of it."""
        settings = delivery.settings
        if not isinstance(settings, WebhookSettings):
            raise TypeError(f"the settings of a webhook are not {type(settings).__name__}")
        if delivery.cancel.stage is not None:
            return Cancelled(reason=delivery.cancel.reason or "cancelled before it was sent")
        await self._pace.turn()
        secrets = Secrets(self._secret)
        try:
            message = compose_message(settings, delivery, secrets)
        except CronpadError as error:
            # A file or a variable that is not there may be at the next try.
            return Failed(reason=Redactor(secrets.found).text(error.message), facts={"error": "secret"}, undelivered=True)
        except ValueError as error:
            said = Redactor(secrets.found).text(str(error))
            return Failed(reason=said, facts={"error": "not_sendable"}, retryable=False, undelivered=True)
        redactor = Redactor(message.secrets)
        try:
            return await self._within_time(message, settings, delivery, redactor)
        except Exception as error:  # the host would keep the text of it as it is, and a secret may be in it
            told = redactor.text("".join(traceback.format_exception(error)))[-_TRACEBACK:]
            facts = {"error": "plugin_error", "type": type(error).__name__, "traceback": told}
            return Failed(reason=f"the request failed: {type(error).__name__}", facts=facts)

    async def close(self) -> None:
        """Closes the connections."""
        await self._factory.close()

    async def _within_time(self, message: Message, settings: WebhookSettings, delivery: Delivery, redactor: Redactor) -> Outcome:
        """The client's own time-outs begin anew with every byte; this one does not. A cancel brings its end forward."""
        shown = redactor.text(shown_url(message.url, secret=message.url_is_secret))
        loop = asyncio.get_running_loop()
        asked: asyncio.Task[str] | None = None
        try:
            async with asyncio.timeout(delivery.timeout_ms / 1000) as limit:
                asked = loop.create_task(delivery.cancel.wait())
                asked.add_done_callback(lambda task: None if task.cancelled() else limit.reschedule(loop.time()))
                try:
                    return await self._sender.send(message, settings, redactor, shown)
                finally:
                    asked.cancel()
        except TimeoutError:
            facts = {"url": shown}
            if delivery.cancel.stage is not None:
                return Cancelled(reason=delivery.cancel.reason or "cancelled", facts=facts)
            return TimedOut(reason=f"no complete answer within {delivery.timeout_ms / 1000:g} s ({shown})", facts=facts)
