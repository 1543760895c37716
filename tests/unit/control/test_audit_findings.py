"""The audit names everything in the books that was tampered with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.main import cli
from cronpad_core.control.audit import audit
from cronpad_core.control.audit_version import FINDINGS_KEPT, JobAudit
from cronpad_core.domain.misfire import MisfireRule
from cronpad_core.domain.timing import DAY, HOUR
from cronpad_core.ports.storage import Storage
from cronpad_core.runtime.schedules import ScheduleBook

if TYPE_CHECKING:
    from conftest import Books

T0 = 1_767_225_600_000


def test_a_slot_without_an_outcome(books: Books) -> None:
    """A run that is gone leaves its slot, and neighbours are one finding."""
    books.apply("every 10s")
    books.run_until(T0 + 1_000_000)
    books.edit("DELETE FROM runs WHERE scheduled_at IN (?, ?, ?)", T0 + 50_000, T0 + 60_000, T0 + 200_000)
    assert books.findings() == [("no outcome", 50, 60, 2), ("no outcome", 200, 200, 1)]
    books.edit("DELETE FROM runs WHERE scheduled_at > ?", T0 + 900_000)
    assert len(books.findings()) == 2, "younger than what a lost entry takes to be found"


def test_slots_with_two_outcomes(books: Books) -> None:
    """A range over a run, and a range over a range."""
    books.apply("every 10s")
    books.run_until(T0 + 1_000_000)
    row = "INSERT INTO ranges (job_id, version, first_at, last_at, kind, slots, reason) VALUES (?, 1, ?, ?, 'missed', ?, '')"
    books.edit(row, books.job().id, T0 + 100_000, T0 + 120_000, 3)
    assert books.findings() == [("two outcomes", 100, 120, 3)]
    books.edit("DELETE FROM runs WHERE scheduled_at BETWEEN ? AND ?", T0 + 100_000, T0 + 130_000)
    books.edit(row, books.job().id, T0 + 120_000, T0 + 130_000, 2)
    assert books.findings() == [("two outcomes", 120, 120, 1)]


def test_a_run_off_the_schedule(books: Books) -> None:
    """A run where its own schedule does not fire is no outcome; its own slot has none."""
    books.apply("every 10s")
    books.run_until(T0 + 1_000_000)
    books.edit("UPDATE runs SET scheduled_at = scheduled_at + 3000 WHERE scheduled_at = ?", T0 + 50_000)
    assert books.findings() == [("no outcome", 50, 50, 1), ("no slot", 53, 53, 0)]


def test_a_run_outside_its_version(books: Books) -> None:
    """On its schedule, but before its version began, or of a version that never was."""
    books.apply("every 10s")
    books.now += 1_000
    books.run_until(T0 + 1_000_000)
    books.edit("UPDATE job_versions SET valid_from = ?", T0 + 25_000, file="cronpad.db")
    assert books.findings() == [("no slot", 10, 10, 0), ("no slot", 20, 20, 0)]
    books.edit("UPDATE jobs SET clock_epoch = 1", file="cronpad.db")
    assert books.findings() == [], "a clock that was set back cut the bounds"
    books.edit("UPDATE runs SET job_version = 7 WHERE scheduled_at = ?", T0 + 30_000)
    assert books.findings() == [("no slot", 30, 30, 0)]


def test_ranges_without_slots(books: Books) -> None:
    """A range between slots, one with another number, one of no version, one after its version."""
    books.apply("every 10s", misfire=MisfireRule(policy="skip"))
    books.run_until(T0 + 100_000)
    books.now += HOUR
    books.decide()
    row = "INSERT INTO ranges (job_id, version, first_at, last_at, kind, slots, reason) VALUES (?, ?, ?, ?, 'missed', ?, '')"
    books.edit(row, books.job().id, 1, T0 + 51_000, T0 + 52_000, 1)
    assert books.findings() == [("no slot", 51, 52, 0)]
    books.edit("DELETE FROM ranges WHERE first_at = ?", T0 + 51_000)
    books.edit("UPDATE ranges SET slots = slots + 1")
    assert books.findings() == [("miscounted", 110, 3700, 360)]
    books.edit("UPDATE ranges SET slots = slots - 1")
    books.edit(row, books.job().id, 9, T0 + 10_000, T0 + 20_000, 2)
    assert books.findings() == [("no slot", 10, 20, 0)]


def test_a_schedule_that_cannot_be_read_any_more(books: Books) -> None:
    """Nothing can be said of its slots, and that is said."""
    books.apply("every 10s")
    books.run_until(T0 + 100_000)
    books.edit("UPDATE job_versions SET spec = replace(spec, 'UTC', 'Mars/Base')", file="cronpad.db")
    assert [kind for kind, *_ in books.findings()] == ["unreadable"]


def test_since_leaves_older_slots_out(books: Books) -> None:
    """Findings before it are none; those after it stay."""
    books.apply("every 10s")
    books.run_until(T0 + 1_000_000)
    books.edit("DELETE FROM runs WHERE scheduled_at IN (?, ?)", T0 + 50_000, T0 + 500_000)
    assert books.findings(T0 + 50_000) == [("no outcome", 500, 500, 1)]
    assert books.audit(T0 + 400_000)[0].slots == 60


def test_slots_that_are_chosen_to_be_caught_up_are_open(books: Books) -> None:
    """A replay is a decision: its slots wait for their turn, however old they are."""
    books.apply("every 10s")
    books.now += DAY
    job = books.job()
    books.edit("UPDATE jobs SET replay_until = ?, replay_then = ?", books.now - HOUR, books.now + 10_000, file="cronpad.db")
    assert [kind for kind, *_ in books.findings()] == ["undecided"]
    assert books.audit()[0].open == 8640 - 360 + 10
    books.edit("UPDATE jobs SET replay_until = ?", books.now, file="cronpad.db")
    assert books.clean().open == 8640
    assert job.next_run_at_ms == T0 + 10_000


def test_a_job_that_a_limit_keeps_waiting_is_open(books: Books) -> None:
    """A hold is no decision and no loss."""
    books.apply("every 10s")
    books.now += DAY
    member = books.job().slot(T0 + 10_000).member

    async def hold(storage: Storage) -> None:
        await storage.queue.open()

    books.do(hold)
    books.edit(
        "INSERT INTO due (member, at, held_since) VALUES (?, ?, ?)", member, books.now, T0 + 10_000, file="cronpad-queue.db"
    )
    assert books.clean().open == 8640
    books.edit("UPDATE due SET held_since = NULL", file="cronpad-queue.db")
    assert [kind for kind, *_ in books.findings()] == ["undecided"]


def test_a_job_that_moves_while_it_is_read_is_read_again(books: Books) -> None:
    """What a dispatcher writes between two reads is no finding."""
    books.apply("every 10s")
    books.now += DAY

    class Between(ScheduleBook):
        def __call__(self, *arguments: Any) -> Any:
            if not self.asked:
                self.asked = True
                books.edit("UPDATE jobs SET replay_until = ?, replay_then = 0", books.now, file="cronpad.db")
            return super().__call__(*arguments)

        asked = False

    async def auditing(storage: Storage) -> list[JobAudit]:
        return [one async for one in audit(storage, schedules=Between(), now_ms=books.now, handling_ms=40_000)]

    [found] = books.do(auditing, read_only=True)
    assert (found.findings, found.open) == ([], 8640)


def test_countless_findings_are_counted(books: Books) -> None:
    """A job tells so many, and how many more there are."""
    books.apply("every 1s")
    books.run_until(T0 + 2_500_000)
    books.edit("DELETE FROM runs WHERE scheduled_at / 1000 % 2 = 0")
    [found] = books.audit()
    assert len(found.findings) == FINDINGS_KEPT
    assert found.unlisted == 1200 - FINDINGS_KEPT


def test_the_command_tells_and_ends_with_1(books: Books) -> None:
    """Exit 0 with a closing line; exit 1 with a table, or a document for programs."""
    books.apply("every 10s")
    books.run_until(T0 + 1_000_000)

    def call(*arguments: str) -> Any:
        invocation = Invocation(environ={}, fixed_now_ms=books.now)
        return CliRunner().invoke(cli, ["audit", "--state", str(books.directory), *arguments], obj=invocation)

    good = call()
    assert (good.exit_code, good.stdout) == (0, "audited 1 job, 100 slots: 0 findings\n")
    books.edit("DELETE FROM runs WHERE scheduled_at IN (?, ?)", T0 + 50_000, T0 + 60_000)
    bad = call()
    assert bad.exit_code == 1
    assert "2026-01-01T00:00:50Z to 2026-01-01T00:01:00Z (2)  no outcome" in bad.stdout
    assert bad.stdout.endswith("audited 1 job, 100 slots: 1 finding\n")
    document = json.loads(call("--json", "--since", "1h").stdout)
    assert (document["schema"], document["findings"], document["slots"]) == ("cronpad.audit/1", 1, 100)
    assert document["items"][0] | {"job_id": "", "detail": ""} == {
        "job": "a",
        "job_id": "",
        "version": 1,
        "what": "no_outcome",
        "slot": "2026-01-01T00:00:50Z",
        "last_slot": "2026-01-01T00:01:00Z",
        "slots": 2,
        "detail": "",
    }
    assert call("--since", "2026-01-01T00:10:00Z").exit_code == 0
    assert call("--since", "soon").exit_code == 2
    assert call("--state", str(books.directory / "none")).exit_code == 4
