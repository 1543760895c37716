"""New rules of a time zone: jobs whose next fire is none any more go on by the new rules, and the ledger stays whole."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from office import Failing, Office, declared

from cronpad_core.control.apply import Declared
from cronpad_core.control.refit import refit
from cronpad_core.domain.errors import StoreBusyError, TermRefusedError
from cronpad_core.domain.job import Job, JobStatus, Replay, ScheduleSpec
from cronpad_core.ports.catalog import JobWrite, Move, StaleWriteError

FIVE = "0 5 * * *"
HOUR, DAY = 3_600_000, 86_400_000
UPDATED = "Europe/Istanbul"
"""What the city has always been but for 2016 and later: it stayed at its summer time."""

BEFORE = "Europe/Athens"
AUTUMN = int(datetime(2016, 10, 28, 12, tzinfo=UTC).timestamp() * 1000)
"""Two days before the clocks of Athens went back, and those of Istanbul did not."""


@pytest.fixture
def town(office: Office, city: Any) -> Office:
    """A job at 05:00 in a city with the rules of Athens, two days before the rules part; its slots until now have run."""
    city.becomes(BEFORE)
    office.schedules.forget()
    office.now = AUTUMN - 3 * DAY
    office.apply(declared(text=FIVE, timezone=city.name))
    office.work(AUTUMN)
    return office


def updates(office: Office, city: Any, zone: str = UPDATED, term: int | None = 7) -> list[Job]:
    """New data is there, and is looked at."""
    city.becomes(zone)
    office.schedules.forget()
    return looks(office, term)


def looks(office: Office, term: int | None = 7, **stores: Any) -> list[Job]:
    """One look at all jobs."""
    given = {"catalog": office.catalog, "history": office.history, "schedules": office.schedules, **stores}
    return office.run(refit(**given, now_ms=office.now, term=term))


def put(office: Office) -> None:
    """What a sweep does after it: the next fire is queued."""
    office.run(office._put_next(office.job()))


def local_hours(office: Office, offset_hours: int) -> set[int]:
    """The hours of the day of all runs since the update, at that offset."""
    late = [run.key.scheduled_at_ms for run in office.runs() if run.key.scheduled_at_ms > AUTUMN + 2 * DAY]
    return {(at_ms // HOUR + offset_hours) % 24 for at_ms in late}


def test_a_job_whose_next_fire_is_none_any_more_moves(town: Office, city: Any) -> None:
    """Version + 1 and the next fire by the new rules; the old entry is dropped when it comes up; the ledger has no hole."""
    town.work(AUTUMN + DAY)
    old = town.job()
    [moved] = updates(town, city)
    assert moved == town.job()
    assert (moved.version, moved.status, moved.valid_from_ms) == (old.version + 1, JobStatus.ACTIVE, town.now)
    assert old.next_run_at_ms is not None and moved.next_run_at_ms == old.next_run_at_ms - HOUR
    put(town)
    assert len(town.members()) == 2
    town.work(AUTUMN + 6 * DAY)
    assert len(town.members()) == 1
    assert local_hours(town, 3) == {5}
    days = [run.key.scheduled_at_ms // DAY for run in town.runs()]
    assert len(days) == len(set(days)), "never two fires for one local time"
    assert town.findings() == []


def test_who_is_not_concerned_is_left_alone(town: Office, city: Any) -> None:
    """Before the rules part the next fire is the same; so is that of every job in another zone; and twice is once."""
    before = town.job()
    assert updates(town, city) == []
    assert town.job() == before
    town.work(AUTUMN + 4 * DAY)
    assert local_hours(town, 3) == {5}
    assert looks(town) == [] and town.findings() == []


def test_looked_at_twice_it_moves_once(town: Office, city: Any) -> None:
    """The second look finds nothing to do."""
    town.work(AUTUMN + DAY)
    assert len(updates(town, city)) == 1
    assert looks(town) == [] and town.job().version == 2


def test_a_fire_that_has_passed_by_the_new_rules_is_dropped(town: Office, city: Any) -> None:
    """The data comes between the new instant and the old one: that slot has an outcome, and the next is tomorrow's."""
    town.work(AUTUMN + DAY)
    next_ms = town.job().next_run_at_ms
    assert next_ms is not None
    town.now = next_ms - HOUR // 2
    [moved] = updates(town, city)
    assert moved.next_run_at_ms == next_ms - HOUR + DAY
    put(town)
    town.work(AUTUMN + 5 * DAY)
    assert town.findings() == []
    ranges = town.run(town.history.ranges(moved.id))
    assert [(one.kind.value, one.count) for one in ranges] == [("dropped", 1)]


def test_a_catch_up_under_way_goes_by_the_new_rules_too(town: Office, city: Any) -> None:
    """What was chosen is not a fire any more: what has not run of it is dropped, and the schedule goes on from now."""
    town.work(AUTUMN + DAY)
    old = town.job()
    assert old.next_run_at_ms is not None
    first, last = old.next_run_at_ms, old.next_run_at_ms + 2 * DAY
    town.now = last + HOUR
    advance(town, old, to_ms=first, replay=Replay(until_ms=last, then_ms=last + DAY))
    [moved] = updates(town, city)
    assert (moved.replay, moved.next_run_at_ms) == (None, last + DAY - HOUR)
    put(town)
    town.work(AUTUMN + 8 * DAY)
    assert local_hours(town, 3) == {5}
    assert town.findings() == []
    dropped = town.run(town.history.ranges(moved.id))
    assert [(one.kind.value, one.count) for one in dropped] == [("dropped", 3)]


