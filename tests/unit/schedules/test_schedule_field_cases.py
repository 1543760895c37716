"""Faults that people reported in public, as far as they are about schedules."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.schedules import parse_schedule

CASES = Path(__file__).parents[2] / "vectors" / "field-schedules.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
CHECKS = [
    pytest.param(row, check, wanted, id=f"{row['id']}-{number}")
    for row in ROWS
    if row["input"]["kind"] == "cron_next"
    for number, (check, wanted) in enumerate(zip(row["input"]["checks"], row["expected"].get("checks", []), strict=False))
]


@pytest.mark.parametrize(("row", "check", "wanted"), CHECKS)
def test_reported_fault(row: dict[str, Any], check: dict[str, Any], wanted: dict[str, Any]) -> None:
    """The schedule of a reported fault fires as expected, or is refused where a refusal is expected."""
    base = datetime.fromisoformat(check["base"])
    try:
        schedule = parse_schedule(check["expr"], timezone=check["tz"])
    except ScheduleError:
        assert wanted.get("reject")
        return
    if wanted.get("reject"):
        # B022 allows it: accepted, never fires, and says so at once.
        assert row["id"] == "B022"
        assert schedule.next_after(base) is None
        return
    fires: list[str] = []
    for _ in range(check["count"]):
        fire = schedule.next_after(base)
        assert fire is not None
        fires.append(fire.isoformat())
        base = fire
    assert fires == wanted["fires"]


def test_a_step_larger_than_the_field_warns() -> None:
    """B003: */90 is accepted as cron does, fires hourly, and warns with the text that was meant."""
    schedule = parse_schedule("*/90 * * * *")
    assert schedule.next_after(datetime(2026, 1, 1, 0, 30, tzinfo=UTC)) == datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert any("every 90m" in warning for warning in schedule.warnings)
    assert parse_schedule("*/60 * * * *").warnings
    assert parse_schedule("0 */25 * * *").warnings
    assert not parse_schedule("*/30 * * * *").warnings


@pytest.mark.parametrize(
    ("every", "zone", "last", "expected"),
    [
        ("2h", "America/New_York", "2026-03-08T01:00:00-05:00", "2026-03-08T04:00:00-04:00"),
        ("2h", "America/New_York", "2026-11-01T00:30:00-04:00", "2026-11-01T01:30:00-05:00"),
        ("24h", "Europe/Berlin", "2024-03-30T09:00:00+01:00", "2024-03-31T10:00:00+02:00"),
    ],
)
def test_an_interval_is_elapsed_time(every: str, zone: str, last: str, expected: str) -> None:
    """B051: a clock change neither stretches nor shrinks an interval."""
    fired = datetime.fromisoformat(last)
    fire = parse_schedule(f"every {every}", timezone=zone, anchor=fired).next_after(fired)
    assert fire is not None
    assert fire.isoformat() == expected


def test_next_is_computed_from_the_slot() -> None:
    """B060: from the slot that was armed the next is a day later, however early the timer woke."""
    schedule = parse_schedule("0 8 * * *")
    early = datetime(2026, 1, 1, 7, 59, 59, 990000, tzinfo=UTC)
    slot = schedule.next_after(early)
    assert slot == datetime(2026, 1, 1, 8, tzinfo=UTC)
    assert schedule.next_after(slot) == datetime(2026, 1, 2, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 1 1 *", "2027-01-01T00:00:00+00:00"),
        ("at 2200-01-01T00:00:00Z", "2200-01-01T00:00:00+00:00"),
        ("at 9999-12-31T23:59:59Z", "9999-12-31T23:59:59+00:00"),
    ],
)
def test_far_fires_are_reported(text: str, expected: str) -> None:
    """B061: a fire months or millennia away is named correctly."""
    fire = parse_schedule(text).next_after(datetime(2026, 1, 2, tzinfo=UTC))
    assert fire is not None
    assert fire.isoformat() == expected


def test_an_interval_does_not_drift() -> None:
    """B062: sixty fires of a minute's interval lie exactly on anchor + k minutes, whatever each run took."""
    anchor = datetime(2026, 1, 1, 2, 2, tzinfo=UTC)
    schedule = parse_schedule("every 60 s", anchor=anchor)
    slot = anchor
    for number in range(1, 61):
        after = slot + timedelta(milliseconds=705)
        fire = schedule.next_after(after)
        assert fire == anchor + timedelta(minutes=number)
        slot = fire
