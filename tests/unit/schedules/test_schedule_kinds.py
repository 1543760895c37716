"""Intervals, one-shots, unions and drawn values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cronpad_core.schedules import parse_schedule
from cronpad_core.schedules.union import COUNT_CAP

ANCHOR = datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC)


def test_an_interval_counts_from_its_anchor() -> None:
    """The anchor is the first fire, nothing comes before it, and every later one lies a whole number of intervals away."""
    schedule = parse_schedule("every 90s", anchor=ANCHOR)
    assert schedule.next_after(ANCHOR - timedelta(days=3)) == ANCHOR
    assert schedule.prev_at_or_before(ANCHOR - timedelta(milliseconds=1)) is None
    assert schedule.prev_at_or_before(ANCHOR + timedelta(seconds=179)) == ANCHOR + timedelta(seconds=90)
    assert schedule.count_between(ANCHOR - timedelta(days=3), ANCHOR + timedelta(seconds=180)) == 3
    assert schedule.count_between(ANCHOR, ANCHOR + timedelta(seconds=180)) == 2


def test_an_interval_without_anchor_counts_from_the_epoch() -> None:
    """Without an anchor the Unix epoch is one, so that intervals are the same after every restart."""
    fire = parse_schedule("every 1d").next_after(datetime(2026, 3, 5, 13, tzinfo=UTC))
    assert fire == datetime(2026, 3, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("every 1h30m", 5400),
        ("EVERY 90 Minutes", 5400),
        ("every 1 hour 30 minutes", 5400),
        ("every 1w2d", 777600),
        ("every 1s", 1),
    ],
)
def test_interval_spellings(text: str, seconds: int) -> None:
    """Units may be spelled out, joined, in any case."""
    assert parse_schedule(text).facts().every_ms == seconds * 1000


def test_a_one_shot_fires_once() -> None:
    """A one-shot fires at its instant, was its own last fire ever after, and counts as one."""
    schedule = parse_schedule("at 2026-12-24T18:00", timezone="Europe/Riga")
    instant = datetime(2026, 12, 24, 16, tzinfo=UTC)
    assert schedule.next_after(instant - timedelta(seconds=1)) == instant
    assert schedule.next_after(instant) is None
    assert schedule.prev_at_or_before(instant) == instant
    assert schedule.prev_at_or_before(instant - timedelta(seconds=1)) is None
    assert schedule.count_between(instant - timedelta(days=1), instant + timedelta(days=1)) == 1
    assert schedule.count_between(instant, instant + timedelta(days=1)) == 0


@pytest.mark.parametrize(
    ("text", "zone", "dst", "expected"),
    [
        ("at 2024-03-10T02:30", "America/New_York", None, "2024-03-10T03:00:00-04:00"),
        ("at 2024-03-10T02:30", "America/New_York", {"gap": "skip"}, "2024-03-10T03:00:00-04:00"),
        ("at 2024-03-10T02:30", "America/New_York", {"gap": "shift"}, "2024-03-10T03:30:00-04:00"),
        ("at 2024-11-03T01:30", "America/New_York", None, "2024-11-03T01:30:00-04:00"),
        ("at 2024-11-03T01:30", "America/New_York", {"fold": "last"}, "2024-11-03T01:30:00-05:00"),
        ("at 2011-12-30T12:00", "Pacific/Apia", None, "2011-12-31T00:00:00+14:00"),
        ("at 2011-12-30T12:00", "Pacific/Apia", {"gap": "shift"}, "2011-12-31T12:00:00+14:00"),
    ],
)
def test_a_one_shot_in_a_clock_change(text: str, zone: str, dst: dict[str, str] | None, expected: str) -> None:
    """A one-shot is never dropped: it runs after the gap or as much later as the gap is long, and in one of two passes."""
    schedule = parse_schedule(text, timezone=zone, dst=dst)
    fire = schedule.next_after(datetime(2011, 1, 1, tzinfo=UTC))
    assert fire is not None
    assert fire.isoformat() == expected
    assert (schedule.note_for(fire) or "").startswith("dst_gap" if "-11-" not in text else "dst_overlap")


def test_a_union_merges_equal_instants() -> None:
    """Next, previous and count of a union see every instant once, however many members name it."""
    schedule = parse_schedule(["0 * * * *", "*/30 * * * *", "every 20m", "at 2026-01-01T00:30"])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert schedule.count_between(start, start + timedelta(hours=1)) == 4
    assert schedule.next_after(start) == start + timedelta(minutes=20)
    assert schedule.prev_at_or_before(start + timedelta(minutes=39)) == start + timedelta(minutes=30)
    assert [member.kind for member in schedule.facts().members] == ["cron", "cron", "interval", "one-shot"]


def test_a_union_counts_up_to_a_cap() -> None:
    """A union walks to count, stops at the cap, and says that its count means at least."""
    schedule = parse_schedule(["every 1s", "* * * * * *"])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    start_ms = int(start.timestamp() * 1000)
    year_ms = 365 * 86_400_000
    assert schedule.count_between_ms(start_ms, start_ms + year_ms) == COUNT_CAP
    assert not schedule.count_is_exact(start_ms, start_ms + year_ms)
    assert schedule.count_is_exact(start_ms, start_ms + 60_000)
    assert parse_schedule("* * * * * *").count_is_exact(start_ms, start_ms + year_ms)


def test_a_count_over_decades_walks_nothing() -> None:
    """Counting a century of minutes with its clock changes gives the exact number in well under a second."""
    schedule = parse_schedule("* * * * *", timezone="America/New_York")
    start, end = datetime(1970, 1, 1, tzinfo=UTC), datetime(2070, 1, 1, tzinfo=UTC)
    assert schedule.count_between(start, end) == (end - start) // timedelta(minutes=1)


@pytest.mark.parametrize(
    ("text", "job_id", "resolved"),
    [
        ("H H * * *", "backup-nightly", "18 3 * * *"),
        ("H/15 H(0-7) H * H", "répertoire", "12-59/15 5 19 * 4"),
        ("~ 0~6 * * *", "backup-nightly", "59 3 * * *"),
        ("H H ~/5 * * *", "a", "58 54 2-23/5 * * *"),
    ],
)
def test_drawn_values_are_frozen(text: str, job_id: str, resolved: str) -> None:
    """What H and ~ come to for an id never changes between versions of this package."""
    fields = parse_schedule(text, job_id=job_id).facts().fields
    assert " ".join(value for _, value in fields) == resolved


def test_a_new_version_of_a_job_moves_only_what_is_random() -> None:
    """With a version behind a NUL in the seed, H keeps its value over versions and ~ is drawn anew."""
    hashed = {parse_schedule("H H * * *", job_id=f"job\0{version}").facts().fields for version in range(20)}
    drawn = {parse_schedule("~ ~ * * *", job_id=f"job\0{version}").facts().fields for version in range(20)}
    assert hashed == {parse_schedule("H H * * *", job_id="job").facts().fields}
    assert len(drawn) > 15


def test_two_draws_of_a_list_are_independent() -> None:
    """Two draws in one list differ for most ids."""
    same = 0
    for number in range(200):
        fields = dict(parse_schedule("H,H * * * *", job_id=f"job-{number}").facts().fields)
        first, second = fields["minute"].split(",")
        same += first == second
    assert same < 15


def test_a_hash_needs_no_bracket_range_to_reach_every_month() -> None:
    """A hashed day of the month is never later than the 28th, so no month is left out."""
    for number in range(300):
        fields = dict(parse_schedule("0 0 H * *", job_id=f"job-{number}").facts().fields)
        assert 1 <= int(fields["day-of-month"]) <= 28
