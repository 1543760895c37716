"""Reading schedule texts: kinds, spellings, warnings, sharing, and refusals that help."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.ports.schedule import Schedule
from cronpad_core.schedules import Timeline, parse_schedule
from cronpad_core.schedules.zones import load_zone, segments_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def fires(schedule: Timeline, count: int, start: datetime = START) -> list[str]:
    """The next fires as text."""
    found: list[str] = []
    at = start
    for _ in range(count):
        fire = schedule.next_after(at)
        if fire is None:
            break
        found.append(fire.isoformat())
        at = fire
    return found


def refusal(text: str, **options: str) -> ScheduleError:
    """The error that the text is refused with."""
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(text, **options)  # type: ignore[arg-type]  # tests pass wrong options on purpose
    return caught.value


def test_a_schedule_keeps_the_port_s_promise() -> None:
    """What parse_schedule gives fits the port that the engine asks for."""
    schedule: Schedule = parse_schedule("0 9 * * *")
    assert schedule.texts == ("0 9 * * *",)
    assert schedule.warnings == ()


def test_a_naive_datetime_is_refused() -> None:
    """A datetime without a zone names no instant: ValueError, in every method."""
    schedule = parse_schedule("0 9 * * *")
    naive = datetime(2026, 1, 1)
    for call in (schedule.next_after, schedule.prev_at_or_before, schedule.note_for):
        with pytest.raises(ValueError, match="naive"):
            call(naive)
    with pytest.raises(ValueError, match="naive"):
        schedule.count_between(naive, naive)
    with pytest.raises(ValueError, match="naive"):
        parse_schedule("every 1h", anchor=naive)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("@Daily", "0 0 * * *"),
        (" 0\t9  * * * ", "0 9 * * *"),
        ("0 9 ? * MON", "0 9 * * 1"),
        ("0 0 * * FRI-SUN", "0 0 * * 5,6,7"),
        ("0 0 * * L5", "0 0 * * FRI#L"),
        ("0 0 lw * *", "0 0 LW * *"),
        ("0 0 w15 * *", "0 0 15W * *"),
        ("5/15 * * * *", "5-59/15 * * * *"),
        ("0 0 * * 4/2", "0 0 * * 4,6"),
        ("0,0,0 * * * *", "0 * * * *"),
        ("0 0 * * 5-5", "0 0 * * 5"),
        ("007 09 * * *", "7 9 * * *"),
        ("0 0 9 * * *", "0 9 * * *"),
        ("0 0 9 * * * *", "0 9 * * *"),
    ],
)
def test_spellings(text: str, same: str) -> None:
    """Different spellings of one schedule fire at the same instants."""
    assert fires(parse_schedule(text), 5) == fires(parse_schedule(same), 5)


def test_texts_are_kept_as_written() -> None:
    """The schedule tells the text of its user, blanks and all."""
    assert parse_schedule(" @Daily ").texts == (" @Daily ",)
    assert parse_schedule(["0 9 * * *", "every 1h"]).texts == ("0 9 * * *", "every 1h")


def test_parsed_texts_are_shared() -> None:
    """Equal texts are parsed once, for all jobs alike unless something is drawn from the job's id."""
    assert parse_schedule("1 2 * * THU", job_id="a") is parse_schedule("1 2 * * THU", job_id="b")
    assert parse_schedule("H 2 * * *", job_id="a") is not parse_schedule("H 2 * * *", job_id="b")
    assert parse_schedule("1 2 * * *") is not parse_schedule("1 2 * * *", timezone="Europe/Riga")


def test_the_year_field_reaches_2199() -> None:
    """The last year of the year field is found from far away, and is the end."""
    schedule = parse_schedule("0 0 0 1 1 * 2199")
    assert fires(schedule, 2) == ["2199-01-01T00:00:00+00:00"]
    assert schedule.prev_at_or_before(datetime(2300, 1, 1, tzinfo=UTC)) == datetime(2199, 1, 1, tzinfo=UTC)
    assert schedule.prev_at_or_before(datetime(2198, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30W 2 *", "0 0 0 29 2 * 2026"])
def test_a_text_that_never_fires(text: str) -> None:
    """A text that can never fire parses; next and previous are None and the count is 0."""
    for zone in ("UTC", "Europe/Berlin", "Asia/Kolkata"):
        schedule = parse_schedule(text, timezone=zone)
        assert schedule.next_after(START) is None
        assert schedule.prev_at_or_before(START) is None
        assert schedule.count_between(START, datetime(2100, 1, 1, tzinfo=UTC)) == 0


def test_never_is_known_at_once() -> None:
    """That a text never fires is found without looking further into the zone than a year around the question."""
    table = segments_of(load_zone("Asia/Colombo"))
    assert parse_schedule("* * * * *", timezone="Asia/Colombo").next_after(START)
    asked = table.snapshot
    schedule = parse_schedule("0 0 30 2 *", timezone="Asia/Colombo")
    assert schedule.next_after(START) is None
    assert schedule.prev_at_or_before(START) is None
    assert table.snapshot is asked


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("*/90 * * * *", "every 90m"),
        ("0 0 13 * FRI", "either of them"),
        ("30 2 * * *", "skips a time"),
        ("30 2 * * *", "repeats a time"),
        ("at 2026-03-29T02:30", "skips this time"),
        ("H * * * *", "job's id"),
    ],
)
def test_warnings(text: str, words: str) -> None:
    """What looks like a slip is accepted with a warning in words."""
    assert any(words in warning for warning in parse_schedule(text, timezone="Europe/Berlin").warnings)


