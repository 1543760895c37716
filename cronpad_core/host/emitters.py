"""Every call of an alert emitter, behind one guard: on its own thread, its secrets resolved late and kept out of what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pydantic import ValidationError

from cronpad_core.api import Alert, AlertEmitter, AlertSpec, CronpadError, JsonValue
from cronpad_core.host.booth import Booth
from cronpad_core.host.calls import said_of
from cronpad_core.host.redaction import redacted
from cronpad_core.host.refusals import refusals_of
from cronpad_core.host.registry import Registry

__all__ = ["EmitterPool", "UnsentError"]

_PREFIX = "secret:"


class UnsentError(Exception):
    """Why an alert was not sent, in words that hold no secret."""


class EmitterPool:
    """The emitters of declared alerts. Used from one event loop.

    ``secret`` resolves one reference, each time that something is sent: a secret that was changed is used from then on.
    """

    def __init__(self, registry: Registry, *, secret: Callable[[str], str]) -> None:
        self._registry = registry
        self._secret = secret
        self._declared: Mapping[str, AlertSpec] = {}
        self._booths: dict[str, Booth] = {}
        self._built: dict[str, tuple[object, AlertEmitter]] = {}

    def replace(self, declared: Mapping[str, AlertSpec]) -> None:
        """From now on these are the alerts."""
        for name in [name for name in self._booths if declared.get(name) != self._declared.get(name)]:
            self._booths.pop(name).close()
            self._built.pop(name, None)
        self._declared = dict(declared)

    async def emit(self, name: str, alert: Alert) -> None:
        """Sends by the emitter of the alert ``name``. Raises :class:`UnsentError`; cancelling frees the caller at once."""
        spec = self._declared.get(name)
        if spec is None:
            raise UnsentError(f'no alert "{name}" is declared')
        secrets: list[str] = []
        booth = self._booths.setdefault(name, Booth(name))
        settings, refused = self._ready(spec, secrets)
        if refused is not None:
            raise UnsentError(refused)
        raised = await booth.call(partial(self._call, name, spec, settings, alert))
        if raised is not None:
            # Without its cause: the emitter's own exception may hold anything.
            raise UnsentError(redacted(_said(spec.type, raised), secrets))

    def close(self) -> None:
        """Ends the threads of emitters, but for those that hang."""
        for booth in self._booths.values():
            booth.close()
        self._booths.clear()
        self._built.clear()

    def _call(self, name: str, spec: AlertSpec, settings: dict[str, JsonValue], alert: Alert) -> object:
        """On the emitter's own thread: its class may do anything, when it is built as well."""
        known = self._built.get(name)
        if known is None or known[0] != settings:
            found = self._registry.emitter(spec.type)
            known = settings, found.build(found.settings.model_validate(settings))
            self._built[name] = known
        return known[1].emit(alert)

    def _ready(self, spec: AlertSpec, secrets: list[str]) -> tuple[dict[str, JsonValue], str | None]:
        try:
            return self._resolved(spec.settings, secrets), None
        except CronpadError as error:
            return {}, error.message

    def _resolved(self, settings: Mapping[str, JsonValue], secrets: list[str]) -> dict[str, JsonValue]:
        return {key: self._value(value, secrets) for key, value in settings.items()}

    def _value(self, value: JsonValue, secrets: list[str]) -> JsonValue:
        if isinstance(value, str) and value.startswith(_PREFIX):
            found = self._secret(value)
            secrets.append(found)
            return found
        if isinstance(value, list):
            return [self._value(one, secrets) for one in value]
        if isinstance(value, dict):
            return {key: self._value(one, secrets) for key, one in value.items()}
        return value


def _said(emitter: str, error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return f"the emitter '{emitter}' refuses its settings: {refusals_of(error)}"
    if isinstance(error, CronpadError):
        return error.message
    return said_of(error)
