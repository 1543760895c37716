"""Feeding backfills: one slot at a time, in order, and wherever the feeder dies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from bench import Bench, Failing
from feed import T0, Feed, S, feeding

from cronpad_core.domain.backfill import Backfill, BackfillStatus
from cronpad_core.domain.errors import CommitUnknownError, StoreBusyError, StoreError, TermRefusedError
from cronpad_core.domain.job import JobStatus, ScheduleSpec
from cronpad_core.domain.limits import Quota, Workspace
from cronpad_core.domain.occurrence import Trigger
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.run import RunStatus
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.backfills import BackfillFeeder
from cronpad_core.engine.patience import Patience
from cronpad_core.ports.asked import PendingRequest


def test_one_slot_after_the_other_is_run_to_its_end(bench: Bench) -> None:
    """The next slot is started only when the last has ended, whichever way; past the last the backfill is finished."""

    async def story(feed: Feed) -> None:
        await feed.add_job()
        await feed.add(30, 10)
        assert await feed.feeder.step() is not None
        for second, left in ((30, [30]), (20, [30, 20]), (10, [30, 20, 10])):
            assert [one for one, _ in await feed.slots()] == left
            assert (await feed.stored()).cursor_ms == T0 - second * S
            for _ in range(3):
                assert await feed.feeder.step() is not None
            assert [one for one, _ in await feed.slots()] == left
            await feed.end(second)
            look = await feed.feeder.step()
        assert look is None
        stored = await feed.stored()
        assert (stored.status, stored.started, stored.passed) == (BackfillStatus.FINISHED, 3, 0)
        assert stored.finished_at_ms == feed.clock.wall_ms()
        assert await feed.feeder.step() is None

    feeding(bench, story)


def test_a_slot_is_put_when_the_budget_has_room(bench: Bench) -> None:
    """Its row is there before its entry, its entry is due when the budget says, and the line is woken for then."""

    async def story(feed: Feed) -> None:
        job = await feed.add_job()
        rule = OverlapRule(policy=OverlapPolicy.ALLOW, max=3)
        await feed.add(30, 10, overlap=rule)
        feed.delay_ms = 700
        look = await feed.feeder.step()
        assert await feed.entries() == [(f"{T0 - 30 * S}|0|1|b", 700)]
        assert feed.woken == [feed.clock.wall_ms() + 700]
        assert look is not None and look >= feed.woken[0]
        found = await feed.slot(30)
        assert found is not None
        assert (found.status, found.slot_at_ms, found.job_version) == (RunStatus.PENDING, T0 - 30 * S, 1)
        assert found.spec == replace(job.spec, overlap=rule)
        await feed.feeder.step()
        assert feed.woken == [feed.clock.wall_ms() + 700]

    feeding(bench, story)


def test_slots_that_have_a_run_are_passed_over(bench: Bench) -> None:
    """They are counted apart, many at once; of one that still runs the end is awaited, so slots keep their order."""

    async def story(feed: Feed) -> None:
        job = await feed.add_job()
        others = [
            PendingRequest(
                job_id="job_a",
                job_version=1,
                spec=job.spec,
                trigger=Trigger.BACKFILL,
                at_ms=T0 - second * S,
                slot_at_ms=T0 - second * S,
                now_ms=feed.clock.wall_ms(),
                token=f"bf_0|{T0 - second * S}",
            )
            for second in (50, 40, 20)
        ]
        await feed.history.add_pending(others, term=feed.term)
        await feed.end(50)
        await feed.end(40)
        await feed.add(50, 10)
        await feed.feeder.step()
        assert ((await feed.stored()).cursor_ms, (await feed.stored()).passed) == (T0 - 30 * S, 2)
        await feed.end(30)
        await feed.feeder.step()
        assert await feed.slot(10) is None
        await feed.end(20)
        await feed.feeder.step()
        await feed.end(10)
        assert await feed.feeder.step() is None
        stored = await feed.stored()
        assert (stored.started, stored.passed) == (2, 3)

    feeding(bench, story)


def test_a_second_backfill_of_the_same_slots_passes_over_all(bench: Bench) -> None:
    """A slot is backfilled once, whoever asks again; and a long stretch is passed in several steps, each of them kept."""

    async def story(feed: Feed) -> None:
        job = await feed.add_job("* * * * * *")
        requests = [
            PendingRequest(
                job_id="job_a",
                job_version=1,
                spec=job.spec,
                trigger=Trigger.BACKFILL,
                at_ms=T0 - second * S,
                slot_at_ms=T0 - second * S,
                now_ms=feed.clock.wall_ms(),
            )
            for second in range(450, 0, -1)
        ]
        await feed.history.add_pending(requests, term=feed.term)
        for second in range(450, 0, -1):
            await feed.end(second)
        await feed.add(450, 1)
        passed = []
        while await feed.feeder.step() is not None:
            passed.append((await feed.stored()).passed)
        assert passed == sorted(passed) and 2 <= len(passed) <= 5
        stored = await feed.stored()
        assert (stored.status, stored.started, stored.passed) == (BackfillStatus.FINISHED, 0, 450)

    feeding(bench, story)


@pytest.mark.parametrize(
    ("store", "method"), [("history", "move_backfill"), ("history", "add_pending"), ("queue", "put"), ("catalog", "job")]
)
def test_a_feeder_that_breaks_off_anywhere_goes_on_where_it_was(bench: Bench, store: str, method: str) -> None:
    """Each call fails once before and once after it was applied; no slot is run twice, left out or miscounted."""

    async def story(feed: Feed) -> None:
        await feed.add_job()
        await feed.add(50, 10)
        inner, error = getattr(feed, store), CommitUnknownError("who knows")

        class Applied:
            """Answers with the error although it was applied, every other time."""

            calls = 0

            def __getattr__(self, name: str) -> Any:
                found = getattr(inner, name)
                if name != method:
                    return found

                async def lie(*args: Any, **rest: Any) -> Any:
                    Applied.calls += 1
                    answer = await found(*args, **rest)
                    if Applied.calls % 2:
                        raise error
                    return answer

                return lie

        broken = [Failing(inner, error, method), Applied()]
        for round_number in range(200):
            feed.build(**({store: broken[round_number % 4]} if round_number % 4 < 2 else {}))
            try:
                if await feed.feeder.step() is None and (await feed.stored()).status is not BackfillStatus.OPEN:
                    break
            except StoreError:
                continue
            cursor = (T0 - (await feed.stored()).cursor_ms) // S
            found = await feed.slot(cursor)
            if found is not None and not found.status.terminal and round_number % 4 == 3:
                entries = [member for member, _ in await feed.entries()]
                assert f"{found.key.scheduled_at_ms}|0|1|b" in entries
                await feed.end(cursor)
        assert await feed.slots() == [(second, "cancelled") for second in (50, 40, 30, 20, 10)]
        stored = await feed.stored()
        assert (stored.status, stored.started, stored.passed) == (BackfillStatus.FINISHED, 5, 0)

    feeding(bench, story)


def test_a_lost_entry_of_a_run_that_has_not_begun_is_put_back(bench: Bench) -> None:
    """The feeder does not wait for a run that nothing would start."""

    async def story(feed: Feed) -> None:
        await feed.add_job()
        await feed.add(30, 10)
        feed.build(queue=Failing(feed.queue, StoreBusyError("locked"), "put"))
        with pytest.raises(StoreBusyError):
            await feed.feeder.step()
        assert await feed.entries() == []
        await feed.build().step()
        assert [member for member, _ in await feed.entries()] == [f"{T0 - 30 * S}|0|1|b"]

    feeding(bench, story)


def test_a_cancelled_backfill_starts_nothing_more(bench: Bench) -> None:
    """Not even where the cancel comes between the feeder's look and its move; what has begun goes on."""

    async def story(feed: Feed) -> None:
        await feed.add_job()
        await feed.add(30, 10)
        await feed.feeder.step()
        await feed.end(30)
        stored = await feed.stored()

        class Racing:
            def __getattr__(self, name: str) -> Any:
                return getattr(feed.history, name)

            async def move_backfill(self, new: Backfill, *, expected: Backfill, term: int) -> bool:
                ended = replace(stored, status=BackfillStatus.CANCELLED)
                await feed.history.move_backfill(ended, expected=stored, term=term)
                return await feed.history.move_backfill(new, expected=expected, term=term)

        await feed.build(history=Racing()).step()
        assert await feed.slots() == [(30, "cancelled")]
        assert await feed.build().step() is None
        assert (await feed.stored()).status is BackfillStatus.CANCELLED

    feeding(bench, story)