@pytest.mark.parametrize("text", ["0 9 * * *", "*/30 2 * * *", "0 0 1 * *", "0 0 * * 1", "every 1h", "at 2026-07-01T02:30"])
def test_no_warning_without_reason(text: str) -> None:
    """Ordinary texts carry no warning, nor do wildcard jobs, which simply follow the clock."""
    assert parse_schedule(text, timezone="Europe/Berlin").warnings == ()


def test_no_clock_warning_in_a_zone_without_changes() -> None:
    """Where the clock never changes, no time is in a clock change."""
    assert parse_schedule("30 2 * * *", timezone="UTC").warnings == ()
    assert parse_schedule("30 2 * * *", timezone="Asia/Kolkata").warnings == ()


def test_a_refused_text_of_a_list_is_pointed_at() -> None:
    """In a list the refusal says which of the texts it is about."""
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(["0 9 * * *", "61 * * * *"])
    assert caught.value.token == "61"
    assert caught.value.hint == "This is text 2 of 2: '61 * * * *'."
    with pytest.raises(ScheduleError) as caught:
        parse_schedule([])
    assert caught.value.code == "empty"


def test_a_list_of_one_is_that_text() -> None:
    """A list of one text is the schedule of that text."""
    assert parse_schedule(["0 9 * * *"]) is parse_schedule("0 9 * * *")


def test_tokens_are_as_the_user_wrote_them() -> None:
    """The offending part is given in the user's own spelling, case included."""
    assert refusal("every 5X").token == "X"
    assert refusal("Every Monday AT 9").token == "Monday"
    assert refusal("0 0 * * Sunday").token == "Sunday"
    assert refusal("EVERY 1.5H").token == "1.5H"


def test_an_overlong_text_is_refused_at_once() -> None:
    """A text of unreasonable length is refused without reading it."""
    assert refusal("1," * 5000 + "1 * * * *").code == "too-long"


@pytest.mark.parametrize("digits", ["9" * 4000, "0" * 4000])
def test_long_numbers_do_no_harm(digits: str) -> None:
    """Thousands of digits are a number out of range, a step too large or a zero, never a crash."""
    for text in (f"{digits} * * * *", f"*/{digits} * * * *", f"H/{digits} * * * *", f"0 0 L-{digits} * *", f"every {digits}s"):
        try:
            parse_schedule(text)
        except ScheduleError as error:
            assert error.code


@pytest.mark.parametrize(
    ("text", "code", "suggestion"),
    [
        ("every", "interval-missing", "every 30s"),
        ("every 5", "interval-unit", "every 5s"),
        ("every .5h", "interval-fraction", "every 30m"),
        ("every 5m5m", "interval-unit", None),
        ("every 1h -5m", "interval-format", "every 1h30m"),
        ("every tuesday at 18", "interval-day", "0 18 * * 2"),
        ("every day", "field-count", "@daily"),
        ("at 2026-12-24", "at-no-time", "at 2026-12-24T00:00"),
        ("at 2026-12-24T18:00 UTC", "at-zone", "at 2026-12-24T18:00"),
        ("at 2026-12-24T18:00:00.5", "at-format", "at 2026-12-24T18:00"),
        ("at 2026-02-29T10:00", "at-date", None),
        ("@dayly", "alias-unknown", "@daily"),
        ("@every 90s", "alias-every", "every 90s"),
        ("daily", "field-count", "@daily"),
        ("0 0 L-5W * *", "W-range", None),
        ("0 5L * * *", "letter-in-wrong-field", None),
        ("0 0 1 1 * 2026", "out-of-range", None),
        ("**/2 * * * *", "star-mixed", "*/2"),
        ("H(0-5 * * * *", "hash-syntax", "H(0-29)"),
        ("0 0 0 1 1 * H", "hash-syntax", None),
        ("0 0 0 1 1 * ~", "random-syntax", None),
    ],
)
def test_refusals_help(text: str, code: str, suggestion: str | None) -> None:
    """A refused text is answered with its code and, where one is near, a text that would be accepted."""
    error = refusal(text)
    assert (error.code, error.suggestion) == (code, suggestion)
    if suggestion and error.position is None:
        parse_schedule(suggestion)


@pytest.mark.parametrize(
    ("dst", "code"),
    [("utc", "dst"), ({"gaps": "skip"}, "dst-key"), ({"gap": "never"}, "dst-value"), ({"fold": "second"}, "dst-value")],
)
def test_a_wrong_clock_rule_is_refused(dst: dict[str, str] | str, code: str) -> None:
    """A dst setting that is not known is refused with what is allowed."""
    with pytest.raises(ScheduleError, match="allowed") as caught:
        parse_schedule("0 9 * * *", dst=dst)
    assert (caught.value.code, caught.value.field) == (code, "dst")


def test_importing_loads_no_croniter() -> None:
    """Importing the room is cheap: croniter comes with the first cron text, not before."""
    code = "import sys, cronpad_core.schedules as s; a = 'croniter' in sys.modules; s.parse_schedule('every 1h'); "
    code += "b = 'croniter' in sys.modules; s.parse_schedule('0 9 * * *'); print(a, b, 'croniter' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]
