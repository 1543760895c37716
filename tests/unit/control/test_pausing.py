"""Pausing and resuming a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from office import T0, Failing, Office, declared

from cronpad_core.control.pausing import due_resumes, pause, pause_for_sink, resume
from cronpad_core.domain.errors import ConfigurationError, CronpadError, NotFoundError, StoreBusyError, TermRefusedError
from cronpad_core.domain.job import Job, JobStatus, Replay
from cronpad_core.domain.run import RunStatus
from cronpad_core.ports.catalog import JobWrite, Move

S = 1_000


def test_a_pause_ends_the_version_with_its_open_slot(office: Office) -> None:
    """The version ends now and says where it stood; nothing runs while the pause lasts, and its entry is dropped."""
    office.apply(declared())
    office.work(T0 + 25 * S)
    paused = office.run(pause(office.desk, office.job(), reason="holidays", until_ms=T0 + 500 * S))
    assert paused == office.job()
    assert (paused.status, paused.version, paused.next_run_at_ms) == (JobStatus.PAUSED, 1, None)
    assert (paused.paused_reason, paused.paused_until_ms) == ("holidays", T0 + 500 * S)
    [version] = office.run(office.catalog.versions(paused.id))
    assert (version.valid_from_ms, version.valid_until_ms, version.open_from_ms) == (T0, T0 + 25 * S, T0 + 30 * S)
    office.work(T0 + 100 * S)
    office.now = T0 + 200 * S
    assert office.slots() == [10, 20]
    assert office.members() == []
    assert office.findings() == []


def test_a_sink_can_have_its_job_paused(office: Office) -> None:
    """What a sink says pauses the version that it was asked under, with the sink's reason; it can be resumed."""
    office.apply(declared())
    office.work(T0 + 15 * S)
    job = office.job()
    paused = office.run(pause_for_sink(office.desk, job.id, job.version, reason="gone"))
    assert paused == office.job()
    assert (paused.status, paused.paused_reason, paused.paused_until_ms) == (JobStatus.PAUSED, "gone", None)
    assert office.run(resume(office.desk, office.job())).status is JobStatus.ACTIVE
    assert office.findings() == []


def test_a_sink_pauses_no_other_version_and_nothing_twice(office: Office) -> None:
    """A word about an older version, a job that is paused already or one that is gone changes nothing."""
    office.apply(declared())
    job = office.job()
    assert office.run(pause_for_sink(office.desk, job.id, job.version + 1, reason="gone")) is None
    assert office.run(pause_for_sink(office.desk, "job_none", 1, reason="gone")) is None
    assert office.job() == job
    paused = office.run(pause(office.desk, job, reason="holidays"))
    assert office.run(pause_for_sink(office.desk, job.id, job.version, reason="gone")) is None
    assert office.job() == paused


def test_a_late_pause_drops_what_was_due_and_not_begun(office: Office) -> None:
    """Slots that were due when the pause came, and had not run, are dropped: each has an outcome."""
    office.apply(declared())
    office.work(T0 + 15 * S)
    office.now = T0 + 45 * S
    office.perform("job-pause", job="a")
    assert office.findings() == []
    [row] = office.run(office.history.ranges(office.job().id))
    assert (row.first_ms, row.last_ms, row.count) == (T0 + 20 * S, T0 + 45 * S, 3)


def test_pausing_again_replaces_reason_and_end_and_nothing_else(office: Office) -> None:
    """The version is not ended twice; the same pause again is no write at all."""
    office.apply(declared())
    office.run(pause(office.desk, office.job(), reason="one", until_ms=T0 + S))
    versions = office.run(office.catalog.versions(office.job().id))
    office.now = T0 + 60 * S
    office.run(pause(office.desk, office.job(), reason="two"))
    job = office.job()
    assert (job.paused_reason, job.paused_until_ms) == ("two", None)
    desk = office.with_store(catalog=Failing(office.catalog, StoreBusyError("written"), "write"))
    assert office.run(pause(desk, job, reason="two")) == job
    assert office.run(office.catalog.versions(job.id)) == versions


def test_a_pause_ends_a_catch_up(office: Office) -> None:
    """What was chosen to be caught up with and has not run is dropped; after the resume the schedule goes on from now."""
    office.apply(declared())
    job = office.job()
    move = Move(
        job_id=job.id,
        version=1,
        clock_epoch=0,
        from_ms=T0 + 10 * S,
        to_ms=T0 + 30 * S,
        replay=Replay(until_ms=T0 + 50 * S, then_ms=T0 + 60 * S),
        term=7,
    )
    office.run(office.catalog.move([move]))
    office.now = T0 + 55 * S
    paused = office.run(pause(office.desk, office.job()))
    assert paused.replay is None
    [version] = office.run(office.catalog.versions(job.id))
    assert (version.open_from_ms, version.valid_until_ms) == (T0 + 30 * S, T0 + 55 * S)
    assert office.run(resume(office.desk, paused)).next_run_at_ms == T0 + 60 * S


