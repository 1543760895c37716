"""What becomes of an alert on its way: gathered, limited, snoozed, tried again, given up, dropped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronpad_core.domain.alerts import AlertItem, AlertKind, AlertRate, AlertRule
from cronpad_core.domain.outbox import (
    AlertBrief,
    AlertChannel,
    AlertEntry,
    AlertReport,
    AlertStatus,
    back_off_ms,
    choose_dropped,
    place,
    settle_entry,
    snooze_channel,
)
from cronpad_core.domain.timing import DAY, HOUR, MINUTE, SECOND
from cronpad_testkit.samples import T0

RULE = AlertRule(name="on-call")
CHANNEL = AlertChannel(name="on-call")


def item(number: int = 0, kind: AlertKind = AlertKind.RUN_FAILED, job_id: str = "job_a") -> AlertItem:
    return AlertItem(id=f"al_{number}", kind=kind, job_id=job_id, job_name="a", run_id=None, at_ms=T0, text="")


def put(
    rule: AlertRule, *offsets: int, channel: AlertChannel = CHANNEL, kind: AlertKind = AlertKind.RUN_FAILED
) -> list[tuple[int, int]]:
    """Places items of several jobs at these times; answers of each entry when it is due and how many it holds."""
    entries: dict[str, AlertEntry] = {}
    gathering: AlertEntry | None = None
    for number, offset in enumerate(offsets):
        one = item(number, kind, f"job_{number}")
        entry, channel = place(rule, one, T0 + offset, channel, gathering)
        assert entry is not None
        entries[entry.id] = entry
        gathering = entry if entry.gathering else gathering
    return [(entry.next_at_ms - T0, len(entry.items)) for entry in entries.values()]


def test_without_rules_an_alert_goes_out_at_once() -> None:
    """Each on its own, in its job's lane."""
    assert put(RULE, 0, 1, 2) == [(0, 1), (1, 1), (2, 1)]
    entry, _ = place(RULE, item(), T0, CHANNEL, None)
    assert entry is not None
    assert (entry.lane, entry.gathering, entry.give_up_at_ms) == ("job_a", False, T0 + 3 * DAY)


def test_what_comes_within_the_window_is_gathered() -> None:
    """The first waits for the others; what comes after its window begins another."""
    rule = replace(RULE, group_for_ms=5_000)
    assert put(rule, 0, 10, 4_999, 5_000) == [(5_000, 3), (10_000, 1)]


def test_the_same_thing_is_gathered_once() -> None:
    """An item that is in the entry already does not change it."""
    rule = replace(RULE, group_for_ms=5_000)
    entry, _ = place(rule, item(), T0, CHANNEL, None)
    assert place(rule, item(), T0 + 1, CHANNEL, entry) == (None, CHANNEL)


def test_an_entry_has_a_bound() -> None:
    """Beyond a hundred items the rest is counted."""
    entry, channel = place(replace(RULE, group_for_ms=5_000), item(), T0, CHANNEL, None)
    for number in range(1, 150):
        entry, channel = place(RULE, item(number), T0 + 1, channel, entry)
    assert entry is not None
    assert (len(entry.items), entry.left_out) == (100, 50)


def test_a_rate_lets_so_many_through() -> None:
    """What is more goes into one entry at the end of the window, which counts in the next."""
    rule = replace(RULE, rate=AlertRate(max=2, per_ms=MINUTE))
    assert put(rule, 0, 1, 2, 3, MINUTE - 1) == [(0, 1), (1, 1), (MINUTE, 3)]
    assert put(rule, 0, 1, 2, MINUTE, MINUTE + 1, MINUTE + 2) == [(0, 1), (1, 1), (MINUTE, 1), (MINUTE, 1), (2 * MINUTE, 2)]


def test_a_snoozed_alert_waits_until_then() -> None:
    """What comes meanwhile is gathered; a snooze that is past means nothing."""
    snoozed = replace(CHANNEL, snoozed_until_ms=T0 + HOUR)
    assert put(RULE, 0, 1, MINUTE, HOUR, channel=snoozed) == [(HOUR, 3), (HOUR, 1)]
    assert put(RULE, HOUR + 1, channel=snoozed) == [(HOUR + 1, 1)]


def test_what_is_over_while_snoozed_is_not_told() -> None:
    """A failure and the recovery from it cancel each other out; those of other jobs stay."""
    snoozed = replace(CHANNEL, snoozed_until_ms=T0 + HOUR)
    entry, _ = place(RULE, item(0), T0, snoozed, None)
    entry, _ = place(RULE, item(1, job_id="job_b"), T0 + 1, snoozed, entry)
    entry, _ = place(RULE, item(2, AlertKind.RUN_RECOVERED), T0 + 2, snoozed, entry)
    assert entry is not None
    assert [one.id for one in entry.items] == ["al_1"]
    entry, _ = place(RULE, item(3, AlertKind.RUN_RECOVERED, "job_b"), T0 + 3, snoozed, entry)
    assert entry is not None
    assert entry.items == ()


