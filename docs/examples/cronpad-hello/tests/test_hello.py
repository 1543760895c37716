"""``hello`` keeps the contract of a sink, and greets."""

from __future__ import annotations

from pathlib import Path

import pytest

from cronpad_core.api import SinkContext
from cronpad_hello.settings import HelloSettings
from cronpad_hello.sink import HelloSink
from cronpad_testkit.suites import SinkCase, SinkSuite


class TestHelloSink(SinkSuite):
    """All promises of a sink. No greeting goes on for minutes, so there is nothing to stop."""

    @pytest.fixture
    def sink_case(self, tmp_path: Path) -> SinkCase:
        """A greeting that works, and one whose folder does not exist."""
        return SinkCase(
            type=HelloSink,
            succeeds={"path": str(tmp_path / "greetings.txt")},
            fails={"path": str(tmp_path / "missing" / "greetings.txt")},
            hangs=None,
        )


def test_a_greeting_is_written_once(tmp_path: Path) -> None:
    """A delivery that is repeated under the same idempotency key writes no second line."""
    settings = HelloSettings(path=tmp_path / "greetings.txt", whom="reader")
    sink = HelloSink(SinkContext(settings={}, environ={}, secret=str))
    assert sink.greet(settings, job="greet", key="cp_1") == "greeted reader"
    assert sink.greet(settings, job="greet", key="cp_1") == "already written"
    assert sink.greet(settings, job="greet", key="cp_2") == "greeted reader"
    assert settings.path.read_text(encoding="utf-8").splitlines() == [
        "hello reader, from greet [cp_1]",
        "hello reader, from greet [cp_2]",
    ]
