"""The emitter ``log`` keeps the promises of an alert emitter."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

import pytest

from cronpad_core.api import AlertEmitter
from cronpad_core.builtin.log_alerts import LogEmitter, LogSettings
from cronpad_testkit.suites import AlertEmitterSuite, EmitterCase
from cronpad_testkit.suites.emitter import alert


class TestLogEmitter(AlertEmitterSuite):
    """A1."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"unbreakable"})

    @pytest.fixture
    def emitter_type(self) -> type[AlertEmitter]:
        """The class."""
        return LogEmitter

    @pytest.fixture
    def working(self, capsys: pytest.CaptureFixture[str]) -> EmitterCase:
        """Lines on standard error."""

        def received() -> Sequence[str]:
            return capsys.readouterr().err.splitlines()

        return EmitterCase(settings={}, received=received)


def test_a_text_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """As text, line breaks and control characters are written out, and the line goes where it was asked to."""
    settings = LogSettings(format="text", stream="stdout")
    asyncio.run(LogEmitter(settings).emit(alert("two\nlines \x1b[31m")))
    out, err = capsys.readouterr()
    assert out == "2026-01-01T00:00:00Z alert on-call: two\\nlines \\u001b[31m\n"
    assert err == ""
