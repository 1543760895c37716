"""Planning, starting and cancelling backfills."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from office import T0, Office, declared

from cronpad_core.control.backfills import (
    MOST_SLOTS,
    BackfillPlan,
    cancel_backfill,
    find_backfill,
    list_backfills,
    plan_backfill,
    start_backfill,
)
from cronpad_core.domain.backfill import BackfillStatus
from cronpad_core.domain.errors import ConfigurationError, CronpadError, NotFoundError, TermRefusedError
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.timing import DAY

S = 1_000
EACH_10S = "*/10 * * * * *"


def planned(office: Office, from_ms: int, to_ms: int) -> BackfillPlan:
    """A plan over the job ``a``."""
    return plan_backfill(office.job(), from_ms, to_ms, schedules=office.schedules, now_ms=office.now)


def test_a_plan_counts_slots_with_both_ends_and_writes_nothing(office: Office) -> None:
    """A slot at either end of the range is in it; slots before the job was stored count as well."""
    office.apply(declared(text=EACH_10S))
    plan = planned(office, T0 - 60 * S, T0)
    assert (plan.slots, plan.first_ms, plan.last_ms) == (7, T0 - 60 * S, T0)
    inner = planned(office, T0 - 60 * S + 1, T0 - 1)
    assert (inner.slots, inner.first_ms, inner.last_ms) == (5, T0 - 50 * S, T0 - 10 * S)
    empty = planned(office, T0 - 9 * S, T0 - S)
    assert (empty.slots, empty.first_ms, empty.last_ms) == (0, None, None)
    assert office.run(office.history.backfills()) == []


def test_an_interval_has_no_slots_before_its_job_was_stored(office: Office) -> None:
    """It counts from then on, that instant included, so there is nothing to fill in before."""
    office.apply(declared(text="every 10s"))
    office.now = T0 + 25 * S
    plan = planned(office, T0 - 60 * S, T0 + 25 * S)
    assert (plan.slots, plan.first_ms, plan.last_ms) == (3, T0, T0 + 20 * S)


def test_ranges_that_make_no_sense_are_refused(office: Office) -> None:
    """Backwards, or into what has not come yet; and nothing of a removed job."""
    office.apply(declared(text=EACH_10S))
    with pytest.raises(ConfigurationError, match="back to"):
        planned(office, T0, T0 - 1)
    with pytest.raises(ConfigurationError, match="not come yet"):
        planned(office, T0 - S, T0 + 1)
    office.apply()
    with pytest.raises(NotFoundError, match="was removed"):
        planned(office, T0 - S, T0)


def test_a_started_backfill_stands_at_its_first_slot(office: Office) -> None:
    """It is kept under the job's version with its options, the feeder is woken, and no run is there yet."""
    office.apply(declared(text=EACH_10S))
    rule = OverlapRule(policy=OverlapPolicy.ALLOW, max=2)
    started = office.run(start_backfill(office.desk, planned(office, T0 - 55 * S, T0), overlap=rule))
    [stored] = office.run(office.history.backfills())
    assert started.created and stored == started.backfill
    assert (stored.from_ms, stored.to_ms, stored.cursor_ms, stored.job_version) == (T0 - 55 * S, T0, T0 - 50 * S, 1)
    assert (stored.status, stored.overlap, stored.started, stored.passed) == (BackfillStatus.OPEN, rule, 0, 0)
    assert stored.id.startswith("bf_") and len(stored.id) == 29
    assert office.runs() == [] and office.woken == [T0]


def test_the_same_backfill_asked_for_twice_is_one_until_it_has_ended(office: Office) -> None:
    """Another range, another rule, or the same after its end are backfills of their own."""
    office.apply(declared(text=EACH_10S))
    plan = planned(office, T0 - 60 * S, T0)
    first = office.run(start_backfill(office.desk, plan)).backfill
    office.now += 5
    again = office.run(start_backfill(office.desk, plan))
    assert (again.created, again.backfill) == (False, first)
    other = office.run(start_backfill(office.desk, plan, overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ONE)))
    assert other.created and other.backfill.id != first.id
    office.run(cancel_backfill(office.desk, first.id))
    third = office.run(start_backfill(office.desk, replace(plan, from_ms=plan.from_ms + 1)))
    assert third.created
    office.now += 5
    assert office.run(start_backfill(office.desk, plan)).created


