"""The core's misfire policies: which overdue slots run, found without walking the window."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from pydantic import ValidationError

from cronpad_core.api import DAY, MINUTE, SECOND, JsonValue, MisfirePolicy, MisfireRule, MissedWindow, ReplayPlan, parse_schedule
from cronpad_core.builtin.misfire import All, Earliest, Latest, Skip

NOW = 1_800_000_000_000 + 500
NONE = ReplayPlan()


class Counted:
    """Counts the questions to a schedule."""

    def __init__(self, text: str | list[str]) -> None:
        self.schedule = parse_schedule(text)
        self.questions = 0

    def next_after(self, instant_ms: int) -> int | None:
        self.questions += 1
        return self.schedule.next_after_ms(instant_ms)

    def count_between(self, after_ms: int, until_ms: int) -> int:
        self.questions += 1
        return self.schedule.count_between_ms(after_ms, until_ms)


def window_of(counted: Counted, length: int, *, within: int | None = None, **settings: JsonValue) -> MissedWindow:
    """The slots of the last ``length`` before now; only the last ``within`` of it is not too old."""
    first = counted.schedule.next_after_ms(NOW - length)
    newest = counted.schedule.prev_at_or_before_ms(NOW)
    assert first is not None
    assert newest is not None
    earliest: int | None = first
    if within is not None:
        earliest = counted.schedule.next_after_ms(NOW - within)
        earliest = earliest if earliest is not None and earliest <= newest else None
    rule = MisfireRule(policy="any", settings=settings)
    return MissedWindow(
        job_id="j", first_ms=first, newest_ms=newest, earliest_ms=earliest, now_ms=NOW, rule=rule,
        next_after=counted.next_after, count_between=counted.count_between,
    )  # fmt: skip


LENGTHS = {"a minute": MINUTE, "a day": DAY, "two weeks": 14 * DAY}


@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("policy", [Latest(), Earliest(), Skip(), All()], ids=lambda one: one.name)
def test_a_job_each_second_costs_few_questions(policy: MisfirePolicy, length: int) -> None:
    """At two weeks, 1.2 million slots are overdue."""
    counted = Counted("* * * * * *")
    window = window_of(counted, length)
    plan = policy.decide(window)
    assert counted.questions <= 80
    expected = {
        "latest": ReplayPlan(first_ms=window.newest_ms, until_ms=window.newest_ms),
        "earliest": ReplayPlan(first_ms=window.first_ms, until_ms=window.first_ms),
        "skip": NONE,
        "all": ReplayPlan(first_ms=max(window.first_ms, window.newest_ms - 999 * SECOND), until_ms=window.newest_ms),
    }
    assert plan == expected[type(policy).name]  # type: ignore[attr-defined]  # every policy class has a name
    assert policy.decide(window) == plan


TEXTS: Mapping[str, str | list[str]] = {
    "each second": "* * * * * *",
    "each minute": "* * * * *",
    "odd": "13,17,59 */7 3,9-11 * * 1,3",
    "daily": "0 3 * * *",
    "interval": "every 97s",
    "union": ["*/5 * * * *", "0 0 * * *", "every 97s"],
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("most", [1, 2, 7, 1000])
@pytest.mark.parametrize("within", [MINUTE, 3_600_000, DAY, 14 * DAY])
def test_all_takes_the_newest_max_slots_within_the_window(text: str | list[str], most: int, within: int) -> None:
    """The plan holds exactly as many slots as there are, or ``max``; it begins and ends on slots, none too old."""
    counted = Counted(text)
    window = window_of(counted, 14 * DAY, within=within, max=most)
    plan = All().decide(window)
    if window.earliest_ms is None:
        assert plan == NONE
        return
    assert plan.first_ms is not None
    assert plan.until_ms == window.newest_ms
    assert plan.first_ms >= window.earliest_ms
    assert counted.schedule.prev_at_or_before_ms(plan.first_ms) == plan.first_ms
    there = counted.schedule.count_between_ms(window.earliest_ms - 1, window.newest_ms)
    assert counted.schedule.count_between_ms(plan.first_ms - 1, window.newest_ms) == min(most, there)


@pytest.mark.parametrize("policy", [Latest(), Earliest(), All()], ids=lambda one: one.name)
def test_nothing_runs_where_every_slot_is_too_old(policy: MisfirePolicy) -> None:
    """A daily job that was missed twenty hours ago, with a window of one hour."""
    counted = Counted("0 3 * * *")
    window = window_of(counted, 3 * DAY, within=MINUTE)
    assert window.earliest_ms is None
    assert policy.decide(window) == NONE
    assert counted.questions == 0


def test_all_refuses_settings_that_are_none_of_its_own() -> None:
    """It raises, so that the engine says so and decides like ``latest``."""
    for settings in ({"max": 0}, {"max": "many"}, {"most": 3}):
        with pytest.raises(ValidationError):
            All().decide(window_of(Counted("* * * * *"), DAY, **settings))


@pytest.mark.parametrize("make", [Latest, Earliest, Skip, All])
def test_each_states_what_a_plugin_states(make: Callable[[], object]) -> None:
    """Name, API number and settings, as a stranger's policy."""
    assert make.api == 1  # type: ignore[attr-defined]  # what the test is about
    assert make.Settings.model_json_schema()  # type: ignore[attr-defined]  # as above
