"""Every call of a sink, behind one guard: whatever a plugin's code does, an outcome comes back and the line goes on."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import traceback
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from pydantic import ValidationError

from cronpad_core.api import (
    Cancelled,
    Delivered,
    Delivery,
    Failed,
    JsonValue,
    Outcome,
    PluginError,
    Sink,
    SinkContext,
    TimedOut,
    Unknown,
)
from cronpad_core.host.answers import storable
from cronpad_core.host.calls import run_in_thread, said_of
from cronpad_core.host.redaction import redacted
from cronpad_core.host.refusals import refusals_of
from cronpad_core.host.registry import Registry
from cronpad_core.host.threads import ThreadSlots

__all__ = ["SinkPool"]

_OUTCOMES: Final = (Delivered, Failed, TimedOut, Cancelled, Unknown)
_TRACEBACK_BYTES: Final = 4096
_KEPT_SETTINGS: Final = 10_000
_CLOSE_S: Final = 5.0


class SinkPool:
    """One object of each sink type that is used, and the way to deliver to it.

    Used from one event loop. ``plugin_settings`` are the host-wide tables ``[plugins.<name>]`` by sink name; ``redact`` is
    applied to every text of a plugin's exception before it is kept, and secrets that were resolved through a sink's context are
    masked there and in what sinks answer; ``threads`` bounds how many plain ``def deliver`` run at once; ``state`` names the state
    for the sinks. ``plugin_errors`` counts what the guard caught, by sink.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        environ: Mapping[str, str],
        secret: Callable[[str], str],
        plugin_settings: Mapping[str, Mapping[str, JsonValue]] | None = None,
        redact: Callable[[str], str] | None = None,
        threads: int = 64,
        state: str = "",
    ) -> None:
        self._registry = registry
        self._environ = environ
        self._secret = secret
        self._state = state
        self._plugin_settings = plugin_settings or {}
        self._mask = redact or str
        self._resolved: set[str] = set()
        self._sinks: dict[str, Sink] = {}
        self._settings: OrderedDict[tuple[str, Hashable], object] = OrderedDict()
        self._slots = ThreadSlots(threads)
        self.plugin_errors: dict[str, int] = {}

    @property
    def leaked_threads(self) -> int:
        """How many threads still run a delivery that nobody waits for any more."""
        return self._slots.leaked

    def available(self, sink_type: str) -> bool:
        """Whether a sink of this name is registered."""
        return self._registry.has_sink(sink_type)

    async def deliver(
        self, sink_type: str, settings_key: Hashable, settings: Mapping[str, JsonValue], delivery: Delivery
    ) -> Outcome:
        """Delivers, and always answers an outcome; only a cancellation of the calling task is raised.

        ``settings`` are the job's own for this sink, as stored; they are validated once per ``settings_key`` (say, the job's id
        and version) and put into ``delivery``, whose ``settings`` may be anything before. ``facts["error"]`` of a ``Failed`` is
        ``plugin_unavailable`` (no such sink), ``settings_refused`` or ``plugin_error`` (with ``traceback``, its last 4 KB); the
        first two and a sink that cannot be built are known not to have been delivered.
        """
        try:
            sink = self._sinks.get(sink_type) or self._build(sink_type)
        except PluginError as error:
            return Failed(reason=error.message, facts={"error": "plugin_unavailable"}, retryable=False, undelivered=True)
        except BaseException as error:
            return self._plugin_error(sink_type, error, undelivered=True)
        try:
            ready = replace(delivery, settings=self._validated(sink_type, settings_key, settings))
        except ValidationError as error:
            reason = self._redact(f"sink '{sink_type}' refuses its settings: {refusals_of(error)}")
            return Failed(reason=reason, facts={"error": "settings_refused"}, retryable=False, undelivered=True)
        except BaseException as error:
            return self._plugin_error(sink_type, error, undelivered=True)
        try:
            answer = await self._call(sink.deliver, ready)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling() > 0:
                raise
            return self._plugin_error(sink_type, error, said="cancelled itself")
        except BaseException as error:
            return self._plugin_error(sink_type, error)
        if not isinstance(answer, _OUTCOMES):
            said = f"deliver answered {type(answer).__name__}, which is no outcome"
            return self._plugin_error(sink_type, None, said=said, retryable=False)
        try:
            return self._masked(storable(answer))
        except Exception as error:  # an answer whose own parts raise
            return self._plugin_error(sink_type, error, retryable=False)

    def _secret_of(self, reference: str) -> str:
        found = self._secret(reference)
        self._resolved.add(found)
        return found

    def _redact(self, text: str) -> str:
        return redacted(self._mask(text), tuple(self._resolved))

    def _masked(self, outcome: Outcome) -> Outcome:
        if not self._resolved:
            return outcome
        facts = {name: self._redact(value) if isinstance(value, str) else value for name, value in outcome.facts.items()}
        return replace(outcome, reason=self._redact(outcome.reason), facts=facts)

    async def close(self) -> None:
        """Closes every sink that was built, each within 5 s; what one raises keeps no other from being closed."""
        sinks, self._sinks = self._sinks, {}
        for name, sink in sinks.items():
            closing = getattr(sink, "close", None)
            if closing is None:
                continue
            task = asyncio.ensure_future(self._close(name, closing))
            await asyncio.wait({task}, timeout=_CLOSE_S)
            if not task.done():
                # Once more after the cancellation, and then it is left: a plugin may swallow it.
                task.cancel()
                await asyncio.wait({task}, timeout=_CLOSE_S)

    async def _close(self, name: str, closing: Callable[[], object]) -> None:
        try:
            await self._call(closing)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > 0:
                raise
        except BaseException:
            self._count(name)

    def _build(self, sink_type: str) -> Sink:
        found = self._registry.sink(sink_type)
        settings = self._plugin_settings.get(sink_type, {})
        context = SinkContext(settings=settings, environ=self._environ, secret=self._secret_of, state=self._state)
        try:
            sink = found.build(context)
        except PluginError as error:
            # Its own, about itself: not to be taken for the registry's "no such sink".
            raise RuntimeError(error.message) from error
        self._sinks[sink_type] = sink
        return sink

    def _validated(self, sink_type: str, key: Hashable, settings: Mapping[str, JsonValue]) -> object:
        cached = self._settings.get((sink_type, key))
        if cached is None:
            cached = self._registry.sink(sink_type).settings.model_validate(dict(settings))
            self._settings[sink_type, key] = cached
            if len(self._settings) > _KEPT_SETTINGS:
                self._settings.popitem(last=False)
        else:
            self._settings.move_to_end((sink_type, key))
        return cached

    async def _call(self, function: Callable[..., object], *arguments: object) -> object:
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        slot = await self._slots.take()
        try:
            answer = await run_in_thread(partial(function, *arguments), ended=slot.thread_ended)
        finally:
            slot.caller_left()
        # A plain function may answer a coroutine of its own: a decorator, a partial, a mock.
        return await answer if isinstance(answer, Awaitable) else answer

    def _plugin_error(
        self,
        sink_type: str,
        error: BaseException | None,
        *,
        said: str | None = None,
        retryable: bool = True,
        undelivered: bool = False,
    ) -> Failed:
        self._count(sink_type)
        whose = self._registry.sink(sink_type)
        facts: dict[str, JsonValue] = {"error": "plugin_error", "sink": sink_type, "plugin": whose.plugin}
        facts["distribution"] = whose.distribution
        if error is not None:
            facts["type"] = type(error).__name__
            facts["traceback"] = self._redact(_traceback_of(error))
        reason = self._redact(said or (said_of(error) if error is not None else "plugin error"))
        return Failed(
            reason=f"sink '{sink_type}' of {whose.distribution}: {reason}",
            facts=facts,
            retryable=retryable,
            undelivered=undelivered,
        )

    def _count(self, sink_type: str) -> None:
        self.plugin_errors[sink_type] = self.plugin_errors.get(sink_type, 0) + 1


def _traceback_of(error: BaseException) -> str:
    text = type(error).__name__
    with contextlib.suppress(Exception):  # an exception whose own text raises
        text = "".join(traceback.format_exception(error))
    return text.encode("utf-8", "backslashreplace")[-_TRACEBACK_BYTES:].decode("utf-8", "ignore")
