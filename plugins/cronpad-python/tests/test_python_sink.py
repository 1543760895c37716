"""The sink ``python`` keeps the contract of a sink, and calls functions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cronpad_core.api import Cancelled, CancelSignal, Delivered, Delivery, Failed, Outcome, SinkContext, TimedOut, Trigger
from cronpad_python.settings import Settings
from cronpad_python.sink import PythonSink
from cronpad_testkit.suites import SinkCase, SinkSuite

MODULE = "targets"
HIDDEN = 'hush "hush"'


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield
    targets = sys.modules.pop(MODULE, None)
    if targets is not None:
        targets.RELEASED.set()


class TestFunctionOnTheLoop(SinkSuite):
    """All promises of a sink, for an ``async def``."""

    @pytest.fixture
    def sink_case(self) -> SinkCase:
        """Functions of the module of targets."""
        return SinkCase(
            type=PythonSink, succeeds={"call": "targets:whose"}, fails={"call": "targets:later"}, hangs={"call": "targets:hang"}
        )


class TestFunctionInAThread(SinkSuite):
    """All promises of a sink, for a plain ``def`` that looks at its cancel signal."""

    @pytest.fixture
    def sink_case(self) -> SinkCase:
        """Functions of the module of targets."""
        return SinkCase(
            type=PythonSink,
            succeeds={"call": "targets:add", "args": {"left": 1, "right": 2}},
            fails={"call": "targets:fail"},
            hangs={"call": "targets:heeds"},
        )


def deliver(call: str, *, timeout_ms: int = 60_000, stop: bool = False, **settings: object) -> Outcome:
    """One delivery by a sink of its own; ``stop`` asks it to end once it was begun."""

    async def scenario() -> Outcome:
        sink = PythonSink(SinkContext(settings={}, environ={}, secret=lambda _: HIDDEN))
        cancel = CancelSignal()
        delivery = Delivery(
            job_id="job_a",
            job_name="nightly",
            workspace="default",
            run_id="run_a",
            occurrence="job_a|0|0|1|s",
            trigger=Trigger.SCHEDULED,
            attempt=0,
            redelivery=0,
            slot_at_ms=0,
            scheduled_at_ms=0,
            timezone="UTC",
            fence="1",
            timeout_ms=timeout_ms,
            kill_grace_ms=50,
            deadline_boot_ms=timeout_ms,
            settings=Settings.model_validate({"call": f"targets:{call}", **settings}),
            cancel=cancel,
            still_ours=lambda: True,
        )
        task = asyncio.ensure_future(sink.deliver(delivery))
        if stop:
            await asyncio.sleep(0)
            cancel.ask("stop", "asked by a test")
        return await task

    return asyncio.run(scenario())


def test_the_value_is_kept():
    """What a function returns is a fact of the attempt."""
    assert deliver("add", args={"left": 1, "right": 2}) == Delivered(facts={"result": {"sum": 3}})


@pytest.mark.parametrize(("call", "result"), [("whose", "nightly"), ("annotated", "run_a")])
def test_the_delivery_is_given(call, result):
    """A parameter gets the delivery by its name or by its annotation."""
    assert deliver(call).facts == {"result": result}


@pytest.mark.parametrize(("call", "why"), [("odd", "no JSON: object"), ("large", "20002 bytes")])
def test_a_value_that_cannot_be_kept_is_dropped(call, why):
    """A value that is no JSON, or too large, leaves the run delivered and says why it is not kept."""
    outcome = deliver(call)
    assert isinstance(outcome, Delivered)
    assert str(outcome.facts["result_dropped"]).startswith(why)


def test_a_coroutine_that_a_plain_function_returns_is_run():
    """A decorator may hide that a function is asynchronous: what it returns is awaited, and fails as it fails."""
    assert deliver("hidden", args={"fails": False}) == Delivered(facts={"result": "done"})
    failed = deliver("hidden", args={"fails": True})
    assert isinstance(failed, Failed) and "later than it seemed" in failed.reason


def test_an_exception_is_a_failed_attempt():
    """The reason names type and message, and the output holds the traceback."""
    outcome = deliver("fail")
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.retryable) == ("ValueError: no luck", True)
    assert b"in fail" in outcome.output[0].tail


def test_a_function_says_when_to_retry():
    """RetryLater sets the time of the next attempt, DoNotRetry refuses one."""
    later, never = deliver("later"), deliver("never_again")
    assert isinstance(later, Failed) and isinstance(never, Failed)
    assert (later.retryable, later.retry_after_ms) == (True, 1_500)
    assert (never.retryable, never.reason) == (False, "DoNotRetry: gone for good")


@pytest.mark.parametrize("call", ["fail", "echo"])
def test_secrets_are_masked(call):
    """A secret among the arguments reaches the function, and neither reason, traceback nor result."""
    outcome = deliver(call, args={"text": "secret:env:HIDDEN"})
    assert "***" in repr(outcome)
    assert "hush" not in repr(outcome)


@pytest.mark.parametrize(
    ("call", "settings", "why"),
    [
        ("nowhere", {}, "is not there"),
        ("add", {"args": {"left": 1}}, "does not take the arguments"),
        ("add", {"in": "async"}, "plain def"),
        ("RELEASED", {}, "cannot be called"),
    ],
)
def test_what_cannot_be_called_is_not_tried_again(call, settings, why):
    """A function that is not there, or not as the job says, is known not to have been called."""
    outcome = deliver(call, **settings)
    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.undelivered) == (False, True)
    assert why in outcome.reason


@pytest.mark.parametrize("call", ["leave", "leave_the_loop"])
def test_a_function_cannot_end_the_runner(call):
    """sys.exit is a failed attempt, and the loop goes on."""
    outcome = deliver(call)
    assert isinstance(outcome, Failed)
    assert outcome.reason == "LeftError: the function raised SystemExit(3)"


def test_a_timeout_ends_a_coroutine():
    """A function on the loop is cancelled when its time is up."""
    assert deliver("hang", timeout_ms=50) == TimedOut(reason="timed out after 0.05 s")


def test_a_thread_is_abandoned():
    """A thread that is over its time is left behind, and the outcome says so."""
    outcome = deliver("block", timeout_ms=50)
    assert isinstance(outcome, TimedOut)
    assert outcome.facts == {"abandoned": True}
    assert "a thread cannot be killed" in outcome.reason


def test_a_stop_cancels():
    """A function that is told to stop is cancelled for the reason that was given."""
    assert deliver("hang", stop=True) == Cancelled(reason="asked by a test")


@pytest.mark.parametrize("call", ["no_colon", "a:", ":b", "a b:c", "class:x"])
def test_settings_refuse_a_path_that_names_no_function(call):
    """Whatever is no import path is refused without an import."""
    with pytest.raises(ValueError, match=r"package\.module:function"):
        Settings.model_validate({"call": call})
