"""Why a slot went as it did: the version, the decision, and where its lateness came from."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cronpad_core.builtin.memory import MemoryStorage
from cronpad_core.control.apply import Declared, apply
from cronpad_core.control.why import Verdict, Why, any_job, why
from cronpad_core.control.why_words import sentences
from cronpad_core.domain.admission import OpenRequest
from cronpad_core.domain.dispatch import TermRecord
from cronpad_core.domain.errors import NotFoundError
from cronpad_core.domain.ids import job_id_for
from cronpad_core.domain.job import Job, JobSpec, JobStatus, Replay, ScheduleSpec, SinkSpec
from cronpad_core.domain.ledger import RangeKind, SlotRange
from cronpad_core.domain.occurrence import Occurrence, Trigger
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.retry import RetryPlan, RetryRule
from cronpad_core.domain.run import Attempt, AttemptStatus, RunStatus, SkipReason
from cronpad_core.domain.timing import DAY, HOUR, MINUTE, to_ms
from cronpad_core.ports.asked import PendingRequest
from cronpad_core.ports.catalog import JobWrite, Move
from cronpad_core.ports.history import RangeRequest, RecordRequest
from cronpad_core.ports.storage import StorageOptions
from cronpad_core.runtime.schedules import ScheduleBook

T0 = to_ms(datetime(2026, 3, 1, tzinfo=UTC))
FILE = "/etc/jobs.toml"


class Story:
    """A state in memory in which things happen to one job."""

    def __init__(self) -> None:
        self.now = T0
        self.storage = MemoryStorage(StorageOptions(url="memory://", wall_ms=lambda: self.now))
        self.schedules = ScheduleBook()
        self.fence = 1 << 32
        for store in (self.storage.catalog, self.storage.history):
            self.run(store.swap_term(TermRecord(), TermRecord(term=1, holder="us")))

    @staticmethod
    def run(work: Coroutine[Any, Any, Any]) -> Any:
        """Waits for it."""
        return asyncio.run(work)

    def apply(self, *texts: str, timezone: str = "UTC", **rest: Any) -> Job:
        """Declares the job; without texts, none."""
        spec = JobSpec(name="a", schedule=ScheduleSpec(texts=texts, timezone=timezone), sink=SinkSpec(type="command"), **rest)
        stores = {"catalog": self.storage.catalog, "history": self.storage.history, "schedules": self.schedules}
        declared = [Declared(spec=spec, origin=FILE)] if texts else []
        self.run(apply(declared, origins=[FILE], prune=True, now=lambda: self.now, term=1, **stores))
        return self.job()

    def job(self) -> Job:
        """The job as stored."""
        found: Job = self.run(self.storage.catalog.job(job_id_for(FILE, "a")))
        return found

    def move(self, to_ms: int | None, replay: Replay | None = None) -> None:
        """Advances the job."""
        job = self.job()
        assert job.next_run_at_ms is not None
        move = Move(
            job_id=job.id, version=job.version, clock_epoch=0, from_ms=job.next_run_at_ms, to_ms=to_ms, replay=replay, term=1
        )
        self.run(self.storage.catalog.move([move]))

    def ask(self, occurrence: Occurrence, trigger: Trigger) -> None:
        """Asks for a run of that slot."""
        at_ms = occurrence.scheduled_at_ms
        request = PendingRequest(
            job_id=occurrence.job_id,
            job_version=occurrence.job_version,
            spec=self.job().spec,
            trigger=trigger,
            at_ms=at_ms,
            slot_at_ms=at_ms,
            now_ms=at_ms,
        )
        self.run(self.storage.history.add_pending([request], term=1))

    def open(self, occurrence: Occurrence, late_ms: int = 0, **rest: Any) -> str:
        """Opens a run that much after its slot; answers its id."""
        self.fence += 1
        due = occurrence.scheduled_at_ms + late_ms
        request = OpenRequest(
            occurrence=occurrence,
            spec=self.job().spec,
            fence=self.fence,
            due_at_ms=due,
            claimed_at_ms=due + 12,
            now_ms=due + 15,
            **rest,
        )
        if occurrence.trigger is not Trigger.SCHEDULED:
            at_ms = occurrence.scheduled_at_ms
            asked = PendingRequest(
                job_id=occurrence.job_id,
                job_version=occurrence.job_version,
                spec=request.spec,
                trigger=occurrence.trigger,
                at_ms=at_ms,
                slot_at_ms=at_ms,
                now_ms=due,
            )
            self.run(self.storage.history.add_pending([asked], term=1))
        [decision] = self.run(self.storage.history.open_runs([request]))
        assert decision.run is not None
        run_id: str = decision.run.id
        return run_id

    def record(self, occurrence: Occurrence, run_id: str, after: RunStatus, **rest: Any) -> None:
        """Records how the attempt went that was opened last."""
        [*_, opened] = self.run(self.storage.history.attempts(run_id))
        retry = rest.pop("retry", None)
        ended: Attempt = replace(opened, sent_at_ms=opened.opened_at_ms + 1, finished_at_ms=opened.opened_at_ms + 251, **rest)
        self.run(self.storage.history.record([RecordRequest(key=occurrence.key, attempt=ended, status=after, retry=retry)]))

    def cover(self, kind: RangeKind, first_ms: int, last_ms: int, version: int = 1) -> None:
        """Writes a range row."""
        job = self.job()
        row = SlotRange(
            job_id=job.id, version=version, kind=kind, first_ms=first_ms, last_ms=last_ms, count=0, reason="so it was"
        )
        request = RangeRequest(range=row, slots=lambda a, b: (b - a) // 10_000 + 1)
        self.run(self.storage.history.add_ranges([request], term=1))

    def pause(self) -> None:
        """Pauses the job, ending its version."""
        job = self.job()
        [*_, version] = self.run(self.storage.catalog.versions(job.id))
        paused = replace(job, status=JobStatus.PAUSED, next_run_at_ms=None, paused_reason="holidays")
        ends = replace(version, valid_until_ms=self.now, open_from_ms=job.next_run_at_ms)
        self.run(self.storage.catalog.write([JobWrite(job=paused, expected=job, ends=ends)], term=1))

    def why(self, at_ms: int | None = None) -> Why:
        """What is known of a slot."""
        found: Why = self.run(why(self.storage, self.job(), at_ms=at_ms, now_ms=self.now, schedules=self.schedules))
        return found

    def said(self, at_ms: int | None = None) -> str:
        """The verdict, and what is said of it."""
        found = self.why(at_ms)
        return "\n".join([found.verdict.value, *sentences(found)])


@pytest.fixture
def story() -> Story:
    """Nothing has happened yet."""
    return Story()


def test_a_run_with_its_lateness(story: Story) -> None:
    """The newest slot by default: its run, its attempt, and where each millisecond went."""
    job = story.apply("every 10s")
    slot = job.slot(T0 + 10_000)
    run_id = story.open(slot)
    story.record(slot, run_id, RunStatus.SUCCEEDED, status=AttemptStatus.DELIVERED, exit_code=0)
    story.move(T0 + 20_000)
    story.now = T0 + 15_000
    assert story.said() == (
        "ran\n"
        "Version 1 of the job covers it: 'every 10s' in UTC, in force since 2026-03-01 00:00:00+00:00.\n"
        f"It has run {run_id}, which is succeeded.\n"
        "Its first delivery began 16 ms after the slot: due 0 ms after the slot, claimed 12 ms later, opened 3 ms later, sent 1 ms"
        " later.\n"
        "Attempt 1 was opened at 2026-03-01 00:00:10.015+00:00: delivered after 250 ms, exit code 0."
    )


def test_retries_and_redeliveries(story: Story) -> None:
    """Each attempt has a sentence; a planned one too; and how often it was delivered again."""
    job = story.apply("every 10s", retry=RetryRule(max=3))
    slot = job.slot(T0 + 10_000)
    run_id = story.open(slot)
    plan = RetryPlan(attempt=1, at_ms=T0 + 30_000)
    story.record(slot, run_id, RunStatus.RETRYING, status=AttemptStatus.FAILED, exit_code=3, reason="exit code 3", retry=plan)
    story.now = T0 + 15_000
    said = story.said()
    assert f"It has run {run_id}, which is retrying." in said
    assert "failed after 250 ms, exit code 3 (exit code 3)." in said
    assert "Attempt 2 is planned for 2026-03-01 00:00:30+00:00." in said
    story.open(slot.with_attempt(1), late_ms=20_000)
    story.fence += 1 << 32
    story.open(slot.with_attempt(1), late_ms=40_000)
    said = story.said()
    assert "Attempt 2 was opened at 2026-03-01 00:00:30.015+00:00: interrupted" in said
    assert "Attempt 2 was opened at 2026-03-01 00:00:50.015+00:00 and is running." in said
    assert "delivered again once" in said


def test_a_skip_and_its_reason(story: Story) -> None:
    """A skipped slot says why."""
    job = story.apply("every 10s")
    story.open(job.slot(T0 + 10_000))
    story.open(job.slot(T0 + 20_000))
    story.now = T0 + 21_000
    said = story.said()
    assert said.startswith("skipped\n")
    assert "as many runs of the job as its overlap rule allows were still running (previous_run_in_progress)" in said
    story.open(job.slot(T0 + 30_000), skip=SkipReason.PLUGIN_UNAVAILABLE)
    assert "the plugin of its sink was missing" in story.said(T0 + 30_000)


def test_a_caught_up_slot(story: Story) -> None:
    """A run long after its slot says that it was caught up with; a hold, jitter and a backfill are told."""
    overlap = OverlapRule(policy=OverlapPolicy.ALLOW, max=9)
    job = story.apply("every 10s", jitter_ms=5_000, overlap=overlap)
    story.open(job.slot(T0 + 10_000), late_ms=HOUR)
    story.ask(job.slot(T0 + 10_000), Trigger.BACKFILL)
    backfill = story.open(replace(job.slot(T0 + 10_000), trigger=Trigger.BACKFILL), late_ms=2 * HOUR)
    story.now = T0 + DAY
    said = story.said(T0 + 10_000)
    assert "began 1 h 15 ms after the slot" in said
    assert "caught up with, or put back" in said
    assert f"A backfill ran it too: run {backfill} is " in said
    story.open(job.slot(T0 + 20_000), late_ms=3_000, held_since_ms=T0 + 20_000)
    said = story.said(T0 + 20_000)
    assert "A limit had kept it waiting since 2026-03-01 00:00:20+00:00." in said
    assert "Up to 5 s of that are the job's offset and jitter." in said


def test_missed_and_dropped_slots(story: Story) -> None:
    """A range row speaks for the slot, with the reason that was written down."""
    story.apply("every 10s")
    story.now += HOUR
    story.cover(RangeKind.MISSED, T0 + 10_000, T0 + HOUR)
    story.move(T0 + HOUR + 10_000)
    said = story.said()
    assert said.startswith("missed\n")
    assert "The misfire policy 'latest' (window 1 d) did not choose it: missed (so it was)." in said
    assert "The same holds for 360 slots, from 2026-03-01 00:00:10+00:00 to 2026-03-01 01:00:00+00:00." in said
    story.now += MINUTE
    story.apply("every 7s")
    assert "the next dispatcher writes that down" in story.said(T0 + HOUR + 20_000)
    story.cover(RangeKind.DROPPED, T0 + HOUR + 10_000, story.now)
    assert "its version ended at 2026-03-01 01:01:00+00:00 before it came up" in story.said(T0 + HOUR + 20_000)
    assert story.why(T0 + HOUR + 20_000).verdict is Verdict.DROPPED


def test_what_is_not_decided_yet(story: Story) -> None:
    """A future slot, one whose time has come, one that is caught up with, and one that was lost."""
    story.apply("every 10s")
    assert story.said(T0 + 50_000).splitlines()[-1] == "It is a slot, and its time has not come: it is due in 50 s."
    assert story.why().at_ms == T0 + 10_000, "the first to come where there was none"
    story.now += 65_000
    assert story.why(T0 + 20_000).verdict is Verdict.OPEN
    assert "Its time came 45 s ago, and no dispatcher has decided yet; the job stands at 2026-03-01 00:00:10" in story.said(
        T0 + 20_000
    )
    story.move(T0 + 20_000, Replay(until_ms=T0 + 40_000, then_ms=T0 + 50_000))
    assert "it is caught up with in its turn" in story.said(T0 + 40_000)
    assert "it is caught up with in its turn" not in story.said(T0 + 60_000)
    assert "nothing says what became of it" in story.said(T0 + 10_000)
    assert story.why(T0 + 10_000).verdict is Verdict.LOST


def test_what_is_no_slot(story: Story) -> None:
    """An instant between slots names those around it; one before the first version says when that began."""
    story.apply("every 10s")
    story.now += MINUTE
    said = story.said(T0 + 33_000)
    assert said.startswith("no_slot\n")
    assert said.endswith("The nearest slots are 2026-03-01 00:00:30+00:00 and 2026-03-01 00:00:40+00:00.")
    said = story.said(T0 - HOUR)
    assert said.startswith("not_covered\nThe job was first stored at 2026-03-01 00:00:00+00:00, later than that.")
    assert said.endswith("The nearest slot is 2026-03-01 00:00:10+00:00.")


def test_pauses_and_removals(story: Story) -> None:
    """An instant that no version covers says what the job was then."""
    story.apply("every 10s")
    story.now += MINUTE
    story.pause()
    story.now += HOUR
    said = story.said(T0 + 2 * MINUTE)
    assert "The job is paused since 2026-03-01 00:01:00+00:00: holidays. A pause has no slots." in said
    story.apply()
    assert "The job is removed since 2026-03-01 00:01:00+00:00" in story.said(T0 + 2 * MINUTE)
    story.apply("every 7s")
    said = story.said(T0 + 2 * MINUTE)
    assert "No version was in force since 2026-03-01 00:01:00+00:00 until version 2 began at 2026-03-01 01:01:00+00:00" in said
    assert story.why(T0 + MINUTE).at_ms == T0 + MINUTE


def test_times_are_told_in_the_zone_of_the_job(story: Story) -> None:
    """Around a clock change each time has its own offset."""
    story.apply("30 1,3 * * *", timezone="Europe/Madrid")
    story.now = to_ms(datetime(2026, 3, 29, 12, tzinfo=UTC))
    said = story.said(to_ms(datetime(2026, 3, 29, 1, tzinfo=UTC)))
    assert said.endswith("The nearest slots are 2026-03-29 01:30:00+01:00 and 2026-03-29 03:30:00+02:00.")


def test_removed_jobs_are_found_by_name(story: Story) -> None:
    """A name that no job has any more finds the removed one; an unknown name is an error."""
    job = story.apply("every 10s")
    story.apply()
    assert story.run(any_job(story.storage, "a")).id == job.id
    with pytest.raises(NotFoundError):
        story.run(any_job(story.storage, "b"))


def test_a_slot_before_the_ledger() -> None:
    """What was pruned or lost by a restore is neither lost nor open; a run that is still there is told as ever."""
    story = Story()
    job = story.apply("every 10s")
    story.open(job.slot(T0 + 10_000))
    story.move(T0 + 40_000)
    story.now = T0 + HOUR
    assert story.why(T0 + 20_000).verdict is Verdict.LOST
    story.run(story.storage.history.begin_ledger(T0 + 30_000, term=1))
    found = story.why(T0 + 20_000)
    assert (found.verdict, found.ledger_from_ms) == (Verdict.BEFORE_LEDGER, T0 + 30_000)
    assert "ledger begins at 2026-03-01 00:00:30+00:00" in story.said(T0 + 20_000)
    assert story.why(T0 + 10_000).verdict is Verdict.RAN
    assert story.why(T0 + 30_000).verdict is Verdict.LOST
    assert story.why(T0 + 50_000).verdict is Verdict.OPEN
