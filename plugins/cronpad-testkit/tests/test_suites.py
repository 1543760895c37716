"""The suites catch policies and sinks that break a promise, and tests that are left out."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from cronpad_core.api import Cancelled, Delivered, Delivery, Failed, MissedWindow, Outcome, ReplayPlan
from cronpad_testkit.suites import MisfirePolicySuite, NewState, QueueStoreSuite, SinkCase, SinkSuite


class _TooOld:
    name, api = "too_old", 1

    def decide(self, window: MissedWindow) -> ReplayPlan:
        return ReplayPlan(first_ms=window.first_ms, until_ms=window.newest_ms)


class _Walks:
    name, api = "walks", 1

    def decide(self, window: MissedWindow) -> ReplayPlan:
        slot = window.earliest_ms
        for _ in range(5_000):
            slot = None if slot is None else window.next_after(slot)
        return ReplayPlan()


class _Moody:
    name, api = "moody", 1
    answers = itertools.cycle([True, False])

    def decide(self, window: MissedWindow) -> ReplayPlan:
        if window.earliest_ms is None or next(self.answers):
            return ReplayPlan()
        return ReplayPlan(first_ms=window.newest_ms, until_ms=window.newest_ms)


def test_a_broken_policy_fails() -> None:
    """Policies that choose what is too old, walk the window, or change their mind fail M2, M3 and M1."""

    class Policies(MisfirePolicySuite):
        pass

    with pytest.raises((AssertionError, ExceptionGroup)):
        Policies().test_m2_what_is_chosen_are_slots_of_the_window(_TooOld)
    with pytest.raises(AssertionError):
        Policies().test_m3_two_weeks_of_seconds_are_decided_by_few_questions(_Walks)
    with pytest.raises(AssertionError):
        Policies().test_m1_the_same_window_gives_the_same_plan(_Moody)


def test_leaving_a_promise_out_is_noticed() -> None:
    """Removed, replaced and skipped tests fail the guard; an xfail with a reason does not; unknown capabilities do."""

    class Removed(QueueStoreSuite):
        test_q1_put_twice_moves_and_never_duplicates = None  # type: ignore[assignment]  # this is what is refused

    class Replaced(QueueStoreSuite):
        def test_q1_put_twice_moves_and_never_duplicates(self, new_state: NewState) -> None:
            pass

    class Skipped(QueueStoreSuite):
        @pytest.mark.skip(reason="no time")
        def test_q1_put_twice_moves_and_never_duplicates(self, new_state: NewState) -> None:
            pass

    class NoReason(QueueStoreSuite):
        @pytest.mark.xfail
        def test_q1_put_twice_moves_and_never_duplicates(self, new_state: NewState) -> None:
            pass

    class Unknown(QueueStoreSuite):
        capabilities = frozenset({"shard"})

    for refused in (Removed, Replaced, Skipped, NoReason, Unknown):
        with pytest.raises(AssertionError):
            refused().test_no_promise_is_left_out_silently()

    class Excused(QueueStoreSuite):
        @pytest.mark.xfail(reason="issue 12")
        def test_q1_put_twice_moves_and_never_duplicates(self, new_state: NewState) -> None:
            super().test_q1_put_twice_moves_and_never_duplicates(new_state)

    Excused().test_no_promise_is_left_out_silently()
    with pytest.raises(TypeError, match="watches over"):

        class Blind(QueueStoreSuite):
            def test_no_promise_is_left_out_silently(self) -> None:
                pass


class _Settings:
    """Stands in for a pydantic model: ``mode`` alone is known."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    @classmethod
    def model_validate(cls, values: dict[str, Any]) -> _Settings:
        for key in values:
            if key != "mode":
                raise ValueError(f"unknown key {key}")
        return cls(values["mode"])

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "object"}


class _Good:
    name, api, capabilities, Settings = "good", 1, frozenset({"cancel"}), _Settings

    def __init__(self, context: object) -> None:
        self.closed = False

    async def deliver(self, delivery: Delivery) -> Outcome:
        mode = delivery.settings.mode  # type: ignore[attr-defined]  # a test's settings
        if mode == "hang":
            await delivery.cancel.wait()
            return Cancelled(reason="asked to")
        return Delivered() if mode == "ok" else Failed(reason="exit 1")

    async def close(self) -> None:
        self.closed = True


class _Raises(_Good):
    async def deliver(self, delivery: Delivery) -> Outcome:
        raise OSError("no route to host")


class _Deaf(_Good):
    async def deliver(self, delivery: Delivery) -> Outcome:
        await asyncio.sleep(3_600)
        return Delivered()


class _Litters(_Good):
    tasks: list[asyncio.Task[None]] = []  # noqa: RUF012  # shared on purpose

    async def deliver(self, delivery: Delivery) -> Outcome:
        self.tasks.append(asyncio.create_task(asyncio.sleep(3_600)))
        return Delivered()


class TestGoodSink(SinkSuite):
    """The suite passes for a sink that does as it should."""

    @pytest.fixture
    def sink_case(self) -> SinkCase:
        """A sink without any work."""
        return _case(_Good)


def _case(kind: type[_Good]) -> SinkCase:
    return SinkCase(type=kind, succeeds={"mode": "ok"}, fails={"mode": "bad"}, hangs={"mode": "hang"})


def test_a_broken_sink_fails() -> None:
    """Sinks that raise, do not hear, or leave tasks behind fail K1 and K2."""

    class Sinks(SinkSuite):
        stop_within_s = 0.2

    with pytest.raises(OSError, match="no route"):
        Sinks().test_k1_work_that_fails_is_an_answer(_case(_Raises))
    with pytest.raises(pytest.fail.Exception, match="still going on"):
        Sinks().test_k2_a_delivery_ends_when_it_is_asked_to(_case(_Deaf), ["stop", "kill"])
    with pytest.raises(AssertionError, match="left running"):
        Sinks().test_k2_nothing_is_left_behind(_case(_Litters))