def test_a_resume_goes_on_with_the_next_fire_after_now(office: Office) -> None:
    """A new version, an entry for its next fire, no pause any more; the slots of the pause are nobody's."""
    office.apply(declared())
    office.work(T0 + 15 * S)
    office.perform("job-pause", job="a", reason="x", until_ms=T0 + 900 * S)
    office.now = T0 + 101 * S
    resumed = office.run(resume(office.desk, office.job()))
    assert resumed == office.job()
    assert (resumed.status, resumed.version, resumed.next_run_at_ms) == (JobStatus.ACTIVE, 2, T0 + 110 * S)
    assert (resumed.paused_reason, resumed.paused_until_ms, resumed.valid_from_ms) == (None, None, T0 + 101 * S)
    assert (f"{T0 + 110 * S}|0|2|s", T0 + 110 * S) in office.members()
    assert office.woken == [T0 + 110 * S]
    office.work(T0 + 125 * S)
    assert office.slots() == [10, 110, 120]
    office.work(T0 + 300 * S)
    assert office.findings() == []


def test_a_resumed_job_starts_with_its_offset_and_jitter(office: Office) -> None:
    """The entry is due when the slot starts, not at the slot."""
    office.apply(declared(offset_ms=2 * S))
    office.perform("job-pause", job="a")
    office.perform("job-resume", job="a")
    assert (f"{T0 + 10 * S}|0|2|s", T0 + 12 * S) in office.members()


def test_a_version_number_is_never_used_twice(office: Office) -> None:
    """The new version is above every one that control or history knows, an edit in the pause included."""
    office.apply(declared())
    office.perform("job-pause", job="a")
    office.now += S
    office.apply(declared(text="every 7s"))
    assert (office.job().status, office.job().version) == (JobStatus.PAUSED, 2)
    office.perform("trigger", job="a")
    assert office.perform("job-resume", job="a")["version"] == 3
    assert office.job().spec.schedule.texts == ("every 7s",)
    versions = office.run(office.catalog.versions(office.job().id))
    assert [one.version for one in versions] == [1, 2, 3]


def test_a_clock_that_went_back_begins_no_version_in_an_older_one(office: Office) -> None:
    """The resumed version begins where the paused one ended, whatever the clock says."""
    office.apply(declared())
    office.work(T0 + 25 * S)
    office.perform("job-pause", job="a")
    office.now = T0 + 5 * S
    resumed = office.run(resume(office.desk, office.job()))
    assert (resumed.valid_from_ms, resumed.next_run_at_ms) == (T0 + 25 * S, T0 + 30 * S)


def test_resuming_an_active_job_queues_what_is_missing_and_no_more(office: Office) -> None:
    """No version begins; a lost entry is put back, one that is there is not moved."""
    office.apply(declared())
    before = office.job()
    entries = office.members()
    assert office.run(resume(office.desk, before)) == before
    assert office.members() == entries
    desk = office.with_store(queue=Failing(office.queue, StoreBusyError("locked"), "put"))
    office.perform("job-pause", job="a")
    resumed = office.run(resume(desk, office.job()))
    assert [member for member, _ in office.members()] == [f"{T0 + 10 * S}|0|1|s"]
    office.run(resume(office.desk, resumed))
    assert (f"{T0 + 10 * S}|0|2|s", T0 + 10 * S) in office.members()


def test_a_job_whose_schedule_ran_out_in_the_pause_is_completed(office: Office) -> None:
    """Resumed after its last fire, it has none to come; then neither pause nor resume makes sense, and each says so."""
    office.apply(declared(text="at 2026-01-01T00:00:05Z"))
    office.perform("job-pause", job="a")
    office.now = T0 + 60 * S
    answer = office.perform("job-resume", job="a")
    assert (answer["status"], answer["next_run_at"]) == ("completed", None)
    with pytest.raises(CronpadError, match="nothing to pause"):
        office.perform("job-pause", job="a")
    with pytest.raises(CronpadError, match="not paused: its schedule has no further fire"):
        office.perform("job-resume", job="a")
    assert office.findings() == []


@pytest.mark.parametrize("operation", ["job-pause", "job-resume"])
def test_removed_jobs_and_standbys_change_nothing(office: Office, operation: str) -> None:
    """A removed job cannot be found by name, and by id it is said to be removed; without the term nothing is written."""
    office.apply(declared(), declared("b"))
    job = office.job("b")
    if operation == "job-resume":
        office.perform("job-pause", job="b")
        job = office.job("b")
    office.term = None
    with pytest.raises(TermRefusedError):
        office.perform(operation, job="b")
    assert office.job("b") == job
    office.term = 7
    office.apply(declared())
    with pytest.raises(NotFoundError, match='no job "b"'):
        office.perform(operation, job="b")
    with pytest.raises(NotFoundError, match='"b" was removed'):
        office.perform(operation, job=job.id)