def test_a_removed_job_ends_its_backfill_and_a_paused_one_does_not(bench: Bench) -> None:
    """Backfills are no part of a pause; of a job that is gone there is nothing to run."""

    async def story(feed: Feed) -> None:
        await feed.add_job()
        await feed.add(30, 10)
        await feed.change(status=JobStatus.PAUSED, next_run_at_ms=None)
        await feed.feeder.step()
        assert await feed.slots() == [(30, "pending")]
        await feed.change(status=JobStatus.DELETED)
        assert await feed.feeder.step() is None
        assert (await feed.stored()).status is BackfillStatus.CANCELLED

    feeding(bench, story)


def test_slots_are_of_the_version_that_was_asked_for_and_run_with_the_present_settings(bench: Bench) -> None:
    """An edit in the middle changes neither which slots there are nor their order, only how the next ones run."""

    async def story(feed: Feed) -> None:
        job = await feed.add_job()
        await feed.add(30, 10)
        await feed.feeder.step()
        await feed.end(30)
        spec = replace(job.spec, schedule=ScheduleSpec(texts=("0 * * * *",)), timeout_ms=5 * S)
        await feed.change(version=4, spec=spec)
        await feed.feeder.step()
        found = await feed.slot(20)
        assert found is not None
        assert (found.job_version, found.spec) == (4, spec)
        assert [member for member, _ in await feed.entries()][-1] == f"{T0 - 20 * S}|0|4|b"

    feeding(bench, story)


