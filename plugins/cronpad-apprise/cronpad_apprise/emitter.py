"""The alert emitter: one notification by each of the given services."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from cronpad_core.api import Alert, AlertKind

__all__ = ["AppriseEmitter", "AppriseSettings"]

_WITHIN_S = 25
"""Less than cronpad gives an emitter, so that what hung is said by its service."""

_GOOD = frozenset({AlertKind.RUN_RECOVERED, AlertKind.RUN_SUCCEEDED})
_PLAIN = frozenset({AlertKind.RUN_STARTED, AlertKind.RUNNER_ALIVE, AlertKind.TEST})

_Address = Annotated[str, StringConstraints(min_length=1)]


class AppriseSettings(BaseModel):
    """The settings of an alert of type ``apprise``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: _Address | Annotated[list[_Address], Field(min_length=1)] = Field(
        description="The address of a service as apprise writes it, or several; usually a secret reference."
    )
    title: str = Field(default="cronpad", description="What a message's title begins with.")


class AppriseEmitter:
    """Notifies by all services of one alert. It blocks, as apprise does: cronpad calls it on a thread of its own."""

    name: ClassVar[str] = "apprise"
    api: ClassVar[int] = 1
    Settings: ClassVar[type[BaseModel]] = AppriseSettings

    def __init__(self, settings: AppriseSettings) -> None:
        self._settings = settings

    async def emit(self, alert: Alert) -> None:
        """Sends by each service; raises where one of them did not take it, with what it said."""
        # Apprise costs a third of a second, which a start that tells nobody does not pay.
        import logging

        from apprise import Apprise, AppriseAsset, NotifyFormat, PersistentStoreMode

        notifier = Apprise(asset=AppriseAsset(storage_mode=PersistentStoreMode.MEMORY, secure_logging=True))
        for address in [self._settings.url] if isinstance(self._settings.url, str) else self._settings.url:
            if not notifier.add(address):
                raise ValueError("one of the addresses is none that apprise knows")
        said: list[str] = []
        sent = notifier.notify(
            body=alert.text,
            title=self._title(alert),
            notify_type=_type_of(alert.kind),
            body_format=NotifyFormat.TEXT,
            timeout=_WITHIN_S,
            log_callback=lambda entry, service: said.append(str(entry.message)),
            log_level=logging.WARNING,
        )
        if not sent:
            raise RuntimeError("; ".join(said[-5:]) or "a service did not take it, and did not say why")

    def _title(self, alert: Alert) -> str:
        about = f" {alert.job_name}" if alert.job_name else ""
        return f"{self._settings.title}:{about} {alert.kind.replace('_', ' ')}"


def _type_of(kind: str) -> str:
    if kind in _GOOD:
        return "success"
    return "info" if kind in _PLAIN else "failure"