def test_a_pause_that_would_end_in_the_past_is_refused(office: Office) -> None:
    """The end must lie ahead."""
    office.apply(declared())
    with pytest.raises(ConfigurationError, match="that has passed"):
        office.perform("job-pause", job="a", until_ms=T0)
    assert office.job().status is JobStatus.ACTIVE


class Racing:
    """A catalogue in which somebody else changes the job just before the first write."""

    def __init__(self, office: Office, change: Any) -> None:
        self._office, self._change = office, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._office.catalog, name)

    async def write(self, writes: list[JobWrite], *, term: int) -> None:
        """The write of a loser is refused."""
        change, self._change = self._change, None
        if change is not None:
            await change()
        await self._office.catalog.write(writes, term=term)


def test_a_pause_that_lost_against_a_move_is_made_from_the_new_state(office: Office) -> None:
    """The job advanced meanwhile: the version that is ended stands where the job stands now."""
    office.apply(declared())
    job = office.job()

    async def advance() -> None:
        move = Move(job_id=job.id, version=1, clock_epoch=0, from_ms=T0 + 10 * S, to_ms=T0 + 20 * S, replay=None, term=7)
        await office.catalog.move([move])

    office.run(pause(office.with_store(catalog=Racing(office, advance)), job))
    [version] = office.run(office.catalog.versions(job.id))
    assert version.open_from_ms == T0 + 20 * S


def test_a_pause_with_an_end_is_resumed_once_it_has_passed(office: Office) -> None:
    """Neither earlier nor twice; others stay paused. It costs one query of the catalogue."""
    office.apply(*(declared(name) for name in "abc"))
    office.perform("job-pause", job="a", until_ms=T0 + 50 * S)
    office.perform("job-pause", job="b", until_ms=T0 + 90 * S)
    office.perform("job-pause", job="c")
    for now, resumed in ((49_999, []), (50_000, ["a"]), (50_001, []), (200_000, ["b"])):
        office.now = T0 + now
        assert [job.spec.name for job in office.run(due_resumes(office.desk))] == resumed
    assert office.job().next_run_at_ms == T0 + 60 * S
    assert office.job("c").status is JobStatus.PAUSED
    asked: list[str] = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return getattr(office.catalog, name)

    office.run(due_resumes(office.with_store(catalog=Counting())))
    assert asked == ["jobs"]
    office.term = None
    assert office.run(due_resumes(office.with_store(catalog=Counting()))) == []
    assert asked == ["jobs"]


def test_a_due_resume_yields_to_somebody_who_changed_the_job(office: Office) -> None:
    """Paused for longer just now, the job stays paused."""
    office.apply(declared())
    office.perform("job-pause", job="a", until_ms=T0 + 50 * S)
    office.now = T0 + 60 * S
    job = office.job()

    async def longer() -> None:
        await office.catalog.write([JobWrite(job=replace(job, paused_until_ms=T0 + 99 * S), expected=job)], term=7)

    assert office.run(due_resumes(office.with_store(catalog=Racing(office, longer)))) == []
    assert (office.job().status, office.job().paused_until_ms) == (JobStatus.PAUSED, T0 + 99 * S)


def test_one_unreadable_schedule_keeps_no_other_job_paused(office: Office) -> None:
    """A job whose schedule cannot be read any more stays paused; the next one is resumed, and asking for it says why not."""
    office.apply(declared("a"), declared("b"))
    for name in ("a", "b"):
        office.perform("job-pause", job=name, until_ms=T0 + S)

    def spoilt(job: Job) -> Job:
        return replace(job, spec=replace(job.spec, schedule=replace(job.spec.schedule, texts=("61 * * * *",))))

    first = min(office.job("a"), office.job("b"), key=lambda job: job.id)
    office.run(office.catalog.write([JobWrite(job=spoilt(first), expected=first)], term=7))
    office.now = T0 + 2 * S
    [resumed] = office.run(due_resumes(office.desk))
    assert resumed.id != first.id
    with pytest.raises(CronpadError, match="61"):
        office.perform("job-resume", job=first.id)


def test_what_runs_when_the_pause_comes_finishes(office: Office) -> None:
    """A pause ends no delivery."""
    office.apply(declared())
    office.keeps_running = True
    office.work(T0 + 10 * S)
    [run] = office.runs()
    office.perform("job-pause", job="a")
    office.end(run)
    assert office.runs()[0].status is RunStatus.SUCCEEDED
    assert office.findings() == []
