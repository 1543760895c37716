"""``today`` keeps the contract of a misfire policy, and knows when a day begins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

import pytest
from pydantic import ValidationError

from cronpad_core.api import DAY, JsonValue, MisfirePolicy, MisfireRule, MissedWindow, ReplayPlan, from_ms, parse_schedule, to_ms
from cronpad_testkit.suites import MisfirePolicySuite
from cronpad_today.policy import NOTHING, Today
from cronpad_today.settings import TodaySettings


class TestToday(MisfirePolicySuite):
    """All promises of a misfire policy."""

    policy_settings: ClassVar[Mapping[str, JsonValue]] = {"begins": "06:00", "timezone": "Europe/Berlin", "max": 20}
    questions = 2

    @pytest.fixture
    def policy_type(self) -> type[MisfirePolicy]:
        """The class that the hook registers."""
        return Today


def missed(schedule: str, first: str, now: str, *, window_ms: int = DAY, **settings: JsonValue) -> MissedWindow:
    """The window of a job that has not run since ``first``, as cronpad would show it at ``now``."""
    timeline = parse_schedule(schedule)
    first_ms, now_ms = (to_ms(datetime.fromisoformat(text)) for text in (first, now))
    newest_ms = timeline.prev_at_or_before_ms(now_ms)
    oldest_ms = timeline.next_after_ms(now_ms - window_ms - 1)
    assert newest_ms is not None
    assert oldest_ms is not None
    return MissedWindow(
        job_id="job_a",
        first_ms=first_ms,
        newest_ms=newest_ms,
        earliest_ms=max(oldest_ms, first_ms) if oldest_ms <= newest_ms else None,
        now_ms=now_ms,
        rule=MisfireRule(policy="today", window_ms=window_ms, settings=settings),
        next_after=timeline.next_after_ms,
        count_between=timeline.count_between_ms,
    )


def span(plan: ReplayPlan) -> tuple[str, str]:
    """The first and the last slot that run, in UTC."""
    assert plan.first_ms is not None
    assert plan.until_ms is not None
    return f"{from_ms(plan.first_ms):%d %H:%M}", f"{from_ms(plan.until_ms):%d %H:%M}"


def test_yesterday_is_left_alone() -> None:
    """What was missed since the day began runs, nothing older, though the job's window reaches further back."""
    window = missed("0 * * * *", "2026-03-09T20:00Z", "2026-03-10T09:30Z")
    assert span(Today().decide(window)) == ("10 00:00", "10 09:00")


def test_a_day_begins_when_the_settings_say() -> None:
    """``begins`` is read in ``timezone``; the slot at that very instant is one of the day."""
    window = missed("0 * * * *", "2026-03-09T20:00Z", "2026-03-10T09:30Z", begins="06:00", timezone="Europe/Berlin")
    assert span(Today().decide(window)) == ("10 05:00", "10 09:00")


def test_before_it_begins_it_is_still_the_day_before() -> None:
    """At night, with a day that begins in the morning, the slots since yesterday's morning run."""
    window = missed("0 * * * *", "2026-03-09T03:00Z", "2026-03-10T02:30Z", begins="06:00")
    assert span(Today().decide(window)) == ("09 06:00", "10 02:00")


@pytest.mark.parametrize(
    ("now", "first"),
    [("2026-03-29T05:30Z", "28 23:00"), ("2026-10-25T05:30Z", "24 22:00")],
)
def test_a_day_begins_at_midnight_when_clocks_are_changed(now: str, first: str) -> None:
    """Local midnight is found by the offset that held at midnight, not by the one that holds now."""
    window = missed("0 * * * *", now[:8] + "23T00:00Z", now, timezone="Europe/Berlin")
    assert span(Today().decide(window)) == (first, f"{now[8:10]} 05:00")


def test_yesterdays_beginning_is_found_over_a_change_of_clocks() -> None:
    """The day before begins at the same time by the clock on the wall, 23 hours earlier in spring."""
    window = missed("0 * * * *", "2026-03-27T00:00Z", "2026-03-30T03:30Z", begins="06:00", timezone="Europe/Berlin")
    assert span(Today().decide(window)) == ("29 04:00", "30 03:00")


def test_nothing_runs_that_was_due_yesterday() -> None:
    """If nothing was missed today, nothing runs."""
    assert Today().decide(missed("0 22 * * *", "2026-03-09T22:00Z", "2026-03-10T00:30Z")) == NOTHING


def test_the_window_of_the_job_still_counts() -> None:
    """Slots of today that are older than the job's window do not run."""
    window = missed("0 * * * *", "2026-03-09T20:00Z", "2026-03-10T09:30Z", window_ms=DAY // 8)
    assert span(Today().decide(window)) == ("10 07:00", "10 09:00")


@pytest.mark.parametrize(("most", "first"), [(10, "10 00:00"), (9, "10 09:00")])
def test_of_too_many_only_the_newest_runs(most: int, first: str) -> None:
    """``max`` slots all run; one more, and it is one run for all of them."""
    window = missed("0 * * * *", "2026-03-09T20:00Z", "2026-03-10T09:30Z", max=most)
    assert span(Today().decide(window)) == (first, "10 09:00")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("begins", "6 am", 'write it like "06:00"'),
        ("begins", "24:00", 'write it like "06:00"'),
        ("begins", "06:00+02:00", 'write it like "06:00"'),
        ("timezone", "Mars/Olympus", 'no time zone is named "Mars/Olympus"'),
        ("timezone", "Europe", 'no time zone is named "Europe"'),
        ("timezone", "", 'no time zone is named ""'),
        ("max", 0, "greater than or equal to 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(key: str, value: JsonValue, says: str) -> None:
    """Each is refused when the jobs file is read, with a sentence that says how to write it."""
    with pytest.raises(ValidationError, match=re.escape(says)):
        TodaySettings.model_validate({key: value})
