"""A catch-up asks its schedule a bounded number of questions, and ends where its schedule ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronpad_core.api import (
    DAY,
    MINUTE,
    SECOND,
    Job,
    JobSpec,
    JobStatus,
    MisfireRule,
    Replay,
    ScheduleSpec,
    SinkSpec,
    parse_schedule,
)
from cronpad_core.builtin.misfire import All, Earliest, Latest, Skip
from cronpad_core.engine.advancer import next_step
from cronpad_core.engine.catchup import missed_window, sound

NOW = 1_767_225_600_000 + 14 * DAY
POLICIES = {"latest": Latest(), "earliest": Earliest(), "all": All(), "skip": Skip()}


class Counted:
    """A schedule that counts what it is asked."""

    def __init__(self, text: str) -> None:
        self.inner, self.asked = parse_schedule(text), 0

    def next_after_ms(self, instant_ms: int) -> int | None:
        """Counted."""
        self.asked += 1
        return self.inner.next_after_ms(instant_ms)

    def prev_at_or_before_ms(self, instant_ms: int) -> int | None:
        """Counted."""
        self.asked += 1
        return self.inner.prev_at_or_before_ms(instant_ms)

    def count_between_ms(self, after_ms: int, until_ms: int) -> int:
        """Counted."""
        self.asked += 1
        return self.inner.count_between_ms(after_ms, until_ms)


def job(next_ms: int, text: str, *, window_ms: int = DAY, most: int = 1_000, replay: Replay | None = None) -> Job:
    """A job that is due since ``next_ms``."""
    spec = JobSpec(
        name="a",
        schedule=ScheduleSpec(texts=(text,)),
        sink=SinkSpec(type="none"),
        misfire=MisfireRule(window_ms=window_ms, settings={"max": most}),
    )
    return Job(
        id="job_a",
        origin="test",
        version=1,
        status=JobStatus.ACTIVE,
        spec=spec,
        next_run_at_ms=next_ms,
        valid_from_ms=0,
        replay=replay,
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("span", [MINUTE, DAY, 14 * DAY])
@pytest.mark.parametrize("text", ["* * * * * *", "every 1s"])
def test_the_number_of_questions_does_not_follow_the_number_of_slots(policy: str, span: int, text: str) -> None:
    """A minute, a day and two weeks of a job each second are decided with at most eighty questions."""
    schedule = Counted(text)
    window = missed_window(job(NOW - span, text), NOW - span, NOW + 500, schedule)  # type: ignore[arg-type]  # a stand-in
    POLICIES[policy].decide(window)
    assert schedule.asked <= 80


@given(
    st.sampled_from(["* * * * * *", "*/7 * * * *", "every 11s", "0 3 * * *"]),
    st.integers(0, 3 * DAY),
    st.integers(0, 10**6),
    st.sampled_from(sorted(POLICIES)),
    st.integers(SECOND, 2 * DAY),
    st.integers(1, 50),
)
def test_every_plan_is_sound_and_every_slot_is_chosen_or_missed(
    text: str, span: int, late: int, policy: str, window_ms: int, most: int
) -> None:
    """Whatever is overdue: the plan of a built-in policy chooses slots of the window alone, no more than ``max`` of them."""
    schedule = parse_schedule(text)
    first = schedule.next_after_ms(NOW - span)
    assert first is not None
    waiting = job(first, text, window_ms=window_ms, most=most)
    window = missed_window(waiting, first, first + late, schedule)
    assert first <= window.newest_ms <= first + late
    plan = POLICIES[policy].decide(window)
    assert sound(plan, window)
    if plan.first_ms is not None and plan.until_ms is not None:
        chosen = window.count_between(plan.first_ms - 1, plan.until_ms)
        assert 1 <= chosen <= (most if policy == "all" else 1)


def test_a_catch_up_of_a_schedule_that_has_ended_ends_the_job() -> None:
    """Past the chosen slots a job goes to the slot behind the window; where there is none, it is completed, and does not walk
    through what was missed."""
    text = "0 * * * * * 2026"
    schedule = parse_schedule(text)
    newest = schedule.prev_at_or_before_ms(NOW + 400 * DAY)
    assert newest is not None and schedule.next_after_ms(newest) is None
    chosen = schedule.prev_at_or_before_ms(newest - DAY)
    assert chosen is not None
    ended = job(chosen, text, replay=Replay(until_ms=chosen, then_ms=None))
    assert next_step(ended, chosen, schedule) == (None, None)
    walking = replace(ended, replay=Replay(until_ms=newest, then_ms=None))
    assert next_step(walking, chosen, schedule) == (chosen + MINUTE, walking.replay)
