"""Where a ledger begins later than its job, and rows of jobs that nobody knows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.main import cli
from cronpad_core.control.pruning import Going, would_go
from cronpad_core.domain.misfire import MisfireRule
from cronpad_core.domain.timing import HOUR
from cronpad_core.engine.retention import Keep
from cronpad_core.ports.storage import Storage

if TYPE_CHECKING:
    from conftest import Books

T0 = 1_767_225_600_000


def _end_runs(books: Books) -> None:
    books.edit("UPDATE runs SET status = 'succeeded', ended = 1")


def _prune(books: Books, keep: Keep) -> Going:
    """Counts what would go, and lets it go; both must agree."""

    async def prune(storage: Storage) -> Going:
        expected = await would_go(storage, keep=keep, now_ms=books.now)
        runs = ranges = 0
        more = True
        while more:
            done = await storage.history.prune(keep.request(books.now, limit=7), term=1)
            runs, ranges, more = runs + done.runs, ranges + done.ranges, done.more
        assert Going(runs=runs, ranges=ranges) == expected
        return expected

    found: Going = books.do(prune)
    return found


def test_slots_before_the_ledger_are_not_expected(books: Books) -> None:
    """After pruning by number the rest is sound, the audit says where it begins, and a row that is lost after it is found."""
    books.apply("every 10s")
    books.run_until(T0 + 1_000_000)
    _end_runs(books)
    assert books.clean().ledger_from_ms is None
    assert _prune(books, Keep(runs=20)) == Going(runs=80, ranges=0)
    found = books.clean()
    assert (found.slots, found.ledger_from_ms) == (20, T0 + 800_001)
    books.edit("DELETE FROM runs WHERE scheduled_at = ?", T0 + 900_000)
    assert books.findings() == [("no outcome", 900, 900, 1)]


def test_ranges_go_too_and_are_counted_before(books: Books) -> None:
    """By age: ranges and runs; what is left is sound."""
    books.apply("every 10s", misfire=MisfireRule(policy="skip"))
    for _ in range(3):
        books.run_until(books.now + 100_000)
        _end_runs(books)
        books.now += HOUR
        books.decide()
    going = _prune(books, Keep(for_ms=2 * HOUR))
    assert (going.runs > 0, going.ranges > 0) == (True, True)
    assert books.clean().ledger_from_ms is not None


def test_rows_before_the_ledger_are_not_judged(books: Books) -> None:
    """After a restore history may have runs and ranges that nobody can explain; the ledger was begun after them."""
    books.apply("every 10s")
    books.run_until(T0 + 300_000)
    books.edit("UPDATE runs SET job_version = 7 WHERE scheduled_at = ?", T0 + 50_000)
    books.edit("UPDATE runs SET scheduled_at = scheduled_at + 3000 WHERE scheduled_at = ?", T0 + 100_000)
    row = "INSERT INTO ranges (job_id, version, first_at, last_at, kind, slots, reason) VALUES (?, 1, ?, ?, 'missed', ?, '')"
    books.edit(row, books.job().id, T0 + 110_000, T0 + 120_000, 5)
    assert {kind for kind, *_ in books.findings()} == {"no slot", "no outcome", "two outcomes", "miscounted"}
    books.do(lambda storage: storage.history.begin_ledger(T0 + 120_001, term=1))
    assert books.findings() == []
    assert books.clean().slots == 18


def test_runs_of_a_job_that_control_does_not_know(books: Books) -> None:
    """They are a finding under the name that they ran with, unless the ledger was begun after them."""
    books.apply("every 10s")
    books.run_until(T0 + 50_000)
    books.edit("UPDATE runs SET job_id = 'job_lost' WHERE scheduled_at IN (?, ?)", T0 + 10_000, T0 + 20_000)
    assert books.findings() == [("no job", 10, 20, 0)]
    [*_, orphan] = books.audit()
    assert (orphan.known, orphan.job.id, orphan.job.spec.name) == (False, "job_lost", "a")
    assert books.findings(since_ms=T0 + 30_000) == []
    state = ["audit", "--json", "--state", str(books.directory)]
    document = json.loads(CliRunner().invoke(cli, state, obj=Invocation(environ={}, fixed_now_ms=books.now)).stdout)
    assert (document["jobs"], [one["what"] for one in document["items"]][-1]) == (1, "no_job")
    books.do(lambda storage: storage.history.begin_ledger(T0 + 20_001, term=1))
    assert books.findings() == []


def test_the_command_says_where_ledgers_begin(books: Books) -> None:
    """On stderr for ten jobs, and then how many more; in JSON all of them."""
    for number in range(12):
        books.apply("every 10s", name=f"job{number:02}")
    books.now += 5_000
    books.do(lambda storage: storage.history.begin_ledger(T0 + 4_000, term=1))
    state = ["audit", "--state", str(books.directory)]
    invocation = Invocation(environ={}, fixed_now_ms=books.now)
    done = CliRunner().invoke(cli, state, obj=invocation)
    assert done.exit_code == 0, done.output
    assert done.stderr.count("its ledger begins at 2026-01-01T00:00:04Z") == 10
    assert "2 more jobs" in done.stderr
    found = json.loads(CliRunner().invoke(cli, [*state, "--json"], obj=invocation).stdout)
    assert len(found["ledgers"]) == 12
