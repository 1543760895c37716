"""The promises H2 and H12 of a history: caps, quotas, and what was used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cronpad_core.api import (
    AttemptStatus,
    ConcurrencyRule,
    HistoryStore,
    JobSpec,
    Limit,
    OpenDecision,
    OpenKind,
    OpenRequest,
    OverlapPolicy,
    OverlapRule,
    Quota,
    RunStatus,
    SkipReason,
    Storage,
    Trigger,
    month_of,
)
from cronpad_testkit.samples import T0, key, opening, pending, result, slot, spec
from cronpad_testkit.suites.storage import BuildStorage, StorageSuite, on_state, on_storage, opened

__all__ = ["HistoryLimitsSuite"]

_MONTH = month_of(T0)
_DAY = 86_400_000


def _in(workspace: str = "default", key_name: str | None = None) -> JobSpec:
    """A spec of that workspace, and of that key where one is named."""
    rule = None if key_name is None else ConcurrencyRule(max=1, key=key_name)
    return replace(spec(overlap=99), workspace=workspace, concurrency=rule)


def _capped(request: OpenRequest, *limits: tuple[str, int]) -> OpenRequest:
    return replace(request, limits=tuple(Limit(scope=scope, max=most) for scope, most in limits))


async def _open(history: HistoryStore, *requests: OpenRequest) -> list[OpenKind]:
    return [decision.kind for decision in await history.open_runs(requests)]


class HistoryLimitsSuite(StorageSuite):
    """Caps and quotas; a part of ``HistorySuite``."""

    @on_storage
    async def test_h2_caps_count_what_runs_in_their_scope(self, storage: Storage) -> None:
        """H2: everything, a workspace, a job and a key count their running rows, of whichever job; without room it is held."""
        history = storage.history
        specs = [_in("blue", "db"), _in("blue"), _in("red", "db"), _in("red", "disk"), _in("red", "db")]
        jobs = ["job_a", "job_b", "job_c", "job_d", "job_c"]
        running = [
            opening(slot(T0 + number, job_id=job_id), number + 1, job_spec=job_spec)
            for number, (job_id, job_spec) in enumerate(zip(jobs, specs, strict=True))
        ]
        assert await _open(history, *running) == [OpenKind.OPENED] * 5
        counts = {"all": 5, "workspace:blue": 2, "workspace:red": 3, "job:job_c": 2, "job:job_x": 0, "key:db": 3, "key:disk": 1}
        counts |= {"key:none": 0, "workspace:none": 0, "key:job_c": 0}
        probe = slot(T0 + 50, job_id="job_x")
        for number, (scope, count) in enumerate(counts.items(), 10):
            request = _capped(opening(probe, number, job_spec=_in("blue", "db")), ("all", 99), (scope, count))
            (decision,) = await history.open_runs([request])
            assert (decision.kind, decision.scope, decision.write) == (OpenKind.HELD, scope, None), scope
            assert await history.run(probe.key) is None
        room = [(scope, count + 1) for scope, count in counts.items()]
        assert await _open(history, _capped(opening(probe, 90, job_spec=_in("blue", "db")), *room)) == [OpenKind.OPENED]

    @on_storage
    async def test_h2_a_cap_gets_room_when_a_run_ends(self, storage: Storage) -> None:
        """H2: those of the same call are counted; what ended, is skipped, pending or retrying holds no place."""
        history = storage.history
        first, second, third = (
            _capped(opening(slot(T0 + number, job_id=f"job_{number}"), number + 1, job_spec=_in("blue", "db")), ("key:db", 2))
            for number in range(3)
        )
        asked = [pending(T0 + 7, job_id="job_p", job_spec=_in("blue", "db"))]
        await history.add_pending(asked, term=0)
        skipped = opening(slot(T0 + 8, job_id="job_s"), 9, job_spec=_in("blue", "db"))
        await history.open_runs([replace(skipped, skip=SkipReason.PLUGIN_UNAVAILABLE)])
        assert await _open(history, first, second, third) == [OpenKind.OPENED, OpenKind.OPENED, OpenKind.HELD]
        assert await _open(history, third) == [OpenKind.HELD]
        await history.record([result(first, RunStatus.RETRYING, AttemptStatus.FAILED, retry_at_ms=T0 + 60_000)])
        again = replace(opening(slot(job_id="job_0", attempt=1), 20), limits=first.limits)
        assert await _open(history, third, again) == [OpenKind.OPENED, OpenKind.HELD]
        held = await history.run(key(job_id="job_0"))
        assert held is not None
        assert (held.status, held.attempt) == (RunStatus.RETRYING, 0)
        await history.record([result(second)])
        assert await _open(history, again) == [OpenKind.OPENED]

    @on_storage
    async def test_h2_a_cap_does_not_count_the_run_itself(self, storage: Storage) -> None:
        """H2: a run that was running is opened again under a full cap, and its own place counts once however often."""
        history = storage.history
        limits = [("all", 2), ("workspace:blue", 2), ("job:job_a", 2), ("key:db", 2)]
        first = _capped(opening(slot(), 1, job_spec=_in("blue", "db")), *limits)
        assert await _open(history, first) == [OpenKind.OPENED]
        for term in (2, 3):
            assert await _open(history, _capped(opening(slot(), 1, term=term), *limits)) == [OpenKind.OPENED]
        second = _capped(opening(slot(T0 + 1), 1, term=3, job_spec=_in("blue", "db")), *limits)
        third = _capped(opening(slot(T0 + 2), 2, term=3, job_spec=_in("blue", "db")), *limits)
        assert await _open(history, second, third) == [OpenKind.OPENED, OpenKind.HELD]

    @on_storage
    async def test_h2_a_run_counts_where_its_own_settings_say(self, storage: Storage) -> None:
        """H2: workspace and key are those of the settings that the run began with, not of what asks."""
        history = storage.history
        await history.add_pending([pending(job_spec=_in("blue", "db"))], term=0)
        await history.open_runs([opening(slot(trigger=Trigger.MANUAL), 1, job_spec=_in("red", "disk"))])
        held = [("workspace:blue", 1), ("key:db", 1)]
        free = [("workspace:red", 1), ("key:disk", 1)]
        probe = opening(slot(job_id="job_b"), 2, job_spec=_in("green"))
        for limit in held:
            assert await _open(history, _capped(probe, limit)) == [OpenKind.HELD]
        assert await _open(history, _capped(probe, *free)) == [OpenKind.OPENED]

    @on_state
    async def test_h2_caps_count_over_a_restart(self, build: BuildStorage) -> None:
        """H2: what was running when the process ended still holds its place for the next one."""
        async with opened(build) as storage:
            await storage.history.open_runs([opening(slot(), 1, job_spec=_in("blue", "db"))])
        async with opened(build) as storage:
            probe = opening(slot(job_id="job_b"), 2, job_spec=_in("blue", "db"))
            for scope in ("all", "workspace:blue", "job:job_a", "key:db"):
                assert await _open(storage.history, _capped(probe, (scope, 1))) == [OpenKind.HELD]

    @on_storage
    async def test_h12_first_attempts_are_counted(self, storage: Storage) -> None:
        """H12: opened scheduled, manual and backfill runs count once; manual retries, later attempts, skips and holds do not."""
        history = storage.history
        blue = _in("blue")
        asked = [
            pending(T0 + number, trigger=trigger, job_spec=blue)
            for number, trigger in enumerate((Trigger.MANUAL, Trigger.BACKFILL, Trigger.RETRY))
        ]
        await history.add_pending(asked, term=0)
        assert await history.used("blue", _MONTH) == 0
        first = opening(slot(), 1, job_spec=blue)
        requests = [first, *(opening(slot(T0 + n, trigger=one.trigger), n + 2) for n, one in enumerate(asked))]
        decisions = await history.open_runs(requests)
        assert [decision.counted for decision in decisions] == [True, True, True, False]
        assert await history.used("blue", _MONTH) == 3
        uncounted = [
            first,
            opening(slot(), 1, term=2),
            replace(opening(slot(T0 + 10), 2, term=2, job_spec=blue), skip=SkipReason.PLUGIN_UNAVAILABLE),
            _capped(opening(slot(T0 + 11), 3, term=2, job_spec=blue), ("all", 1)),
        ]
        await history.open_runs(uncounted)
        again = opening(slot(), 1, term=2)
        await history.record([result(again, RunStatus.RETRYING, AttemptStatus.FAILED, retry_at_ms=T0 + 60_000)])
        assert await _open(history, opening(slot(attempt=1), 4, term=2)) == [OpenKind.OPENED]
        assert await history.used("blue", _MONTH) == 3
        assert await history.used("default", _MONTH) == 0

    @on_storage
    async def test_h12_use_is_kept_by_workspace_and_month(self, storage: Storage) -> None:
        """H12: the month is that of the opening in UTC, whatever the slot; the workspace that of the run's settings."""
        history = storage.history
        last = opening(slot(T0 - 2), 1, job_spec=_in("blue"))
        requests = [
            replace(last, now_ms=T0 - 1),
            replace(opening(slot(T0 - 1), 2, job_spec=_in("blue")), now_ms=T0),
            opening(slot(T0, job_id="job_b"), 3, job_spec=_in("red")),
            opening(slot(T0 + 31 * _DAY), 4, job_spec=_in("blue")),
        ]
        await history.open_runs(requests)
        used = {
            (workspace, month): await history.used(workspace, month)
            for workspace in ("blue", "red")
            for month in ("2025-12", "2026-01", "2026-02", "2026-03")
        }
        assert {place: count for place, count in used.items() if count} == {
            ("blue", "2025-12"): 1,
            ("blue", "2026-01"): 1,
            ("blue", "2026-02"): 1,
            ("red", "2026-01"): 1,
        }

    @on_storage
    async def test_h12_a_used_up_quota_skips(self, storage: Storage) -> None:
        """H2, H12: openings of the same call use the quota; used up it skips, or opens and says so; a new month is fresh."""
        history = storage.history
        quota = Quota(max=2)
        requests = [_asks(number, quota) for number in range(4)]
        decisions = await history.open_runs(requests)
        assert _ends(decisions) == [(OpenKind.OPENED, None)] * 2 + [(OpenKind.SKIPPED, SkipReason.QUOTA_EXCEEDED)] * 2
        assert await history.used("blue", _MONTH) == 2
        (over,) = await history.open_runs([_asks(5, replace(quota, blocking=False))])
        assert (over.kind, over.counted, over.over_quota) == (OpenKind.OPENED, True, True)
        assert await history.used("blue", _MONTH) == 3
        fresh = replace(opening(slot(T0 + 40 * _DAY), 9, job_spec=_in("blue")), quota=quota)
        other = replace(opening(slot(T0 + 9), 10, job_spec=_in("red")), quota=quota)
        assert await _open(history, fresh, other) == [OpenKind.OPENED] * 2

    @on_state
    async def test_h12_use_outlives_the_process_and_the_runs(self, build: BuildStorage) -> None:
        """H12: what was used is there for the next process."""
        async with opened(build) as storage:
            await storage.history.open_runs([_asks(number, None) for number in range(3)])
        async with opened(build) as storage:
            assert await storage.history.used("blue", _MONTH) == 3
            decisions = await storage.history.open_runs([_asks(7, Quota(max=4)), _asks(8, Quota(max=4))])
            assert _ends(decisions) == [(OpenKind.OPENED, None), (OpenKind.SKIPPED, SkipReason.QUOTA_EXCEEDED)]

    @on_storage
    async def test_h12_a_run_that_waited_is_counted_when_it_opens(self, storage: Storage) -> None:
        """H12: waiting uses nothing; the opening after it does, in the month of that opening."""
        history = storage.history
        queued = replace(_in("blue"), overlap=OverlapRule(policy=OverlapPolicy.QUEUE_ONE))
        first, second = (opening(slot(T0 + number), number + 1, job_spec=queued) for number in range(2))
        assert await _open(history, first, second) == [OpenKind.OPENED, OpenKind.WAITING]
        assert await history.used("blue", _MONTH) == 1
        await history.record([result(first)])
        later = replace(second, fence=second.fence + 5, now_ms=T0 + 32 * _DAY)
        assert await _open(history, later) == [OpenKind.OPENED]
        assert (await history.used("blue", _MONTH), await history.used("blue", "2026-02")) == (1, 1)


def _asks(number: int, quota: Quota | None) -> OpenRequest:
    return replace(opening(slot(T0 + number), number + 1, job_spec=_in("blue")), quota=quota)


def _ends(decisions: Sequence[OpenDecision]) -> list[tuple[OpenKind, SkipReason | None]]:
    return [(decision.kind, decision.write.skip_reason if decision.write else None) for decision in decisions]