def test_a_catch_up_that_ends_at_no_fire_any_more(town: Office, city: Any) -> None:
    """What it runs now is as it was, and what comes after it would not be a fire: it counts as one that does not fit."""
    old = town.job()
    assert old.next_run_at_ms is not None
    # Chosen are the two slots before the rules part; the first after them lies behind that.
    advance(town, old, to_ms=old.next_run_at_ms, replay=Replay(until_ms=old.next_run_at_ms, then_ms=AUTUMN + 39 * HOUR))
    assert town.schedules(old.id, 1, old.spec.schedule).next_after_ms(AUTUMN + 38 * HOUR) == AUTUMN + 39 * HOUR
    [moved] = updates(town, city)
    assert (moved.version, moved.replay) == (2, None)
    put(town)
    town.work(AUTUMN + 5 * DAY)
    assert local_hours(town, 3) == {5}
    assert town.findings() == []


def advance(office: Office, job: Job, *, to_ms: int, replay: Replay) -> None:
    """Moves a job as a decision does."""
    assert job.next_run_at_ms is not None
    move = Move(job_id=job.id, version=1, clock_epoch=0, from_ms=job.next_run_at_ms, to_ms=to_ms, replay=replay, term=7)
    office.run(office.catalog.move([move]))


def test_who_is_paused_or_gone_is_left_alone(town: Office, city: Any) -> None:
    """A paused job has no next fire that could be wrong; resumed, it goes by the new rules."""
    town.work(AUTUMN + DAY)
    town.perform("job-pause", job="a")
    assert updates(town, city) == []
    assert (town.job().status, town.job().version) == (JobStatus.PAUSED, 1)
    town.perform("job-resume", job="a")
    town.work(AUTUMN + 4 * DAY)
    assert local_hours(town, 3) == {5}
    assert town.findings() == []


def test_a_zone_that_is_gone_stops_nobody(town: Office, city: Any) -> None:
    """Of a schedule that cannot be read nobody can say that it does not fit; other jobs are looked at all the same."""
    (city.directory / "Test/Town").write_bytes(city._rules(BEFORE))
    town.schedules.forget()
    town.apply(declared("b", FIVE, timezone="Test/Town"), prune=False)
    town.work(AUTUMN + DAY)
    (city.directory / "Test/Town").unlink()
    assert [job.spec.name for job in updates(town, city)] == ["a"]
    assert town.job("b").version == 1


def test_an_edit_meanwhile_counts(town: Office, city: Any) -> None:
    """Whoever changed the job while it was looked at did so by the rules of now; the others still move."""
    town.work(AUTUMN + DAY)
    city.becomes(UPDATED)
    town.schedules.forget()

    class Edited:
        """A catalogue in which the job is edited just before the write."""

        def __getattr__(self, name: str) -> Any:
            return getattr(town.catalog, name)

        async def write(self, writes: list[JobWrite], *, term: int | None) -> None:
            raise StaleWriteError("edited meanwhile")

    assert looks(town, catalog=Edited()) == []
    assert town.job().version == 1
    assert len(looks(town)) == 1


def test_only_who_holds_the_lock_moves_jobs(town: Office, city: Any) -> None:
    """Without a term, or under one that has ended, nothing is written; trouble of a store is the caller's."""
    town.work(AUTUMN + DAY)
    for term in (None, 6):
        with pytest.raises(TermRefusedError):
            updates(town, city, term=term)
    busy = StoreBusyError("locked")
    with pytest.raises(StoreBusyError):
        looks(town, catalog=Failing(town.catalog, busy, "write"))
    assert town.job().version == 1


def test_all_jobs_are_looked_at_page_by_page(town: Office, city: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many jobs are as few."""
    monkeypatch.setattr("cronpad_core.control.refit._PAGE", 2)
    town.apply(*(declared(f"j{number}", FIVE, timezone=city.name) for number in range(7)), prune=False)
    town.work(AUTUMN + DAY)
    assert len(updates(town, city)) == 8
    assert {job.version for job in town.run(town.catalog.jobs(limit=100))} == {2}


def test_an_edit_is_made_by_the_rules_of_its_time(town: Office, city: Any) -> None:
    """A version keeps its number of slots in the ledger: what ended before the update is left as it was."""
    town.work(AUTUMN + DAY)
    spec = replace(town.job().spec, schedule=ScheduleSpec(texts=("0 6 * * *",), timezone=city.name))
    town.apply(Declared(spec=spec, origin=town.job().origin))
    [moved] = updates(town, city)
    assert moved.version == 3
    put(town)
    town.work(AUTUMN + 5 * DAY)
    assert local_hours(town, 3) == {6}
    assert town.findings() == []
