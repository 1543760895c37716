"""The promises H14 and O1 to O6 of a history: what is told of outcomes, and the outbox in which it waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cronpad_core.api import (
    HOUR,
    MINUTE,
    MOST_PENDING,
    SECOND,
    AlertCase,
    AlertEntry,
    AlertKind,
    AlertRate,
    AlertReport,
    AlertRule,
    AlertStatus,
    AttemptStatus,
    EndRequest,
    Millis,
    OpenKind,
    Quota,
    RecordKind,
    RunStatus,
    Storage,
    TermRecord,
    TermRefusedError,
)
from cronpad_testkit.samples import T0, fence, key, opening, ranging, result, slot
from cronpad_testkit.suites.storage import BuildStorage, StorageSuite, on_state, on_storage, opened

__all__ = ["HistoryAlertsSuite"]

_RULE = AlertRule(name="on-call")


def _case(
    kind: AlertKind = AlertKind.RUN_FAILED, number: int = 0, *, rule: AlertRule = _RULE, job_id: str = "job_a"
) -> AlertCase:
    return AlertCase(
        rules=(rule,),
        job_id=job_id,
        job_name=f"name of {job_id}",
        run_id=f"run_{number}",
        at_ms=T0 + number,
        kinds=(kind,),
        reason="exit code 3",
        facts={"status": "failed", "deep": [1, None, {"ü": 2.5}]},
    )


async def _tell(storage: Storage, *cases: AlertCase, at: int = 0) -> None:
    """Has each case told by a range that is written for it."""
    requests = [replace(ranging(T0 + 10 * n, T0 + 10 * n, number=5), alerts=case) for n, case in enumerate(cases, start=at)]
    assert len(await storage.history.add_ranges(requests, term=await _term(storage))) == len(cases)


async def _term(storage: Storage) -> int:
    return (await storage.history.read_term()).term


async def _take(storage: Storage, now_ms: Millis = T0 + MINUTE, *names: str) -> list[AlertEntry]:
    return await storage.history.take_alerts(names or ("on-call",), now_ms=now_ms, term=await _term(storage))


async def _settle(storage: Storage, entry: AlertEntry, error: str | None = None, *, at_ms: Millis = T0 + MINUTE) -> AlertEntry:
    report = AlertReport(entry_id=entry.id, now_ms=at_ms, error=error, others=("spare",))
    settled = await storage.history.settle_alert(report, term=await _term(storage))
    assert settled is not None
    return settled


def _kinds(entries: Sequence[AlertEntry]) -> list[str]:
    return [item.kind.value for entry in entries for item in entry.items]


class HistoryAlertsSuite(StorageSuite):
    """Alerts; a part of ``HistorySuite``."""

    @on_storage
    async def test_h14_results_are_told_once(self, storage: Storage) -> None:
        """H14: a recorded result is told for, a repeated or stale one is not; a second failure changes no state."""
        history = storage.history
        asked = [opening(slot(T0 + offset), 1 + offset) for offset in (0, 10)]
        await history.open_runs(asked)
        bad = (RunStatus.FAILED, AttemptStatus.FAILED)
        first, second = (replace(result(one, *bad), alerts=_case(number=n)) for n, one in enumerate(asked))
        assert [one.kind for one in await history.record([first, second])] == [RecordKind.RECORDED] * 2
        late = replace(second, attempt=replace(second.attempt, fence=fence(77)), alerts=_case(AlertKind.RUN_SUCCEEDED, 8))
        assert [one.kind for one in await history.record([first])] == [RecordKind.ALREADY]
        assert [one.kind for one in await history.record([late])] == [RecordKind.STALE]
        [entry] = await history.alerts()
        assert (entry.name, entry.status, entry.items[0].run_id) == ("on-call", AlertStatus.PENDING, "run_0")
        assert entry.items[0].facts == {"status": "failed", "deep": [1, None, {"ü": 2.5}], "failures": 1}

    @on_storage
    async def test_h14_what_nobody_asked_for_is_not_told(self, storage: Storage) -> None:
        """H14: without rules nothing is told and nothing is kept."""
        request = opening(slot(), 1)
        await storage.history.open_runs([request])
        await storage.history.record([result(request, RunStatus.FAILED, AttemptStatus.FAILED)])
        assert await storage.history.alerts() == []
        assert await storage.history.alert_channels() == []

    @on_storage
    async def test_h14_openings_ends_and_ranges_are_told(self, storage: Storage) -> None:
        """H14: a start, a quota that is used up, an end without an attempt, and missed slots; repeats are not told."""
        history = storage.history
        each = AlertRule(name="on-call", events=tuple(AlertKind), each=True)
        first = replace(opening(slot(), 1), alerts=(each,))
        for _ in range(2):
            assert [one.kind for one in await history.open_runs([first])] == [OpenKind.OPENED]
        full = replace(opening(slot(T0 + 10), 2), alerts=(each,), quota=Quota(max=0))
        assert [one.kind for one in await history.open_runs([full])] == [OpenKind.SKIPPED]
        await history.record([replace(result(first, RunStatus.RETRYING, AttemptStatus.FAILED), alerts=None)])
        end = EndRequest(
            key=key(),
            was=RunStatus.RETRYING,
            attempt=0,
            fence=fence(3),
            status=RunStatus.FAILED,
            reason="",
            now_ms=T0 + 5_000,
            alerts=_case(rule=each),
        )
        assert await history.end(end)
        assert not await history.end(end)
        missed = replace(ranging(T0, T0 + 50), alerts=_case(AlertKind.SLOT_MISSED, rule=each))
        assert await history.add_ranges([missed], term=0)
        assert await history.add_ranges([missed], term=0) == []
        told = _kinds(list(reversed(await history.alerts())))
        assert told == ["run_started", "quota_exceeded", "run_failed", "slot_missed"]

    @on_state
    async def test_h14_what_was_told_outlives_the_process(self, build: BuildStorage) -> None:
        """H14: failures in a row, and what was told of them, are counted over a restart."""
        self.needs("shared")
        rule = AlertRule(name="on-call", after=3)
        async with opened(build) as storage:
            await _tell(storage, *[_case(number=n, rule=rule) for n in range(2)])
            assert await storage.history.alerts() == []
        async with opened(build) as storage:
            await _tell(storage, *[_case(number=n, rule=rule) for n in range(2, 5)], at=2)
            assert [one.items[0].facts["failures"] for one in await storage.history.alerts()] == [3]
        async with opened(build) as storage:
            await _tell(storage, _case(AlertKind.RUN_SUCCEEDED, 5, rule=rule), at=5)
            assert _kinds(await storage.history.alerts()) == ["run_recovered", "run_failed"]

    @on_storage
    async def test_o1_an_entry_is_taken_once_under_a_term(self, storage: Storage) -> None:
        """O1: once under a term, again under a later one, with the same id; another term than the stored one is refused."""
        history = storage.history
        await _tell(storage, _case())
        [entry] = await _take(storage)
        assert await _take(storage) == []
        with pytest.raises(TermRefusedError):
            await history.take_alerts(("on-call",), now_ms=T0 + MINUTE, term=9)
        assert await history.swap_term(TermRecord(), TermRecord(term=1, holder="me"))
        assert await _take(storage) == [entry]
        with pytest.raises(TermRefusedError):
            await history.settle_alert(AlertReport(entry_id=entry.id, now_ms=T0), term=0)
        assert (await _settle(storage, entry)).status is AlertStatus.DELIVERED
        assert await _take(storage) == []

    @on_storage
    async def test_o2_a_lane_is_sent_in_order(self, storage: Storage) -> None:
        """O2: of one job the next follows when the one before is settled; other jobs, and other alerts, do not wait for it."""
        other, job_b = AlertRule(name="other"), _case(job_id="job_b", number=7)
        await _tell(storage, _case(), _case(AlertKind.RUN_SUCCEEDED, 1), job_b, _case(rule=other))
        names = ("on-call", "other", "unknown")
        first, elsewhere = await _take(storage, T0 + MINUTE, *names)
        [second] = await _take(storage, T0 + MINUTE, *names)
        assert await _take(storage, T0 + MINUTE, *names) == []
        assert _kinds([first, elsewhere, second]) == ["run_failed"] * 3
        assert (elsewhere.name, second.items[0].job_id) == ("other", "job_b")
        await _settle(storage, first)
        assert _kinds(await _take(storage)) == ["run_recovered"]

    @on_storage
    async def test_o3_a_failed_try_rests(self, storage: Storage) -> None:
        """O3, O4: after a failed try nothing of the alert is taken for 5 s, then what was tried least."""
        await _tell(storage, _case(), _case(job_id="job_b", number=1))
        [first] = await _take(storage)
        failed = await _settle(storage, first, "no route")
        assert (failed.status, failed.tries, failed.error) == (AlertStatus.PENDING, 1, "no route")
        assert await _take(storage, T0 + MINUTE + 4_999) == []
        [second] = await _take(storage, T0 + MINUTE + 5_000)
        assert second.items[0].job_id == "job_b"
        await _settle(storage, second, at_ms=T0 + MINUTE + 5_000)
        assert [one.id for one in await _take(storage, T0 + MINUTE + 5_000)] == [first.id]
        [channel] = await storage.history.alert_channels()
        assert (channel.failures, channel.rest_until_ms) == (0, 0)

    @on_storage
    async def test_o4_an_alert_that_fails_is_told_to_another_once(self, storage: Storage) -> None:
        """O4: at the third failure in a row another alert tells of it, once; what was sent or given up is settled for good."""
        history, now_ms = storage.history, T0 + MINUTE
        await _tell(storage, _case())
        for _ in range(5):
            [entry] = await _take(storage, now_ms)
            await _settle(storage, entry, "down", at_ms=now_ms)
            now_ms += HOUR
        [spare] = await _take(storage, now_ms, "spare")
        assert spare.kind is AlertKind.EMITTER_FAILING
        assert "on-call" in spare.items[0].text
        [entry] = await _take(storage, now_ms + 72 * HOUR)
        given_up = await _settle(storage, entry, "still down", at_ms=now_ms + 72 * HOUR)
        assert (given_up.status, given_up.tries, given_up.settled_at_ms) == (AlertStatus.UNDELIVERED, 6, now_ms + 72 * HOUR)
        again = AlertReport(entry_id=entry.id, now_ms=now_ms)
        assert await history.settle_alert(again, term=0) is None
        assert await history.settle_alert(replace(again, entry_id="al_nobody"), term=0) is None
        assert [one.name for one in await history.alerts(statuses=[AlertStatus.PENDING])] == ["spare"]
        assert await history.alerts(name="on-call") == [given_up]

    @on_storage
    async def test_o5_a_snoozed_alert_waits_and_tells_at_once(self, storage: Storage) -> None:
        """O3, O5: while it is snoozed nothing is taken; what happens meanwhile is told together, without what was over by then."""
        history, until_ms = storage.history, T0 + HOUR
        await _tell(storage, _case(job_id="job_z", number=9))
        await history.snooze_alert("on-call", until_ms=until_ms, now_ms=T0, term=0)
        await _tell(storage, _case(), _case(job_id="job_b", number=1), _case(AlertKind.RUN_SUCCEEDED, 2, job_id="job_b"), at=1)
        assert await _take(storage, until_ms - 1) == []
        [before] = await _take(storage, until_ms)
        await _settle(storage, before, at_ms=until_ms)
        [together] = await _take(storage, until_ms)
        assert [(item.job_id, item.kind.value) for item in together.items] == [("job_a", "run_failed")]

    @on_storage
    async def test_o5_a_snooze_can_be_ended(self, storage: Storage) -> None:
        """O5: where the time is past the alert goes on at once, with what was gathered meanwhile."""
        await storage.history.snooze_alert("on-call", until_ms=T0 + HOUR, now_ms=T0, term=0)
        await _tell(storage, _case())
        channel = await storage.history.snooze_alert("on-call", until_ms=0, now_ms=T0 + SECOND, term=0)
        assert await storage.history.alert_channels() == [channel]
        assert _kinds(await _take(storage, T0 + SECOND)) == ["run_failed"]

    @on_storage
    async def test_o3_what_is_gathered_is_taken_when_its_time_is_over(self, storage: Storage) -> None:
        """O3: a group takes in what comes within its window; once it is taken, the next begins another."""
        rule = AlertRule(name="on-call", group_for_ms=SECOND)
        await _tell(storage, *[_case(job_id=f"job_{n}", number=n, rule=rule) for n in range(3)])
        assert await _take(storage, T0 + 999) == []
        [group] = await _take(storage, T0 + SECOND)
        assert [item.job_id for item in group.items] == ["job_0", "job_1", "job_2"]
        await _tell(storage, _case(job_id="job_9", number=9, rule=rule), at=9)
        assert len(await storage.history.alerts()) == 2

    @on_storage
    async def test_o3_beyond_its_rate_alerts_are_told_together(self, storage: Storage) -> None:
        """O3: what is more than the rate allows waits for the next window, in one entry."""
        rule = AlertRule(name="on-call", rate=AlertRate(max=2, per_ms=MINUTE))
        await _tell(storage, *[_case(job_id=f"job_{n}", number=n, rule=rule) for n in range(6)])
        early = [entry for _ in range(3) for entry in await _take(storage, T0 + SECOND)]
        assert [len(one.items) for one in early] == [1, 1]
        [rest] = await _take(storage, T0 + MINUTE)
        assert [item.job_id for item in rest.items] == ["job_2", "job_3", "job_4", "job_5"]

    @on_storage
    async def test_o6_settled_entries_are_pruned(self, storage: Storage) -> None:
        """O6: those settled before then, and all but the newest; what waits stays."""
        history = storage.history
        await _tell(storage, *[_case(job_id=f"job_{n}", number=n) for n in range(5)])
        for n in range(4):
            [entry] = await _take(storage)
            await _settle(storage, entry, at_ms=T0 + MINUTE + n)
        assert await history.prune_alerts(before_ms=T0 + MINUTE + 1, keep=10, term=0) == 1
        assert await history.prune_alerts(before_ms=0, keep=2, term=0) == 1
        assert await history.prune_alerts(before_ms=0, keep=2, term=0) == 0
        left = [(one.items[0].job_id, one.status.value) for one in await history.alerts()]
        assert left == [("job_4", "pending"), ("job_3", "delivered"), ("job_2", "delivered")]
        assert [one.items[0].job_id for one in await history.alerts(limit=1)] == ["job_4"]

    @on_storage
    async def test_h14_the_outbox_is_bounded(self, storage: Storage) -> None:
        """H14: beyond 10,000 that wait, failures that were recovered from make room first; what was dropped is counted."""
        each = AlertRule(name="on-call", each=True)
        cases = [_case(job_id=f"job_{n}", number=n, rule=each) for n in range(MOST_PENDING - 1)]
        recovered = _case(AlertKind.RUN_SUCCEEDED, MOST_PENDING, job_id="job_500", rule=each)
        last = _case(job_id="job_last", number=MOST_PENDING + 1, rule=each)
        await _tell(storage, *cases, recovered, last)
        [channel] = await storage.history.alert_channels()
        waiting = await storage.history.alerts(limit=MOST_PENDING + 1)
        assert channel.dropped == MOST_PENDING // 20
        assert len(waiting) == MOST_PENDING + 1 - channel.dropped
        jobs = {item.job_id for entry in waiting for item in entry.items}
        assert "job_500" not in jobs
        assert {"job_0", "job_497", "job_498"} & jobs == {"job_498"}
