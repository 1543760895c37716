"""The way of a request: through what its host's visitors share, out, and back as an outcome."""

from __future__ import annotations

from collections.abc import Callable

from cronpad_core.api import Failed, Outcome
from cronpad_webhook.clients import Transports
from cronpad_webhook.exchange import exchange
from cronpad_webhook.failures import NO_ANSWER, failure_of
from cronpad_webhook.host_settings import HostSettings
from cronpad_webhook.message import Message
from cronpad_webhook.outcomes import outcome_of
from cronpad_webhook.places import LeftAlone, Places, place_of
from cronpad_webhook.redaction import Redactor
from cronpad_webhook.settings import Settings
from cronpad_webhook.tls import Identity

__all__ = ["Sender"]

_BLAMED = frozenset({"connect", "dns", "tls", "reset", "protocol", "proxy", "connection"})


class Sender:
    """Sends messages through the clients of ``transports``; any number at once."""

    def __init__(self, transports: Transports, host: HostSettings, *, now: Callable[[], float]) -> None:
        self._transports = transports
        self._places = Places(host) if host.concurrency or host.rate or host.breaker_after else None
        self._now = now

    async def send(self, message: Message, settings: Settings, redactor: Redactor, shown: str) -> Outcome:
        """Sends it once; whoever has to wait for its turn does so within the caller's deadline."""
        if self._places is None:
            return await self._send(message, settings, redactor, shown)
        try:
            async with self._places.visit(place_of(message.url)) as place:
                try:
                    outcome = await self._send(message, settings, redactor, shown)
                except BaseException:
                    self._places.tell(place, healthy=False)
                    raise
                self._places.tell(place, healthy=_healthy(outcome))
                return outcome
        except LeftAlone as error:
            facts = {"error": "breaker", "url": shown}
            return Failed(reason=str(error), facts=facts, retry_after_ms=error.wait_ms, undelivered=True)

    async def _send(self, message: Message, settings: Settings, redactor: Redactor, shown: str) -> Outcome:
        identity = Identity(ca_file=settings.ca_file, client_cert=settings.client_cert, client_key=settings.client_key)
        try:
            client = self._transports(identity)
        except OSError as error:
            said = f"a file of its certificates cannot be used: {error.strerror or type(error).__name__}"
            return Failed(reason=redactor.text(said), facts={"error": "certificate", "url": shown}, undelivered=True)
        # Beyond what is kept, as much as the longest secret: one that is cut in two would not be known for what it is.
        most_kept = settings.response_kept + redactor.longest
        try:
            answer = await exchange(
                client,
                message,
                message.headers_at(self._now()),
                redirects=settings.redirects,
                most_read=settings.response_read,
                most_kept=most_kept,
            )
        except NO_ANSWER as error:
            return failure_of(error, shown)
        return outcome_of(answer, settings, redactor, shown=shown, now=self._now())


def _healthy(outcome: Outcome) -> bool:
    status = outcome.facts.get("http_status")
    if isinstance(status, int):
        return status < 500
    return outcome.facts.get("error") not in _BLAMED
