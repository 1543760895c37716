"""The fast search against the slow walk over every UTC minute, around the clock changes of many zones."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import product

import pytest
from slow_walk import Stretch, changes

from cronpad_core.schedules import parse_schedule

ZONES = (
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Juba",
    "America/Asuncion",
    "America/Caracas",
    "America/Havana",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kolkata",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Europe/London",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kwajalein",
)
TEXTS = (
    "30 2 * * *",
    "0,30 1,2,3 * * *",
    "15 0,23 * * *",
    "45 1-3 * * 0",
    "* * * * *",
    "*/20 0-4 * * *",
    "30 * * * *",
    "59 23 L * *",
    "0 0 * * *",
    "10,20 30 0-23/2 * * *",
    "*/7 1 * * * 6",
)
RULES = [(None, None), *product(("run_after", "skip", "shift"), ("first", "last", "both"))]


@lru_cache(maxsize=64)
def stretches(zone: str) -> tuple[Stretch, ...]:
    """Three days around a few changes of the zone's clock, or around a new year where it never changes."""
    found = changes(zone, 2005, 2026) or [datetime(2024, 1, 1, tzinfo=UTC)]
    chosen = random.Random(zone).sample(found, min(2, len(found)))
    if zone in ("Pacific/Apia", "Pacific/Kwajalein", "Antarctica/Casey"):
        # The big jumps: over the date line, and by three hours and more.
        years = {"Pacific/Apia": 2011, "Pacific/Kwajalein": 1993, "Antarctica/Casey": 2010}
        chosen += changes(zone, years[zone], years[zone])
    return tuple(Stretch(zone, at - timedelta(hours=12), at + timedelta(hours=30)) for at in chosen)


def rules_of(gap: str | None, fold: str | None) -> dict[str, str] | None:
    """The dst setting of a pair of rules, ``None`` for cron's own."""
    return None if gap is None or fold is None else {"gap": gap, "fold": fold}


@pytest.mark.parametrize("zone", ZONES)
def test_next_skips_nothing_and_invents_nothing(zone: str) -> None:
    """Walking with next over a clock change gives exactly the fires of the slow walk, under every rule."""
    for stretch, text, (gap, fold) in product(stretches(zone), TEXTS, RULES):
        schedule = parse_schedule(text, timezone=zone, dst=rules_of(gap, fold))
        fires: list[int] = []
        at = schedule.next_after_ms(stretch.start * 1000 - 1)
        while at is not None and at < stretch.end * 1000:
            fires.append(at // 1000)
            later = schedule.next_after_ms(at)
            assert later is None or later > at
            at = later
        assert fires == stretch.fires(text, gap, fold), (text, gap, fold, stretch.start)


@pytest.mark.parametrize("zone", ZONES)
def test_previous_and_count_agree_with_the_walk(zone: str) -> None:
    """From random instants around a change, next, previous and count see the fires of the slow walk, under every rule."""
    chance = random.Random(f"{zone} backwards")
    for stretch, text, (gap, fold) in product(stretches(zone), TEXTS, RULES):
        schedule = parse_schedule(text, timezone=zone, dst=rules_of(gap, fold))
        fires = stretch.fires(text, gap, fold)
        for _ in range(2):
            low, high = sorted(chance.randrange(stretch.start, stretch.end) for _ in range(2))
            inside = [fire for fire in fires if low < fire <= high]
            assert schedule.count_between_ms(low * 1000, high * 1000) == len(inside), (text, gap, fold, low, high)
            before = [fire for fire in fires if fire <= high]
            if before:
                assert schedule.prev_at_or_before_ms(high * 1000) == before[-1] * 1000, (text, gap, fold, high)
            after = [fire for fire in fires if fire > low]
            if after:
                assert schedule.next_after_ms(low * 1000) == after[0] * 1000, (text, gap, fold, low)


@pytest.mark.parametrize("zone", ZONES[::3])
def test_random_texts_agree_with_the_walk(zone: str) -> None:
    """Random texts, extensions among them, fire as in the slow walk over a month that holds a clock change."""
    chance = random.Random(f"{zone} texts")
    middle = chance.choice(changes(zone, 2015, 2026) or [datetime(2024, 6, 15, tzinfo=UTC)])
    stretch = Stretch(zone, middle - timedelta(days=12), middle + timedelta(days=12))
    for _ in range(25):
        text = random_text(chance)
        schedule = parse_schedule(text, timezone=zone)
        fires = stretch.fires(text)
        start, end = stretch.start * 1000 - 1, stretch.end * 1000 - 1
        assert schedule.count_between_ms(start, end) == len(fires), text
        at = start
        for fire in fires[:200]:
            following = schedule.next_after_ms(at)
            assert following == fire * 1000, text
            at = following
        if fires:
            assert schedule.prev_at_or_before_ms(end) == fires[-1] * 1000, text


def random_text(chance: random.Random) -> str:
    """A cron text of plain and special items that often fires near the small hours."""
    minute = chance.choice(["*", "*/15", "0", "30", f"{chance.randrange(60)}", "0,20,40", "5/25", "10-50/20"])
    hour = chance.choice(["*", "*/2", "0", "1", "2", "3", "0-4", "23", "1,2,3", "0/3", f"{chance.randrange(24)}"])
    day = chance.choice(["*", "*", "*/2", "?", "L", "LW", "15W", "1W", "L-3", "1,15", "10-25", f"{chance.randrange(1, 32)}"])
    month = chance.choice(["*", "*", "*", "*/2", "MAR-OCT", "3,10,11", "JAN,APR,SEP"])
    weekday = chance.choice(["*", "*", "0", "SUN", "7", "MON-FRI", "5-7", "*/2", "1#2", "0L", "FRI#L", "2,4#1", "SAT-SUN"])
    return f"{minute} {hour} {day} {month} {weekday}"
