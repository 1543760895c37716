"""Rules for clock changes as a user sees them: overrides, facts and marks."""

from __future__ import annotations

from datetime import datetime

import pytest

from cronpad_core.schedules import parse_schedule

GAP_DAY = "2024-03-10T00:00:00-05:00"
FOLD_DAY = "2024-11-03T00:00:00-04:00"


def day_of(text: str, start: str, dst: dict[str, str] | None) -> list[str]:
    """The local times with offset at which the text fires on the day that begins at ``start``, in New York."""
    schedule = parse_schedule(text, timezone="America/New_York", dst=dst)
    at = datetime.fromisoformat(start)
    found: list[str] = []
    fire = schedule.prev_at_or_before(at)
    if fire is None or fire.timestamp() != at.timestamp():
        fire = schedule.next_after(at)
    while fire is not None and fire.date() == at.date():
        found.append(fire.strftime("%H:%M%z")[:-2])
        fire = schedule.next_after(fire)
    return found


@pytest.mark.parametrize(
    ("text", "dst", "expected"),
    [
        ("30 2 * * *", None, ["03:00-04"]),
        ("30 2 * * *", {"gap": "run_after"}, ["03:00-04"]),
        ("30 2 * * *", {"gap": "skip"}, []),
        ("30 2 * * *", {"gap": "shift"}, ["03:30-04"]),
        ("0,30 2,3 * * *", None, ["03:00-04", "03:30-04"]),
        ("0,30 2,3 * * *", {"gap": "shift"}, ["03:00-04", "03:30-04"]),
        ("15 2,3 * * *", {"gap": "shift"}, ["03:15-04"]),
        ("15 2,3 * * *", None, ["03:00-04", "03:15-04"]),
        ("*/30 2 * * *", None, []),
        ("*/30 2 * * *", {"gap": "run_after"}, ["03:00-04"]),
        ("*/30 2 * * *", {"fold": "first"}, []),
    ],
)
def test_skipped_time(text: str, dst: dict[str, str] | None, expected: list[str]) -> None:
    """On the day of the gap a job runs as its rule says; a rule that is not given is cron's."""
    assert day_of(text, GAP_DAY, dst) == expected


@pytest.mark.parametrize(
    ("text", "dst", "expected"),
    [
        ("30 1 * * *", None, ["01:30-04"]),
        ("30 1 * * *", {"fold": "first"}, ["01:30-04"]),
        ("30 1 * * *", {"fold": "last"}, ["01:30-05"]),
        ("30 1 * * *", {"fold": "both"}, ["01:30-04", "01:30-05"]),
        ("*/30 1 * * *", None, ["01:00-04", "01:30-04", "01:00-05", "01:30-05"]),
        ("*/30 1 * * *", {"fold": "first"}, ["01:00-04", "01:30-04"]),
        ("*/30 1 * * *", {"fold": "last"}, ["01:00-05", "01:30-05"]),
        ("0 0-2 * * *", {"fold": "last"}, ["00:00-04", "01:00-05", "02:00-05"]),
    ],
)
def test_repeated_time(text: str, dst: dict[str, str] | None, expected: list[str]) -> None:
    """On the day of the repeat a job runs in the pass that its rule names."""
    assert day_of(text, FOLD_DAY, dst) == expected


@pytest.mark.parametrize(
    ("text", "day_rule", "clock_rule"),
    [
        ("0 9 13 * 5", "either", "fixed-time"),
        ("0 9 * * 5", "both", "fixed-time"),
        ("0 9 */2 * 5", "both", "fixed-time"),
        ("0 9 ? * 5", "both", "fixed-time"),
        ("*/5 9 1,* * 5", "either", "wildcard"),
        ("0 */2 * * *", "both", "wildcard"),
        ("*/10 0 9 * * *", "both", "wildcard"),
        ("0-59 0-23 * * *", "both", "fixed-time"),
    ],
)
def test_facts_name_the_rules(text: str, day_rule: str, clock_rule: str) -> None:
    """The facts say which day rule and which clock rule hold: the first characters of the fields decide, as in cron."""
    facts = parse_schedule(text).facts()
    assert (facts.kind, facts.day_rule, facts.clock_rule) == ("cron", day_rule, clock_rule)
    assert any(clock_rule in sentence for sentence in facts.sentences)
    assert (facts.gap, facts.fold) == (("skip", "both") if clock_rule == "wildcard" else ("run_after", "first"))


def test_facts_name_an_override() -> None:
    """The facts show the clock rules that a job was given."""
    facts = parse_schedule("0 9 * * *", dst={"gap": "shift", "fold": "last"}).facts()
    assert (facts.gap, facts.fold) == ("shift", "last")


@pytest.mark.parametrize(
    ("text", "dst", "instant", "mark"),
    [
        ("30 2 * * *", None, "2024-03-10T03:00:00-04:00", "dst_gap"),
        ("30 2 * * *", {"gap": "shift"}, "2024-03-10T03:30:00-04:00", "dst_gap"),
        ("30 2 * * *", None, "2024-03-11T02:30:00-04:00", None),
        ("30 1 * * *", None, "2024-11-03T01:30:00-04:00", "dst_overlap"),
        ("30 1 * * *", {"fold": "last"}, "2024-11-03T01:30:00-05:00", "dst_overlap"),
        ("30 * * * *", None, "2024-11-03T01:30:00-05:00", "dst_overlap"),
        ("30 * * * *", None, "2024-11-03T02:30:00-05:00", None),
        ("0 * * * *", None, "2024-03-10T03:00:00-04:00", None),
    ],
)
def test_fires_that_a_change_touches_are_marked(text: str, dst: dict[str, str] | None, instant: str, mark: str | None) -> None:
    """A fire that was made up for skipped time, or whose time comes twice, carries a note; no other does."""
    schedule = parse_schedule(text, timezone="America/New_York", dst=dst)
    at = datetime.fromisoformat(instant)
    at_ms = int(at.timestamp() * 1000)
    assert schedule.prev_at_or_before_ms(at_ms) == at_ms
    note = schedule.note_for(at)
    assert (note is None) if mark is None else (note or "").startswith(f"{mark}: ")


def test_a_union_marks_what_a_member_marks() -> None:
    """A union carries the note of the member that fires."""
    schedule = parse_schedule(["0 3 * * *", "30 2 * * *"], timezone="America/New_York")
    assert (schedule.note_for(datetime.fromisoformat("2024-03-10T03:00:00-04:00")) or "").startswith("dst_gap: ")
    assert schedule.note_for(datetime.fromisoformat("2024-03-11T03:00:00-04:00")) is None
