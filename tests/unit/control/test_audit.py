"""The audit is silent over sound books, whatever happened to them."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from cronpad_core.control.audit_version import FindingKind
from cronpad_core.domain.job import JobStatus
from cronpad_core.domain.misfire import MisfireRule
from cronpad_core.domain.timing import DAY, HOUR, MINUTE, to_ms
from cronpad_core.ports.catalog import JobWrite

if TYPE_CHECKING:
    from conftest import Books

T0 = 1_767_225_600_000


def test_an_undisturbed_job_is_clean(books: Books) -> None:
    """Every slot has its run; those still to be handled are open."""
    books.apply("every 10s")
    books.run_until(T0 + 600_000)
    found = books.clean()
    assert (found.slots, found.open) == (60, 0)
    books.now += 95_000
    found = books.clean()
    assert (found.slots, found.open) == (60, 9)


def test_an_empty_state_is_clean(books: Books) -> None:
    """No job, nothing to find."""
    assert books.audit() == []


@pytest.mark.parametrize("policy", ["latest", "earliest", "all", "skip"])
@pytest.mark.parametrize("away", [5 * MINUTE, 3 * DAY])
def test_downtime_is_clean_under_each_policy(books: Books, policy: str, away: int) -> None:
    """What was decided over an absence is in the books, whatever the policy chose."""
    settings = {"max": 50} if policy == "all" else {}
    books.apply("*/10 * * * * *", misfire=MisfireRule(policy=policy, settings=settings))
    books.run_until(T0 + 60_000)
    books.now += away
    if away > HOUR:
        assert [kind for kind, *_ in books.findings()] == ["undecided"]
    books.decide()
    assert books.clean().slots == 6 + away // 10_000
    books.run_until(books.now + 60_000)
    assert books.clean().slots == 12 + away // 10_000


def test_1_200_000_missed_slots_take_no_longer_than_ten(books: Books) -> None:
    """Two weeks of seconds that were missed are judged by arithmetic, missing and there."""
    books.apply("* * * * * *", misfire=MisfireRule(policy="skip"))
    books.now += 14 * DAY
    books.decide()
    began = time.perf_counter()
    assert books.clean().slots == 14 * 86_400
    assert time.perf_counter() - began < 2
    books.edit("DELETE FROM ranges")
    began = time.perf_counter()
    assert books.findings() == [("no outcome", 1, 14 * 86_400 - 100, 14 * 86_400 - 100)]
    assert time.perf_counter() - began < 2


def test_a_year_of_clock_changes_is_clean(books: Books) -> None:
    """A job in a gap and a fold has the slots that its schedule says, not one more."""
    books.now = to_ms(datetime(2026, 1, 1, tzinfo=UTC))
    books.apply("30 1,2 * * *", timezone="Europe/Madrid")
    books.run_until(books.now + 365 * DAY)
    found = books.clean()
    assert found.slots > 720
    day = to_ms(datetime(2026, 10, 25, tzinfo=UTC))
    books.edit("DELETE FROM runs WHERE scheduled_at BETWEEN ? AND ?", day, day + HOUR)
    [finding] = books.audit()[0].findings
    assert (finding.kind, finding.slots) == (FindingKind.NO_OUTCOME, 1)


def test_edits_pauses_and_removals_are_clean(books: Books) -> None:
    """Versions that ended left dropped slots; a removed time has no slots; a version begins where it is applied."""
    books.apply("every 10s")
    books.run_until(T0 + 300_000)
    books.now += 25_000
    books.apply("every 7s")
    books.now += HOUR
    books.run_until(books.now)
    books.apply()
    books.now += DAY
    assert [kind for kind, *_ in books.findings()] == ["undecided"]
    books.drop()
    assert books.clean().slots == 32 + HOUR // 7_000
    books.apply("@hourly")
    books.run_until(books.now + DAY)
    assert books.clean().slots == 32 + HOUR // 7_000 + 24


def test_a_version_that_ended_just_now_is_still_open(books: Books) -> None:
    """However old its open slots are: the reconciler has not had the time to write them."""
    books.apply("every 10s")
    books.now += DAY
    books.apply()
    found = books.clean()
    assert (found.slots, found.open) == (0, 8640)


def test_a_pause_ends_with_its_version(books: Books) -> None:
    """A paused job has no slots, however long ago that was."""
    books.apply("every 10s")
    books.run_until(T0 + 100_000)
    job = books.job()
    [version] = books.do(lambda storage: storage.catalog.versions(job.id))
    paused = replace(job, status=JobStatus.PAUSED, next_run_at_ms=None)
    ends = replace(version, valid_until_ms=books.now, open_from_ms=job.next_run_at_ms)
    books.do(lambda storage: storage.catalog.write([JobWrite(job=paused, expected=job, ends=ends)], term=1))
    books.now += DAY
    assert books.clean().slots == 10
