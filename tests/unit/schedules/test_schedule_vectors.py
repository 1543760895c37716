"""Every row of the schedule vectors."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.schedules import Timeline, parse_schedule
from cronpad_core.schedules.moments import to_ms

VECTORS = Path(__file__).parents[2] / "vectors" / "schedules.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]

# in-0062 and in-0466 refuse the same text with two codes; every other fault of an H item is hash-syntax, so this is one too.
CONTRADICTED = {"in-0062": "hash-syntax"}


def rows(kind: str) -> list[Any]:
    """The rows of a kind, each as a test of its own name."""
    return [pytest.param(row, id=row["id"]) for row in ROWS if kind_of(row) == kind]


def kind_of(row: dict[str, Any]) -> str:
    """Which of the tests below a row belongs to."""
    if row.get("invalid"):
        return "refused"
    if "property" in row:
        return "drawn" if "window" in row["property"] else "spread"
    return "fires"


def parse(row: dict[str, Any], job_id: str | None = None) -> Timeline:
    """The schedule of a row."""
    anchor = datetime.fromisoformat(row["anchor"]) if "anchor" in row else None
    return parse_schedule(row["expr"], timezone=row.get("tz", "UTC"), job_id=job_id or row.get("job_id"), anchor=anchor)


def fires_until(schedule: Timeline, after: datetime, until: datetime) -> list[datetime]:
    """All fires in (after, until]."""
    fires: list[datetime] = []
    fire = schedule.next_after(after)
    while fire is not None and fire <= until:
        fires.append(fire)
        fire = schedule.next_after(fire)
    return fires


@pytest.mark.parametrize("row", rows("fires"))
def test_fires(row: dict[str, Any]) -> None:
    """A valid text fires at exactly the instants of its vector, and a text that never fires says so at once."""
    schedule = parse(row)
    at = datetime.fromisoformat(row["after"])
    fires: list[str] = []
    for _ in row["next"]:
        fire = schedule.next_after(at)
        assert fire is not None
        assert fire.timestamp() > at.timestamp()
        fires.append(fire.isoformat())
        at = fire
    assert fires == row["next"]
    if row.get("never"):
        assert schedule.next_after(at) is None


@pytest.mark.parametrize("row", [row for row in rows("fires") if len(row.values[0]["next"]) > 1])
def test_fires_backwards(row: dict[str, Any]) -> None:
    """Previous and count look at the same fires as next does."""
    schedule = parse(row)
    after = datetime.fromisoformat(row["after"])
    fires = [datetime.fromisoformat(text) for text in row["next"]]
    assert schedule.count_between(after, fires[-1]) == len(fires)
    for earlier, later in pairwise(map(to_ms, fires)):
        assert schedule.prev_at_or_before_ms(later) == later
        assert schedule.prev_at_or_before_ms(later - 1) == earlier


@pytest.mark.parametrize("row", rows("refused"))
def test_refused(row: dict[str, Any]) -> None:
    """An invalid text is refused with the field, the position, the token and the code of its vector."""
    with pytest.raises(ScheduleError) as caught:
        parse(row)
    error, wanted = caught.value, row["error"]
    code = CONTRADICTED.get(row["id"], wanted["code"])
    assert (error.field, error.position, error.token, error.code) == (wanted["field"], wanted["position"], wanted["token"], code)
    asked = re.search(r"Did you mean '?(.+?)'?\?", wanted["message"])
    if asked:
        assert error.suggestion == asked[1]
        assert asked[1] in error.message


@pytest.mark.parametrize("row", rows("refused"))
def test_suggestions_are_accepted(row: dict[str, Any]) -> None:
    """A suggestion, put in the place of what was refused, is not refused for the same reason again."""
    with pytest.raises(ScheduleError) as caught:
        parse(row)
    error = caught.value
    if error.suggestion is None or error.field == "timezone":
        return
    mended = row["expr"].replace(error.token, error.suggestion, 1) if error.position else error.suggestion
    try:
        parse_schedule(mended)
    except ScheduleError as again:
        assert (again.position, again.token, again.code) != (error.position, error.token, error.code)


@pytest.mark.parametrize("row", rows("drawn"))
def test_drawn(row: dict[str, Any]) -> None:
    """A text with H or ~ keeps the properties of its vector: how often it fires, how far apart, and on which values."""
    wanted = row["property"]
    schedule = parse(row)
    after = datetime.fromisoformat(row["after"])
    number, unit = int(wanted["window"][:-1]), wanted["window"][-1]
    until = after + (timedelta(hours=number) if unit == "h" else timedelta(days=number))
    fires = fires_until(schedule, after - timedelta(seconds=1), until - timedelta(seconds=1))
    if "count" in wanted:
        assert len(fires) == wanted["count"]
    if "gap_s" in wanted:
        gaps = {(later - earlier).total_seconds() for earlier, later in pairwise(fires)}
        assert gaps == {wanted["gap_s"]}
    readings = {
        "second": {fire.second for fire in fires},
        "minute": {fire.minute for fire in fires},
        "hour": {fire.hour for fire in fires},
        "dom": {fire.day for fire in fires},
        "dow": {fire.isoweekday() % 7 for fire in fires},
    }
    for name, values in readings.items():
        if name in wanted:
            low, high = wanted[name]
            assert low <= min(values) <= max(values) <= high
    if "hours" in wanted:
        assert readings["hour"] == set(wanted["hours"])
    if wanted.get("stable"):
        assert fires == fires_until(parse(row), after - timedelta(seconds=1), until - timedelta(seconds=1))


@pytest.mark.parametrize("row", rows("spread"))
def test_spread(row: dict[str, Any]) -> None:
    """H reaches all values over many job ids, with no value crowded and the fields independent of each other."""
    wanted = row["property"]
    after = datetime.fromisoformat(row["after"]) - timedelta(seconds=1)
    fires = [parse(row, job_id=f"job-{number}").next_after(after) for number in range(wanted["ids"])]
    minutes = Counter(fire.minute for fire in fires if fire is not None)
    pairs = {(fire.hour, fire.minute) for fire in fires if fire is not None}
    if "distinct_minutes" in wanted:
        assert len(minutes) == wanted["distinct_minutes"]
        assert max(minutes.values()) / wanted["ids"] <= wanted["max_share"]
    if "distinct_minute_hour" in wanted:
        assert len(pairs) >= wanted["distinct_minute_hour"]