def test_a_schedule_that_cannot_be_read_keeps_its_backfill_waiting(bench: Bench) -> None:
    """Nothing is ended or left out; another look comes in a minute, and other backfills go on."""

    async def story(feed: Feed) -> None:
        await feed.add_job("61 * * * *")
        backfill = await feed.add(30, 10)
        assert await feed.feeder.step() == feed.clock.wall_ms() + 60 * S
        assert await feed.stored() == backfill

    feeding(bench, story)


def test_a_workspace_that_would_skip_the_runs_keeps_them_waiting(bench: Bench) -> None:
    """A slot has one backfill run: a suspension, or a quota that is used up, must not use up the whole range."""

    async def story(feed: Feed) -> None:
        await feed.add_job()
        await feed.add(30, 10)
        before: Workspace | None = None
        for workspace in (
            Workspace(name="default", suspended=True),
            Workspace(name="default", quota=Quota(max=0)),
        ):
            await feed.catalog.set_workspace(workspace, expected=before, term=feed.term)
            before = workspace
            assert await feed.feeder.step() == feed.clock.wall_ms() + 5 * S
            assert await feed.slots() == []
        await feed.catalog.set_workspace(
            Workspace(name="default", quota=Quota(max=0, blocking=False)), expected=before, term=feed.term
        )
        await feed.feeder.step()
        assert await feed.slots() == [(30, "pending")]

    feeding(bench, story)


def test_several_backfills_go_on_side_by_side(bench: Bench) -> None:
    """None waits for another's runs, and the next look is the earliest of all."""

    async def story(feed: Feed) -> None:
        await feed.add_job()
        await feed.add(60, 50, id="bf_1")
        await feed.add(30, 20, id="bf_2")
        await feed.feeder.step()
        assert await feed.slots() == [(60, "pending"), (30, "pending")]
        await feed.end(30)
        await feed.feeder.step()
        assert await feed.slots() == [(60, "pending"), (30, "cancelled"), (20, "pending")]

    feeding(bench, story)


def test_a_long_run_is_looked_at_less_and_less_often(bench: Bench) -> None:
    """Short runs follow each other closely; an hour-long one costs a look every few seconds."""

    async def story(feed: Feed) -> None:
        await feed.add_job()
        await feed.add(30, 10)
        await feed.feeder.step()
        waits = []
        for age in (0, 400, 4_000, 3_600_000):
            feed.clock.wall = T0 + age
            look = await feed.feeder.step()
            assert look is not None
            waits.append(look - feed.clock.wall_ms())
        assert waits == sorted(waits)
        assert waits[0] <= 200 and waits[-1] == 5 * S

    feeding(bench, story)


def test_without_the_term_nothing_is_fed(bench: Bench) -> None:
    """A standby does not look; one whose term is no longer the stored one is refused by the store."""

    async def story(feed: Feed) -> None:
        await feed.add_job()
        await feed.add(30, 10)
        old = Authority(feed.clock)
        assert old.term is None
        feeder = BackfillFeeder(
            catalog=feed.catalog,
            history=feed.history,
            queue=feed.queue,
            clock=feed.clock,
            authority=old,
            patience=Patience(feed.clock, old, bench.events.append),
            schedules=feed.schedules,
            next_ms=lambda now_ms: now_ms,
            wake=feed.woken.append,
        )
        assert await feeder.step() is None
        old.grant(feed.term - 1, trust_until_ms=2**60, lease_base_ms=0)
        with pytest.raises(TermRefusedError):
            await feeder.step()
        assert await feed.slots() == [] and await feed.entries() == []

    feeding(bench, story)
