"""cronpad beside croniter and cronsim, on the texts on which all of them agree."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from croniter import croniter
from cronsim import CronSim, CronSimError

from cronpad_core.schedules import parse_schedule


def plain_field(chance: random.Random, low: int, high: int) -> str:
    """A random field of numbers, ranges, lists and steps."""
    kind = chance.randrange(5)
    first = chance.randrange(low, high)
    last = chance.randrange(first + 1, high + 1)
    if kind == 0:
        return "*"
    if kind == 1:
        return f"*/{chance.randrange(2, 9)}"
    if kind == 2:
        return f"{first}-{last}"
    if kind == 3:
        return ",".join(str(chance.randrange(low, high + 1)) for _ in range(chance.randrange(1, 4)))
    return f"{first}-{last}/{chance.randrange(1, 5)}"


def plain_text(chance: random.Random) -> str:
    """A random text with at most one restricted day field that does not start with a star, which engines read alike."""
    minute, hour, month = plain_field(chance, 0, 59), plain_field(chance, 0, 23), plain_field(chance, 1, 12)
    day, weekday = "*", "*"
    if chance.random() < 0.5:
        day = plain_field(chance, 1, 28)
    else:
        weekday = plain_field(chance, 0, 6)
    return f"{minute} {hour} {day} {month} {weekday}"


def cronpad_fires(text: str, start: datetime, count: int) -> list[datetime]:
    """The first fires after the start."""
    schedule = parse_schedule(text)
    fires: list[datetime] = []
    at = start
    while len(fires) < count:
        fire = schedule.next_after(at)
        assert fire is not None
        fires.append(fire)
        at = fire
    return fires


def test_agrees_with_croniter_in_utc() -> None:
    """On plain texts in UTC the fires are croniter's, forwards and backwards."""
    chance = random.Random(11)
    for _ in range(250):
        text = plain_text(chance)
        start = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=chance.randrange(5_000_000))
        walk = croniter(text, start, ret_type=datetime)
        assert cronpad_fires(text, start, 6) == [walk.get_next() for _ in range(6)], text
        before = croniter(text, start, ret_type=datetime).get_prev()
        assert parse_schedule(text).prev_at_or_before(start - timedelta(seconds=1)) == before, text


def test_agrees_with_cronsim_in_utc() -> None:
    """On plain texts in UTC, stars with steps in both day fields among them, the fires are cronsim's."""
    chance = random.Random(13)
    for _ in range(250):
        text = plain_text(chance)
        if chance.random() < 0.5:
            minute, hour, _, month, _ = text.split()
            text = f"{minute} {hour} {plain_field(chance, 1, 28)} {month} {plain_field(chance, 0, 6)}"
        start = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=chance.randrange(5_000_000))
        try:
            walk = CronSim(text, start)
            fires = [next(walk) for _ in range(6)]
        except (CronSimError, StopIteration):
            continue
        assert cronpad_fires(text, start, 6) == fires, text


def test_agrees_with_cronsim_on_extensions() -> None:
    """L, LW and # fire on cronsim's days."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    for text in ("0 0 L * *", "0 0 LW * *", "0 0 * * 5L", "0 0 * * 1#2", "30 6 * * 0#5", "0 0 L * 1#1", "0 12 L 2 *"):
        walk = CronSim(text, start)
        assert cronpad_fires(text, start, 40) == [next(walk) for _ in range(40)], text
