"""What holds for every schedule at every instant, over all zones and centuries."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.schedules import Timeline, parse_schedule

ZONES = sorted(available_timezones() - {"localtime", "posixrules"})
quick = settings(deadline=None, max_examples=200, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

MINUTES = st.sampled_from(["*", "0", "30", "*/15", "0,30", "59", "5/20", "10-40/10", "~", "H"])
HOURS = st.sampled_from(["*", "0", "2", "1-3", "23", "*/6", "0,12", "H", "0-23/5"])
DAYS = st.sampled_from(["*", "?", "1", "31", "L", "L-2", "LW", "15W", "1W", "*/10", "1-7", "29"])
MONTHS = st.sampled_from(["*", "2", "3,10,11", "*/3", "JAN-JUN", "12"])
WEEKDAYS = st.sampled_from(["*", "?", "0", "7", "MON-FRI", "1#1", "5L", "SUN#5", "*/2", "FRI-SUN"])
YEARS = st.sampled_from(["*", "2026", "2020-2030", "1970/7", "2199"])
FIVE = st.tuples(MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS).map(" ".join)
SIX = st.tuples(MINUTES, FIVE).map(" ".join)
SEVEN = st.tuples(SIX, YEARS).map(" ".join)
INTERVALS = st.sampled_from(["every 7m", "every 1h30m", "every 1s", "every 10d", "every 90 minutes"])
ONCE = st.sampled_from(["at 2026-03-29T02:30", "at 2025-11-02 01:30", "at 1999-12-31T23:59:59Z", "at 2040-02-29T00:00+05:45"])
ONE_TEXT = st.one_of(FIVE, FIVE, SIX, SEVEN, INTERVALS, ONCE)
TEXTS = st.one_of(ONE_TEXT, st.lists(ONE_TEXT, min_size=1, max_size=3))
INSTANTS = st.one_of(
    st.integers(-2_000_000_000_000, 4_000_000_000_000),
    st.integers(1_700_000_000_000, 1_900_000_000_000),
    st.integers(28_000_000, 31_000_000).map(lambda minute: minute * 60_000),
)
RULES = st.one_of(
    st.none(),
    st.just("cron"),
    st.fixed_dictionaries(
        {}, optional={"gap": st.sampled_from(["run_after", "skip", "shift"]), "fold": st.sampled_from(["first", "last", "both"])}
    ),
)


def build(text: str | list[str], zone: str, dst: dict[str, str] | str | None) -> Timeline:
    """The schedule, seeded so that H and ~ are drawn."""
    return parse_schedule(text, timezone=zone, job_id="job", dst=dst)


@quick
@given(text=TEXTS, zone=st.sampled_from(ZONES), dst=RULES, instant=INSTANTS)
def test_next_previous_and_count_agree(text: str | list[str], zone: str, dst: dict[str, str] | str | None, instant: int) -> None:
    """Next is strictly later, nothing lies between, previous and count name the same fire, and walking on goes on."""
    schedule = build(text, zone, dst)
    at = instant
    for _ in range(4):
        fire = schedule.next_after_ms(at)
        previous = schedule.prev_at_or_before_ms(at)
        assert previous is None or previous <= at
        if fire is None:
            assert schedule.next_after_ms(at + 86_400_000) is None
            return
        assert fire > at
        assert schedule.prev_at_or_before_ms(fire) == fire
        assert schedule.prev_at_or_before_ms(fire - 1) == previous
        assert schedule.next_after_ms(fire - 1) == fire
        assert schedule.count_between_ms(at, fire) == 1
        assert schedule.count_between_ms(at, fire - 1) == 0
        if previous is not None:
            assert schedule.next_after_ms(previous - 1) == previous
            assert schedule.next_after_ms(previous) == fire
        at = fire


@quick
@given(text=FIVE, zone=st.sampled_from(ZONES), dst=RULES, instant=INSTANTS, hours=st.integers(1, 24 * 90))
def test_count_equals_the_walk(text: str, zone: str, dst: dict[str, str] | str | None, instant: int, hours: int) -> None:
    """Counting a range gives the number of fires that a walk through it meets, as far as the walk is carried."""
    schedule = build(text, zone, dst)
    until = instant + hours * 3_600_000
    total, at = 0, schedule.next_after_ms(instant)
    while at is not None and at <= until and total < 300:
        total += 1
        last = at
        at = schedule.next_after_ms(at)
    if total == 300:
        until = last
    assert schedule.count_between_ms(instant, until) == total
    assert schedule.count_between_ms(until, instant) == 0


@quick
@given(text=TEXTS, zone=st.sampled_from(ZONES), instant=INSTANTS)
def test_datetimes_and_milliseconds_say_the_same(text: str | list[str], zone: str, instant: int) -> None:
    """The datetime methods are the millisecond methods with the answer in the schedule's zone."""
    schedule = build(text, zone, None)
    at = datetime.fromtimestamp(instant // 1000, UTC)
    fire = schedule.next_after(at)
    fire_ms = schedule.next_after_ms(instant // 1000 * 1000)
    if fire is None or fire_ms is None:
        assert fire is None and fire_ms is None
        return
    assert fire.timestamp() * 1000 == fire_ms
    assert fire.utcoffset() == datetime.fromtimestamp(fire_ms / 1000, ZoneInfo(zone)).utcoffset()
    assert schedule.count_between(at, fire) == 1


@pytest.mark.parametrize("start", ["0001-01-01T00:00:00+00:00", "1700-06-01T00:00:00+00:00", "9998-01-01T00:00:00+00:00"])
def test_the_ends_of_the_calendar(start: str) -> None:
    """At the ends of the calendar schedules answer or say never; nothing overflows."""
    at = datetime.fromisoformat(start)
    for text in ("* * * * *", "0 0 29 2 *", "30 2 * * *", "0 0 0 1 1 * 2100", "every 1h", "at 2026-01-01T00:00"):
        for zone in ("UTC", "America/New_York", "Pacific/Kiritimati"):
            schedule = parse_schedule(text, timezone=zone)
            fire = schedule.next_after(at)
            assert fire is None or fire.timestamp() > at.timestamp()
            schedule.prev_at_or_before(at)
    late = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    for zone in ("UTC", "America/New_York", "Pacific/Kiritimati"):
        schedule = parse_schedule("* * * * *", timezone=zone)
        assert schedule.next_after(late) is None
        assert schedule.prev_at_or_before(late) is not None


FRAGMENTS = ["*", "/", "-", ",", "#", "L", "W", "H", "~", "?", "(", ")", "0", "7", "59", "61", "MON", "jan", "@", "every", "at"]
FRAGMENTS += [
    "daily",
    " ",
    "\t",
    "\xa0",
    "¹",
    "2026-01-01",
    "T",
    ":",
    "+02:00",
    "Z",
    "s",
    "m",
    "h",
    "1.5",
    "SUNDAY",
    "TZ=UTC",
    "\0",
]
LOOSE = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)
FIELDS = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=4).map(lambda parts: "".join(parts).strip() or "*")
SHAPED = st.lists(FIELDS, min_size=5, max_size=7).map(" ".join)
AFTER_EVERY = st.text(max_size=12).map(lambda rest: f"every {rest}")
AFTER_AT = st.text(alphabet="0123456789-:TZ +abc", max_size=24).map(lambda rest: f"at {rest}")


