"""The promises M1 to M3 of a misfire policy."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cronpad_core.api import JsonValue, Millis, MisfirePolicy, MisfireRule, MissedWindow, ReplayPlan
from cronpad_testkit.samples import T0
from cronpad_testkit.suites.suite import Suite

__all__ = ["MisfirePolicySuite"]

_TWO_WEEKS = 14 * 86_400


@dataclass(slots=True)
class _Questions:
    """A schedule that counts what it is asked; ``slots`` may be a list or a ``range`` of a million."""

    slots: Sequence[Millis]
    asked: int = field(default=0)

    def next_after(self, instant_ms: Millis) -> Millis | None:
        self.asked += 1
        index = bisect_right(self.slots, instant_ms)
        return self.slots[index] if index < len(self.slots) else None

    def count_between(self, after_ms: Millis, until_ms: Millis) -> int:
        self.asked += 1
        return max(0, bisect_right(self.slots, until_ms) - bisect_right(self.slots, after_ms))

    def window(self, rule: MisfireRule, *, last: int, earliest: int | None) -> MissedWindow:
        """The first ``last`` + 1 slots are overdue; those from ``earliest`` on are within the job's window."""
        return MissedWindow(
            job_id="job_a",
            first_ms=self.slots[0],
            newest_ms=self.slots[last],
            earliest_ms=None if earliest is None else self.slots[earliest],
            now_ms=self.slots[last] + 90_000,
            rule=rule,
            next_after=self.next_after,
            count_between=self.count_between,
        )


class MisfirePolicySuite(Suite):
    """Adopt with the fixture ``policy_type``; ``policy_settings`` are the policy's own keys of a job's ``misfire`` table.

    ``questions`` is how often the policy may ask the schedule about one window, however many slots it has.
    """

    policy_settings: ClassVar[Mapping[str, JsonValue]] = {}
    questions: ClassVar[int] = 2_000

    @pytest.fixture
    def policy_type(self) -> type[MisfirePolicy]:
        """To be overridden: the class of the policy."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture named policy_type")

    def _rule(self, policy_type: Any) -> MisfireRule:
        return MisfireRule(policy=policy_type.name, settings=self.policy_settings)

    def test_the_type_says_what_it_is(self, policy_type: Any) -> None:
        """The class has a name, the API number 1 and a settings model that refuses keys it does not know."""
        assert isinstance(policy_type.name, str)
        assert policy_type.name
        assert policy_type.api == 1
        policy_type.Settings.model_validate(dict(self.policy_settings))
        with pytest.raises(ValueError, match="no_such_key"):
            policy_type.Settings.model_validate({**self.policy_settings, "no_such_key": 1})

    def test_m1_the_same_window_gives_the_same_plan(self, policy_type: Any) -> None:
        """M1: one object or another, asked once or again, in any order of windows."""
        rule = self._rule(policy_type)
        windows = [
            _Questions(range(T0, T0 + 60_000 * 500, 60_000)).window(rule, last=last, earliest=earliest)
            for last, earliest in ((0, 0), (0, None), (499, 0), (499, 250), (499, None), (3, 3))
        ]
        one = policy_type()
        plans: list[ReplayPlan] = [one.decide(window) for window in windows]
        assert [one.decide(window) for window in reversed(windows)] == plans[::-1]
        assert [policy_type().decide(window) for window in windows] == plans

    def test_m2_what_is_chosen_are_slots_of_the_window(self, policy_type: Any) -> None:
        """M2: first and last chosen are slots of the window, in order, none older than ``earliest_ms``; or none is chosen."""
        rule = self._rule(policy_type)

        @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(st.integers(1, 10**9), min_size=1, max_size=60), st.data())
        def check(gaps: list[int], data: st.DataObject) -> None:
            slots = [T0]
            for gap in gaps:
                slots.append(slots[-1] + gap)
            last = data.draw(st.integers(0, len(slots) - 1))
            earliest = data.draw(st.none() | st.integers(0, last))
            window = _Questions(slots).window(rule, last=last, earliest=earliest)
            _check_plan(policy_type().decide(window), window, slots)

        check()

    def test_m3_two_weeks_of_seconds_are_decided_by_few_questions(self, policy_type: Any) -> None:
        """M3: 1.2 million overdue slots take at most ``questions`` questions to the schedule, and M2 holds."""
        slots = range(T0, T0 + 1_000 * _TWO_WEEKS, 1_000)
        for earliest in (0, 1, _TWO_WEEKS // 2, _TWO_WEEKS - 1, None):
            schedule = _Questions(slots)
            window = schedule.window(self._rule(policy_type), last=_TWO_WEEKS - 1, earliest=earliest)
            plan = policy_type().decide(window)
            assert schedule.asked <= self.questions
            _check_plan(plan, window, slots)


def _check_plan(plan: ReplayPlan, window: MissedWindow, slots: Sequence[Millis]) -> None:
    first_ms, until_ms = plan.first_ms, plan.until_ms
    if first_ms is None or until_ms is None:
        assert (first_ms, until_ms) == (None, None)
        return
    assert window.earliest_ms is not None, "every slot is older than the window"
    assert window.earliest_ms <= first_ms <= until_ms <= window.newest_ms
    for chosen in (first_ms, until_ms):
        assert slots[bisect_left(slots, chosen)] == chosen, f"{chosen} is no slot"
