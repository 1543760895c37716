"""Zones as segments: exact, complete, and the same however they were asked for."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo, _zoneinfo, available_timezones

import pytest
from slow_walk import changes

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.schedules.changes import FoldRule
from cronpad_core.schedules.cron import parse_cron
from cronpad_core.schedules.recurring import CronSchedule
from cronpad_core.schedules.zones import DISTANT, SegmentTable, load_zone

ZONES = sorted(available_timezones() - {"localtime", "posixrules"})
SAMPLE = ZONES[::40]
YEAR = 366 * 86400


def seconds(year: int) -> int:
    """Unix seconds of the start of a year."""
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


@pytest.mark.parametrize("name", [*SAMPLE, "Africa/Casablanca", "America/Argentina/San_Luis", "Africa/El_Aaiun", "Asia/Gaza"])
def test_segments_hold_every_change(name: str) -> None:
    """The segments of a zone begin exactly where a probe every six hours finds its offset to change."""
    table = SegmentTable(ZoneInfo(name))
    segments = table.cover(seconds(1970), seconds(2040))
    inside = {segment.start // 60 for segment in segments if seconds(1970) < segment.start < seconds(2041)}
    assert inside == {int(at.timestamp()) // 60 for at in changes(name, 1970, 2040)}


@pytest.mark.parametrize("name", ZONES[::20])
def test_segments_have_the_offset_of_the_zone(name: str) -> None:
    """At the start, in the middle and at the end of each segment its offset is the zone's, from 1850 to 2100."""
    zone = ZoneInfo(name)
    segments = SegmentTable(zone).cover(seconds(1850), seconds(2100))
    for segment in segments[1:-1]:
        for at in (segment.start, (segment.start + segment.end) // 2, segment.end - 1):
            offset = datetime.fromtimestamp(at, zone).utcoffset()
            assert offset == timedelta(seconds=segment.offset), (name, at)


def recorded_changes(name: str) -> list[int]:
    """The changes of offset that the zone's file lists, read by the standard library's own reader."""
    zone = _zoneinfo.ZoneInfo(name)
    before = zone._tti_before.utcoff if zone._tti_before else None
    found: list[int] = []
    for at, info in zip(zone._trans_utc, zone._ttinfos, strict=True):
        if info.utcoff != before:
            found.append(at)
            before = info.utcoff
    return found


def test_no_zone_changes_twice_within_a_probe() -> None:
    """No two changes of any zone lie so close together that probing every three days could step over both."""
    for name in ZONES:
        recorded = recorded_changes(name)
        assert all(later - earlier > 3 * 86400 for earlier, later in pairwise(recorded)), name
        assert not recorded or recorded[0] > seconds(1841), name


@pytest.mark.parametrize("part", range(8))
def test_segments_are_the_recorded_ones(part: int) -> None:
    """From 1840 to 2035 the segments of a zone begin at the very seconds that its file lists."""
    for name in ZONES[part::48]:
        segments = SegmentTable(ZoneInfo(name)).cover(seconds(1840), seconds(2036))
        inside = [segment.start for segment in segments[1:] if segment.start < seconds(2036)]
        assert inside == [at for at in recorded_changes(name) if at < seconds(2036)], name


def test_segments_do_not_depend_on_the_order_of_questions() -> None:
    """A table that grew downwards and upwards holds the same segments as one that was asked once."""
    zone = ZoneInfo("Europe/Berlin")
    grown = SegmentTable(zone)
    for year in (2020, 1950, 2040, 1930, 2060):
        grown.cover(seconds(year), seconds(year) + YEAR)
    whole = SegmentTable(zone).cover(seconds(1930), seconds(2061))
    inside = [segment for segment in whole if seconds(1931) < segment.start < seconds(2060)]
    assert [segment for segment in grown.snapshot if seconds(1931) < segment.start < seconds(2060)] == inside


def test_utc_is_one_segment() -> None:
    """UTC needs no probing: one segment from the beginning to the end of time."""
    (segment,) = SegmentTable(UTC).cover(0, 0)
    assert (segment.start, segment.end, segment.offset) == (-DISTANT, DISTANT, 0)


def test_many_threads_may_ask_at_once() -> None:
    """Readers in many threads get segments that hold what they asked for, while the table grows."""
    zone = ZoneInfo("America/New_York")
    table = SegmentTable(zone)
    wrong: list[int] = []

    def ask(first: int) -> None:
        for year in range(first, first + 60):
            segments = table.cover(seconds(year), seconds(year) + YEAR)
            if not segments[0].start <= seconds(year) < segments[-1].end:
                wrong.append(year)

    threads = [threading.Thread(target=ask, args=(first,)) for first in (1960, 2000, 1980, 2010)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class NewYearZone(tzinfo):
    """A zone whose clock goes back by an hour right after the turn of the year 2026 in UTC."""

    change = datetime(2026, 1, 1, 0, 30)

    def utcoffset(self, at: datetime | None) -> timedelta:
        """One hour before the change, none after."""
        assert at is not None
        late = at.replace(tzinfo=None) >= self.change + timedelta(hours=1) or (at.fold and at.replace(tzinfo=None) >= self.change)
        return timedelta(0) if late else timedelta(hours=1)

    def dst(self, at: datetime | None) -> timedelta:
        """Nothing asks for it."""
        return timedelta(0)

    def tzname(self, at: datetime | None) -> str:
        """Nothing asks for it."""
        return "NewYear"

    def fromutc(self, at: datetime) -> datetime:
        """The reading of the clock."""
        naive = at.replace(tzinfo=None)
        if naive < self.change:
            return (naive + timedelta(hours=1)).replace(tzinfo=self)
        return naive.replace(tzinfo=self, fold=int(naive < self.change + timedelta(hours=1)))


@pytest.mark.parametrize("fold", list(FoldRule))
def test_a_change_where_the_table_was_cut(fold: FoldRule) -> None:
    """A change just behind the years that were scanned first is not overlooked by windows that were handed out before."""
    zone = NewYearZone()
    cron = parse_cron("45 0 * * *", seed=None)
    walked = CronSchedule(text="", timezone="", zone=zone, cron=cron, fold=fold)
    at: int | None = int(datetime(2024, 11, 20, tzinfo=UTC).timestamp() * 1000)
    fires: list[int] = []
    while at is not None and at < seconds(2026) * 1000 + 86_400_000:
        at = walked.next_after_ms(at)
        fires.append(at or 0)
    first, second = seconds(2026) - 15 * 60, seconds(2026) + 45 * 60
    expected = {FoldRule.FIRST: {first}, FoldRule.LAST: {second}, FoldRule.BOTH: {first, second}}
    assert {fire // 1000 for fire in fires} & {first, second} == expected[fold]


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("Europe/Belrin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("utc", "UTC"),
        ("Mars/Base", None),
        ("right/Europe/Berlin", None),
        ("localtime", None),
        ("Europe", None),
        ("a\0b", None),
        ("Zürich", None),
        ("UTC+02:00", None),
        ("-05:00", None),
        (" ", None),
        ("x" * 500, None),
    ],
)
def test_unknown_zone(name: str, suggestion: str | None) -> None:
    """A name that is no IANA zone is refused as field timezone, with the zone that was probably meant."""
    with pytest.raises(ScheduleError) as caught:
        load_zone(name)
    error = caught.value
    assert (error.code, error.field, error.token) == ("timezone", "timezone", name)
    if suggestion:
        assert error.suggestion == suggestion