def test_a_snooze_that_is_ended_lets_go() -> None:
    """What was gathered for it is due at once; what gathers for another reason keeps its time."""
    snoozed = replace(CHANNEL, snoozed_until_ms=T0 + HOUR)
    entry, _ = place(RULE, item(), T0, snoozed, None)
    channel, moved = snooze_channel(snoozed, entry, 0, T0 + SECOND)
    assert moved is not None
    assert (channel.snoozed_until_ms, moved.next_at_ms) == (0, T0 + SECOND)
    grouped, _ = place(replace(RULE, group_for_ms=5_000), item(), T0, CHANNEL, None)
    assert snooze_channel(CHANNEL, grouped, 0, T0 + SECOND)[1] == grouped
    _, longer = snooze_channel(CHANNEL, grouped, T0 + DAY, T0)
    assert longer is not None
    assert longer.next_at_ms == T0 + DAY


def test_pauses_grow_to_an_hour() -> None:
    """5 s, doubled with each try, an hour at most."""
    assert [back_off_ms(tries) // SECOND for tries in (1, 2, 3, 10, 11, 1_000)] == [5, 10, 20, 2_560, 3_600, 3_600]


def settle(*reports: tuple[int, str | None], kind: AlertKind = AlertKind.RUN_FAILED) -> tuple[AlertEntry, AlertChannel, int]:
    """An entry after tries at these times; and how often somebody is to be told that it fails."""
    entry, channel = place(RULE, item(kind=kind), T0, CHANNEL, None)
    assert entry is not None
    count = 0
    for offset, error in reports:
        entry, channel, tell = settle_entry(entry, channel, AlertReport(entry_id=entry.id, now_ms=T0 + offset, error=error))
        count += tell
    return entry, channel, count


def test_what_was_sent_is_settled() -> None:
    """Its channel is well again."""
    entry, channel, told = settle((0, "down"), (5_000, "down"), (15_000, None))
    assert (entry.status, entry.tries, entry.error, entry.settled_at_ms) == (AlertStatus.DELIVERED, 3, "", T0 + 15_000)
    assert (channel.failures, channel.rest_until_ms, told) == (0, 0, 0)


def test_what_was_not_sent_is_tried_again() -> None:
    """With the error kept, and the channel at rest."""
    entry, channel, _ = settle((0, "down"), (5_000, "still down"))
    assert (entry.status, entry.next_at_ms, entry.error) == (AlertStatus.PENDING, T0 + 15_000, "still down")
    assert not channel.free(T0 + 14_999)
    assert channel.free(T0 + 15_000)


def test_an_episode_of_failing_is_told_once() -> None:
    """At the third failure in a row; and again only after it had worked in between."""
    many = [(n * HOUR, "down") for n in range(10)]
    assert settle(*many[:2])[2] == 0
    assert settle(*many)[2] == 1


@pytest.mark.parametrize(("kind", "lasts_ms"), [(AlertKind.RUN_FAILED, 3 * DAY), (AlertKind.RUN_SUCCEEDED, 10 * MINUTE)])
def test_it_is_given_up_in_the_end(kind: AlertKind, lasts_ms: int) -> None:
    """An alert three days after its first try, a heartbeat after ten minutes: undelivered, and kept."""
    before = settle((0, "down"), (lasts_ms - 1, "down"), kind=kind)[0]
    after = settle((0, "down"), (lasts_ms, "down"), kind=kind)[0]
    assert (before.status, after.status) == (AlertStatus.PENDING, AlertStatus.UNDELIVERED)
    assert (after.error, after.settled_at_ms) == ("down", T0 + lasts_ms)


def test_a_final_report_gives_up_at_once() -> None:
    """Where there will be no other try."""
    entry, _ = place(RULE, item(), T0, CHANNEL, None)
    assert entry is not None
    settled, _, _ = settle_entry(entry, CHANNEL, AlertReport(entry_id=entry.id, now_ms=T0, error="gone", final=True))
    assert settled.status is AlertStatus.UNDELIVERED


def test_a_rest_of_a_clock_that_was_ahead_is_over() -> None:
    """A rest further ahead than the longest pause does not count."""
    assert replace(CHANNEL, rest_until_ms=T0 + 2 * HOUR).free(T0)
    assert not replace(CHANNEL, rest_until_ms=T0 + HOUR).free(T0)


def test_resolved_pairs_make_room_first() -> None:
    """The oldest failure that was recovered from, then the oldest of all."""
    kinds = [AlertKind.RUN_FAILED, AlertKind.RUN_FAILED, AlertKind.RUN_RECOVERED, AlertKind.RUN_FAILED]
    lanes = ["job_a", "job_b", "job_b", "job_c"]
    waiting = [
        AlertBrief(id=f"al_{n}", name="on-call", lane=lane, kind=kind)
        for n, (lane, kind) in enumerate(zip(lanes, kinds, strict=True))
    ]
    assert [one.id for one in choose_dropped(waiting, 2)] == ["al_1", "al_2"]
    assert [one.id for one in choose_dropped(waiting, 3)] == ["al_1", "al_2", "al_0"]
    other = [replace(waiting[1], name="other"), *waiting[2:]]
    assert [one.id for one in choose_dropped(other, 1)] == ["al_1"]
