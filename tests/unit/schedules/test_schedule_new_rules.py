"""Time-zone data that is replaced while the process runs: schedules go by the new rules once they are told to forget the old."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.domain.job import ScheduleSpec
from cronpad_core.runtime.schedules import ScheduleBook
from cronpad_core.schedules import forget_zone_rules, parse_schedule

NOON = int(datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp() * 1000)
FIVE = "0 5 * * *"


def hour_of(city: Any) -> int:
    """At what hour of UTC 05:00 in the city is, in July."""
    at_ms = parse_schedule(FIVE, timezone=city.name).next_after_ms(NOON)
    assert at_ms is not None
    return datetime.fromtimestamp(at_ms / 1000, UTC).hour


def test_new_rules_count_once_the_old_are_forgotten(city: Any) -> None:
    """Until then nothing changes under a schedule; afterwards a schedule that is read anew fires by the new rules."""
    assert hour_of(city) == 3
    old = parse_schedule(FIVE, timezone=city.name)
    city.becomes("America/New_York")
    assert hour_of(city) == 3, "what was read is kept until it is forgotten"
    forget_zone_rules()
    assert hour_of(city) == 9
    assert datetime.fromtimestamp((old.next_after_ms(NOON) or 0) / 1000, UTC).hour == 3, "never both in one schedule"
    city.becomes("Europe/Zurich")
    forget_zone_rules()
    assert hour_of(city) == 3


def test_a_book_of_schedules_reads_them_anew(city: Any) -> None:
    """What the runner remembers of job versions goes with the rules."""
    book, spec = ScheduleBook(), ScheduleSpec(texts=(FIVE,), timezone=city.name)
    before = book("job_a", 1, spec)
    city.becomes("America/New_York")
    assert book("job_a", 1, spec) is before
    book.forget()
    after = book("job_a", 1, spec)
    assert (after.next_after_ms(NOON) or 0) - (before.next_after_ms(NOON) or 0) == 6 * 3_600_000


def test_a_zone_may_come_and_go(city: Any) -> None:
    """A zone that newer data brings can be used at once; one that is gone is refused by name, and others go on."""
    with pytest.raises(ScheduleError, match="Unknown time zone 'Test/Town'"):
        parse_schedule(FIVE, timezone="Test/Town")
    (city.directory / "Test/City").rename(city.directory / "Test/Town")
    forget_zone_rules()
    assert parse_schedule(FIVE, timezone="Test/Town").next_after_ms(NOON) is not None
    with pytest.raises(ScheduleError, match="Unknown time zone 'Test/City'"):
        parse_schedule(FIVE, timezone=city.name)
    assert parse_schedule(FIVE, timezone="Europe/Athens").next_after_ms(NOON) is not None


@pytest.mark.parametrize("kept", [8, 20, 44, 60, 200])
def test_a_damaged_file_is_refused(city: Any, kept: int) -> None:
    """A file that was cut off is told of as such, as an error of this schedule alone."""
    whole = (city.directory / "Test/City").read_bytes()
    (city.directory / "Test/City").write_bytes(whole[:kept])
    forget_zone_rules()
    with pytest.raises(ScheduleError, match=r"The data of the time zone 'Test/City' is damaged|Unknown time zone"):
        parse_schedule(FIVE, timezone=city.name)
    assert parse_schedule(FIVE, timezone="Europe/Athens").next_after_ms(NOON) is not None