@settings(deadline=None, max_examples=1000, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(text=st.one_of(st.text(max_size=40), LOOSE, SHAPED, AFTER_EVERY, AFTER_AT))
def test_any_text_parses_or_is_refused(text: str) -> None:
    """Whatever is written either parses and can be asked, or is refused with a ScheduleError that names a code."""
    try:
        schedule = parse_schedule(text, timezone="Europe/Berlin", job_id="job")
    except ScheduleError as error:
        assert error.code
        assert error.message
        assert (error.position is None) or 1 <= error.position <= 7
        assert error.token == "" or error.token.lower() in text.lower() or " " in error.token
        return
    fire = schedule.next_after_ms(1_700_000_000_000)
    assert fire is None or fire > 1_700_000_000_000


def test_damaged_texts_parse_or_are_refused() -> None:
    """Valid texts with characters dropped, doubled or swapped parse or are refused, never anything else."""
    chance = random.Random(7)
    seeds = [
        "0 9 * * 1-5",
        "*/15 0-6/2 1,15,L * MON#1,5L",
        "H(0-29)/10 ~/5 * JAN-MAR ?",
        "every 1h30m",
        "at 2026-12-24T18:00+02:00",
    ]
    for _ in range(2000):
        letters = list(chance.choice(seeds))
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(letters))
            letters[at : at + 1] = chance.choice([[], [letters[at]] * 2, [chance.choice("*/-,#LWH~?() 059a")]]) or [" "]
        try:
            parse_schedule("".join(letters), job_id="job")
        except ScheduleError as error:
            assert error.code
