"""The promises K1 to K3 of a sink, on real time."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import pytest

from cronpad_core.api import (
    Cancelled,
    CancelSignal,
    Delivered,
    Delivery,
    Failed,
    JsonValue,
    Outcome,
    Report,
    SinkContext,
    TimedOut,
    Trigger,
    Unknown,
    run_id_for,
)
from cronpad_testkit.samples import T0, key
from cronpad_testkit.suites.suite import Suite

__all__ = ["SinkCase", "SinkSuite"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCase:
    """A sink's class with settings of a job that succeeds, of one that fails, and of one that goes on for minutes.

    ``None`` says that the sink has no such job, and skips what needs one. ``plugin`` are the host-wide settings.
    """

    type: Any
    succeeds: Mapping[str, JsonValue] | None
    fails: Mapping[str, JsonValue] | None
    hangs: Mapping[str, JsonValue] | None
    plugin: Mapping[str, JsonValue] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class SinkSuite(Suite):
    """Adopt with the fixture ``sink_case``.

    ``stop_within_s`` is how soon a delivery that hangs must have ended after it was asked to; ``kill_grace_ms`` what it is told.
    """

    stop_within_s: ClassVar[float] = 5.0
    kill_grace_ms: ClassVar[int] = 1_000

    @pytest.fixture
    def sink_case(self) -> SinkCase:
        """To be overridden: the sink with settings to try it on."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture named sink_case")

    def test_the_type_says_what_it_is(self, sink_case: SinkCase) -> None:
        """The class has a name, the API number 1, a settings model, a set of capability words and the verb."""
        kind = sink_case.type
        assert isinstance(kind.name, str)
        assert kind.name
        assert kind.api == 1
        assert callable(kind.deliver)
        assert isinstance(kind.capabilities, frozenset)
        assert all(isinstance(word, str) for word in kind.capabilities)
        assert kind.Settings.model_json_schema()["type"] == "object"

    def test_settings_refuse_what_they_do_not_know(self, sink_case: SinkCase) -> None:
        """An unknown key is an error that names it, not something that is silently ignored."""
        known = _known(sink_case)
        sink_case.type.Settings.model_validate(dict(known))
        with pytest.raises(ValueError, match="no_such_key"):
            sink_case.type.Settings.model_validate({**known, "no_such_key": 1})

    def test_k1_work_that_is_done_is_delivered(self, sink_case: SinkCase) -> None:
        """K1: success is ``Delivered``."""
        outcome = _run(self._deliver(sink_case, _wanted(sink_case.succeeds)))
        assert isinstance(outcome, Delivered), outcome

    def test_k1_work_that_fails_is_an_answer(self, sink_case: SinkCase) -> None:
        """K1: failure is ``Failed`` with a short reason on one line, not an exception."""
        outcome = _run(self._deliver(sink_case, _wanted(sink_case.fails)))
        assert isinstance(outcome, Failed), outcome
        assert outcome.reason
        assert "\n" not in outcome.reason

    @pytest.mark.parametrize("stages", [["stop"], ["kill"], ["stop", "kill"]], ids="-".join)
    def test_k2_a_delivery_ends_when_it_is_asked_to(self, sink_case: SinkCase, stages: list[str]) -> None:
        """K2: asked to stop, killed, or both, a delivery that hangs answers in time, and nothing of it goes on."""
        outcome = _run(self._stop(sink_case, _wanted(sink_case.hangs), stages))
        assert isinstance(outcome, Cancelled | Failed | TimedOut | Unknown), outcome

    def test_k2_a_delivery_that_is_asked_before_it_began_ends(self, sink_case: SinkCase) -> None:
        """K2: a cancel that was asked for before the call is honoured as one that comes later."""
        outcome = _run(self._stop(sink_case, _wanted(sink_case.hangs), ["stop"], early=True))
        assert isinstance(outcome, Cancelled | Failed | TimedOut | Unknown), outcome

    def test_k2_nothing_is_left_behind(self, sink_case: SinkCase) -> None:
        """K2: twenty deliveries, failing ones among them, leave no task and no open descriptor behind."""
        jobs = [wanted for wanted in (sink_case.succeeds, sink_case.fails) if wanted is not None]

        async def scenario() -> None:
            sink = _build(sink_case)
            await self._call(sink, sink_case, jobs[0])
            descriptors = _descriptors()
            for number in range(20):
                await self._call(sink, sink_case, jobs[number % len(jobs)])
            assert _descriptors() <= descriptors + 2
            await _close(sink)

        _run(scenario())

    def test_one_object_takes_many_deliveries_at_once(self, sink_case: SinkCase) -> None:
        """One sink serves every job: ten deliveries at once each get their own answer."""
        wanted = _wanted(sink_case.succeeds)

        async def scenario() -> list[Outcome]:
            sink = _build(sink_case)
            outcomes = await asyncio.gather(*(self._call(sink, sink_case, wanted) for _ in range(10)))
            await _close(sink)
            return outcomes

        assert [type(outcome) for outcome in _run(scenario())] == [Delivered] * 10

    def test_k3_the_same_attempt_may_come_again(self, sink_case: SinkCase) -> None:
        """K3: a delivery that is repeated under the same idempotency key is answered again."""
        wanted = _wanted(sink_case.succeeds)

        async def scenario() -> list[Outcome]:
            sink = _build(sink_case)
            outcomes = [await self._call(sink, sink_case, wanted, redelivery=number) for number in range(2)]
            await _close(sink)
            return outcomes

        assert all(isinstance(outcome, Report) for outcome in _run(scenario()))

    async def _deliver(self, case: SinkCase, wanted: Mapping[str, JsonValue]) -> Outcome:
        sink = _build(case)
        outcome = await self._call(sink, case, wanted)
        await _close(sink)
        return outcome

    async def _stop(self, case: SinkCase, wanted: Mapping[str, JsonValue], stages: list[str], *, early: bool = False) -> Outcome:
        sink, cancel = _build(case), CancelSignal()
        if early:
            cancel.ask(stages[0], "a test wants it to end")
        task = asyncio.create_task(self._call(sink, case, wanted, cancel=cancel))
        if not early:
            done, _ = await asyncio.wait([task], timeout=0.3)
            assert not done, f"this delivery should go on: {task.result()!r}"
            for stage in stages:
                cancel.ask(stage, "a test wants it to end")
                await asyncio.sleep(0)
        try:
            outcome = await asyncio.wait_for(task, self.stop_within_s)
        except TimeoutError:
            pytest.fail(f"still going on {self.stop_within_s} s after it was asked to {stages}")
        await _close(sink)
        return outcome

    async def _call(
        self,
        sink: Any,
        case: SinkCase,
        wanted: Mapping[str, JsonValue],
        *,
        cancel: CancelSignal | None = None,
        redelivery: int = 0,
    ) -> Outcome:
        boot_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
        delivery = Delivery(
            job_id="job_a",
            job_name="nightly",
            workspace="default",
            run_id=run_id_for(key()),
            occurrence="job_a|1767225600000|0|1|s",
            trigger=Trigger.SCHEDULED,
            attempt=0,
            redelivery=redelivery,
            slot_at_ms=T0,
            scheduled_at_ms=T0,
            timezone="UTC",
            fence="4294967297",
            timeout_ms=60_000,
            kill_grace_ms=self.kill_grace_ms,
            deadline_boot_ms=boot_ms + 60_000,
            settings=case.type.Settings.model_validate(dict(wanted)),
            cancel=cancel or CancelSignal(),
            still_ours=lambda: True,
        )
        if inspect.iscoroutinefunction(sink.deliver):
            outcome = await sink.deliver(delivery)
        else:
            outcome = await asyncio.to_thread(sink.deliver, delivery)
        assert isinstance(outcome, Delivered | Failed | TimedOut | Cancelled | Unknown), f"no outcome: {outcome!r}"
        return outcome


def _wanted(settings: Mapping[str, JsonValue] | None) -> Mapping[str, JsonValue]:
    if settings is None:
        pytest.skip("the sink has no such job")
    return settings


def _known(case: SinkCase) -> Mapping[str, JsonValue]:
    return next(settings for settings in (case.succeeds, case.fails, case.hangs) if settings is not None)


def _build(case: SinkCase) -> Any:
    def no_secret(name: str) -> str:
        raise KeyError(name)

    return case.type(SinkContext(settings=case.plugin, environ=case.environ, secret=no_secret))


async def _close(sink: Any) -> None:
    closing = sink.close()
    if inspect.isawaitable(closing):
        await closing


def _run(call: Coroutine[Any, Any, _T]) -> _T:
    """Runs a scenario and refuses tasks that it leaves behind."""

    async def watched() -> _T:
        answer = await call
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"left running: {left}"
        return answer

    return asyncio.run(watched())


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
