"""The promises A1 and A2 of an alert emitter."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from cronpad_core.api import API, Alert, AlertEmitter, JsonValue
from cronpad_testkit.samples import T0
from cronpad_testkit.suites.suite import Suite

__all__ = ["AlertEmitterSuite", "EmitterCase", "alert"]

PATIENCE = 30.0
"""How many seconds a test waits for what should come at once: when it gives up, never what it proves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitterCase:
    """Settings, and how to see what arrived at the other end: one text for each alert, in order."""

    settings: Mapping[str, JsonValue]
    received: Callable[[], Sequence[str]]


def alert(text: str = "backup failed: exit 3", *, number: int = 1, **facts: JsonValue) -> Alert:
    """An alert of a failed run."""
    return Alert(
        id=f"al_{number}",
        kind="run_failed",
        job_name="backup",
        run_id=f"run_{number}",
        at_ms=T0,
        text=text,
        facts={"status": "failed", "attempts": 2, **facts},
        name="on-call",
    )


class AlertEmitterSuite(Suite):
    """Adopt with the fixtures ``emitter_type``, ``working`` and ``failing``.

    ``failing`` are settings with which nothing can be sent. The capability ``"cancellable"`` says that a call ends when its task is
    cancelled: then the fixture ``hanging`` gives settings with which it hangs. ``"unbreakable"``: it cannot fail.
    """

    known_capabilities: ClassVar[frozenset[str]] = frozenset({"cancellable", "unbreakable"})

    @pytest.fixture
    def emitter_type(self) -> type[AlertEmitter]:
        """To be overridden: the class of the emitter."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture named emitter_type")

    @pytest.fixture
    def working(self) -> EmitterCase:
        """To be overridden: settings that work."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture named working")

    @pytest.fixture
    def failing(self) -> Mapping[str, JsonValue]:
        """To be overridden: settings with which nothing can be sent."""
        return {}

    @pytest.fixture
    def hanging(self) -> Mapping[str, JsonValue]:
        """To be overridden by a cancellable emitter: settings with which it hangs."""
        return {}

    def _build(self, emitter_type: Any, settings: Mapping[str, JsonValue]) -> AlertEmitter:
        emitter: AlertEmitter = emitter_type(emitter_type.Settings.model_validate(dict(settings)))
        return emitter

    def test_the_type_says_what_it_is(self, emitter_type: Any) -> None:
        """It has a name, the API number, a settings model that refuses unknown keys, and ``emit``."""
        assert isinstance(emitter_type.name, str)
        assert emitter_type.api == API
        assert callable(emitter_type.Settings.model_validate)
        assert inspect.iscoroutinefunction(emitter_type.emit)

    def test_unknown_settings_are_refused(self, emitter_type: Any, working: EmitterCase) -> None:
        """A key that the settings do not have is an error."""
        with pytest.raises(ValueError, match="no_such_key"):
            emitter_type.Settings.model_validate({**working.settings, "no_such_key": 1})

    def test_a1_what_returns_was_sent(self, emitter_type: Any, working: EmitterCase) -> None:
        """A1: each alert arrives once, in the order of the calls."""
        emitter = self._build(emitter_type, working.settings)

        async def send() -> None:
            for number in range(3):
                await emitter.emit(alert(f"number {number} of three", number=number))

        asyncio.run(send())
        received = working.received()
        assert len(received) == 3
        assert [f"number {number} of three" in text for number, text in enumerate(received)] == [True] * 3

    def test_a1_any_text_is_sent(self, emitter_type: Any, working: EmitterCase) -> None:
        """A1: several lines, quotes, markup, letters of any script and facts of any depth go through."""
        emitter = self._build(emitter_type, working.settings)
        odd = 'two alerts\n- "a" & <b> $HOME `id` %s {x}\n- ünïcode 日本 🚨'
        items: list[JsonValue] = [{"text": "a", "deep": [1, None, {"ü": 2.5}]}]
        asyncio.run(emitter.emit(alert(odd, count=2, items=items)))
        (received,) = working.received()
        shown = received if "日本" in received else json.dumps(json.loads(received), ensure_ascii=False)
        assert all(word in shown for word in ("two alerts", "$HOME", "`id`", "%s {x}", "ünïcode 日本 🚨"))

    def test_a1_what_was_not_sent_raises(self, emitter_type: Any, failing: Mapping[str, JsonValue]) -> None:
        """A1: an emitter that could not send says so by an exception with a text."""
        if "unbreakable" in self.capabilities:
            pytest.skip(f"{type(self).__name__} declares that it cannot fail")
        emitter = self._build(emitter_type, failing)
        with pytest.raises(Exception, match=r"\S"):
            asyncio.run(emitter.emit(alert()))

    def test_a2_a_cancelled_call_ends(self, emitter_type: Any, hanging: Mapping[str, JsonValue]) -> None:
        """A2: a call that hangs ends when its task is cancelled."""
        self.needs("cancellable")
        emitter = self._build(emitter_type, hanging)

        async def cancel() -> bool:
            task = asyncio.ensure_future(emitter.emit(alert()))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task}, timeout=PATIENCE)
            return task.done()

        assert asyncio.run(cancel())