def test_no_slot_and_too_many_slots_are_refused(office: Office) -> None:
    """More than the limit must be forced; nothing to run is an error, not a backfill that ends at once."""
    office.apply(declared(text="* * * * * *"))
    with pytest.raises(ConfigurationError, match="has no slot"):
        office.run(start_backfill(office.desk, planned(office, T0 - 999, T0 - 1)))
    exact = planned(office, T0 - (MOST_SLOTS - 1) * S, T0)
    assert exact.slots == MOST_SLOTS
    assert office.run(start_backfill(office.desk, exact)).created
    more = planned(office, T0 - 30 * DAY, T0)
    with pytest.raises(ConfigurationError, match="2,592,001 slots is refused: more than 100,000"):
        office.run(start_backfill(office.desk, more))
    assert office.run(start_backfill(office.desk, more, force=True)).created


def test_a_cancelled_backfill_has_ended_and_says_so(office: Office) -> None:
    """By id or its beginning; a second cancel is refused with when it ended."""
    office.apply(declared(text=EACH_10S))
    backfill = office.run(start_backfill(office.desk, planned(office, T0 - 60 * S, T0))).backfill
    office.now += 5 * S
    ended = office.run(cancel_backfill(office.desk, backfill.id[:8]))
    assert (ended.status, ended.finished_at_ms) == (BackfillStatus.CANCELLED, T0 + 5 * S)
    assert office.run(office.history.backfills()) == [ended]
    with pytest.raises(CronpadError, match="ended already: cancelled at 2026-01-01T00:00:05Z"):
        office.run(cancel_backfill(office.desk, backfill.id))


def test_a_cancel_that_lost_against_progress_is_made_again(office: Office) -> None:
    """The feeder moved the cursor meanwhile: what it counted is kept."""
    office.apply(declared(text=EACH_10S))
    backfill = office.run(start_backfill(office.desk, planned(office, T0 - 60 * S, T0))).backfill
    raced: list[bool] = []

    class Racing:
        def __getattr__(self, name: str) -> Any:
            return getattr(office.history, name)

        async def move_backfill(self, new: Any, *, expected: Any, term: int) -> bool:
            if not raced:
                raced.append(True)
                moved = replace(backfill, cursor_ms=T0 - 50 * S, started=1)
                assert await office.history.move_backfill(moved, expected=backfill, term=term)
            return await office.history.move_backfill(new, expected=expected, term=term)

    ended = office.run(cancel_backfill(office.with_store(history=Racing()), backfill.id))
    assert (ended.status, ended.started, ended.cursor_ms) == (BackfillStatus.CANCELLED, 1, T0 - 50 * S)


def test_backfills_are_found_and_listed(office: Office) -> None:
    """Newest first, of one job, those that go on; a word that fits none or several is an error."""
    office.apply(declared("a", EACH_10S), declared("b", EACH_10S))
    first = office.run(start_backfill(office.desk, planned(office, T0 - 60 * S, T0))).backfill
    office.now += 1
    plan = plan_backfill(office.job("b"), T0 - 60 * S, T0, schedules=office.schedules, now_ms=office.now)
    second = office.run(start_backfill(office.desk, plan)).backfill
    office.run(cancel_backfill(office.desk, first.id))

    def listed(**what: Any) -> list[str]:
        return [one.id for one in office.run(list_backfills(office.catalog, office.history, **what))]

    assert listed() == [second.id, first.id]
    assert listed(job="a") == [first.id] and listed(unfinished=True) == [second.id] and listed(limit=1) == [second.id]
    with pytest.raises(NotFoundError, match='no job "c"'):
        listed(job="c")
    with pytest.raises(NotFoundError, match='no backfill "bf_x"'):
        office.run(find_backfill(office.history, "bf_x"))
    with pytest.raises(NotFoundError, match='"bf_" begins 2'):
        office.run(find_backfill(office.history, "bf_"))


def test_a_standby_starts_and_cancels_nothing(office: Office) -> None:
    """Without the term nothing is written."""
    office.apply(declared(text=EACH_10S))
    plan = planned(office, T0 - 60 * S, T0)
    backfill = office.run(start_backfill(office.desk, plan)).backfill
    office.term = None
    with pytest.raises(TermRefusedError):
        office.run(start_backfill(office.desk, replace(plan, from_ms=T0 - 70 * S)))
    with pytest.raises(TermRefusedError):
        office.run(cancel_backfill(office.desk, backfill.id))
    assert office.run(office.history.backfills()) == [backfill]
