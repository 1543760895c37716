"""A stage whose witness writes down fences too, and the reckoning at the end: what was expected, lost, and delivered twice."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from books import Books, audit, findings_of_runs, slots  # needs the path
from stage import Running, Stage, quick, wait_until

__all__ = ["CODES", "SETTINGS", "Course", "Row", "Seen", "figures", "last_words", "table"]

SETTINGS = quick(lock_ttl="2s")
CODES = frozenset({0, 70, 73, 74, 75, 78})
"""With which codes a runner in trouble may end, as docs/reference/exit-codes.md has them."""
_NOTES = "CHAOS_NOTES"
_ENDS = frozenset({"succeeded", "failed", "skipped", "cancelled", "unknown", "poisoned"})
_FAR = 4_102_444_800_000  # 2100


class Seen(NamedTuple):
    """One line of the witness."""

    tag: str
    run_id: str
    slot_ms: int
    attempt: int
    runner: int
    fence: int


@dataclass(slots=True)
class Row:
    """What came of one kind of fault. ``findings`` are of both audits and of every other check; ``notes`` are for the curious."""

    fault: str
    injected: int = 0
    expected: int = 0
    lost: int = 0
    repeated: int = 0
    findings: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    skipped: str = ""

    def add(self, other: Row) -> None:
        """Adds what another course of the same fault gave."""
        self.injected += other.injected
        self.expected += other.expected
        self.lost += other.lost
        self.repeated += other.repeated
        self.findings += other.findings
        self.notes.update(other.notes)


class Course(Stage):
    """A stage on which every line of the witness is on disk before its command ends."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.offset_ms = 0
        """How far the runners' wall clock is ahead."""
        self.set_back = False
        """Whether it was set back: then there are runs in slots that lie ahead of where their jobs stand."""
        self.clock: dict[str, str] = {}
        """The environment in which a process has the runners' clock."""

    def line(self, tag: str) -> str:
        """A shell command that writes a line to the witness of whoever starts it, and syncs it."""
        told = [f"$CRONPAD_{name}" for name in ("RUN_ID", "SCHEDULED_AT", "ATTEMPT")]
        facts = " ".join([tag, *told, "$E2E_RUNNER", "$CRONPAD_FENCE"])
        return f'echo "{facts}" >> ${_NOTES}; sync -d ${_NOTES}'

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """That of a stage, with where the witness is."""
        return super().environment({_NOTES: str(self.notes), **SETTINGS, **(more or {})})

    def witness(self, tag: str | None = None) -> list[Seen]:  # type: ignore[override]  # a line with more to it
        """What the commands wrote down."""
        text = self.notes.read_text(encoding="utf-8") if self.notes.exists() else ""
        return [one for one in map(_seen, text.splitlines(keepends=True)) if one and (tag is None or one.tag == tag)]

    def fill(self, count: int, every_s: int = 1) -> None:
        """Declares this many jobs, the first of which fails at first now and then, and is tried again."""
        now_and_then = 'case "$CRONPAD_SCHEDULED_AT" in *[05]Z|*[05]+*) exit 1;; esac'
        fails = f'{self.line("job-0")}; test "$CRONPAD_ATTEMPT" != 0 || {now_and_then}'
        jobs = [self.job(f"job-{number}", f"{number % every_s}/{every_s} * * * * *") for number in range(count)]
        jobs[0] |= {"command": fails, "retry": {"max": 3, "base": "200ms"}}
        self.declare(*jobs)

    def now_ms(self) -> int:
        """Wall time as the runners see it."""
        return time.time_ns() // 1_000_000 + self.offset_ms

    def behind(self, by_ms: int) -> int:
        """How much is older than this: next fires, and runs that have not ended."""
        fires = "SELECT count(*) FROM jobs WHERE next_run_at <= ? AND status = 'active'"
        runs = "SELECT count(*) FROM runs WHERE ended = 0 AND scheduled_at <= ?"
        before_ms = self.now_ms() - by_ms
        return sum(int(self.rows(file, text, before_ms)[0][0]) for file, text in ((self.control, fires), (self.history, runs)))

    def come_to_rest(self, runner: Running, within: float = 300, job: str = "job-1") -> None:
        """Waits until ``job`` goes on and all has caught up, and stops in order: what is under way then the runner waits for."""
        runner.finished(job, count=len(runner.attempts(job)) + 2, within=within)
        retrying = "SELECT count(*) FROM runs WHERE status IN ('retrying', 'waiting', 'pending')"

        def rests() -> bool:
            runner.require_alive()
            # A while after the last slot that fails at first: no retry is to come.
            calm = self.now_ms() // 1_000 % 5 in (2, 3)
            return calm and self.behind(1_500) == 0 and self.rows(self.history, retrying) == [(0,)]

        wait_until(rests, lambda: f"all has caught up:\n{last_words(runner)}", within=within)
        runner.stop(within=60)

    def reckon(self, fault: str, injected: int, *, in_turn: bool = True) -> Row:
        """Holds history against the schedules and against the witness. ``in_turn``: each runner came after the one before."""
        books = Books.of(self)
        row = Row(fault, injected, _expected(books))
        found = [one for one in audit(self) if not (self.set_back and _lies_ahead(one, books))]
        row.lost = sum(one.endswith(": 0 outcomes") for one in found)
        row.findings = found + [one for one in findings_of_runs(self) if in_turn or "had ended in runner" not in one]
        row.findings += self.own_audit() + self._unsound() + _of_fences(self.witness())
        lines = self.witness()
        row.repeated = len(lines) - len({(line.run_id, line.attempt) for line in lines})
        row.notes["runs"] = len(books.runs)
        row.notes["slots that a policy left out"] = sum(one["slots"] for one in books.ranges)
        row.notes["starts of a runner"] = len(self.runners)
        return row

    def of_reported(self, reported: list[dict[str, Any]], number: int) -> list[str]:
        """What is wrong with results that were reported before: each is in history, and runner ``number`` did not run it again."""
        findings = []
        statuses = self.statuses()
        again = {line.run_id for line in self.witness() if line.runner == number}
        for one in reported:
            run_id, status = one["run_id"], one["run_status"]
            if run_id not in statuses:
                findings.append(f"{run_id}: was reported as {status}, and is not in history")
            elif status in _ENDS and (statuses[run_id] != status or run_id in again):
                findings.append(f"{run_id}: was reported as {status}, is {statuses[run_id]}, started again: {run_id in again}")
        return findings

    def own_audit(self) -> list[str]:
        """What `cronpad audit` finds."""
        done = self.call("--state", self.state, "audit", "--json", env=self.clock)
        if done.code == 0:
            return []
        try:
            return [f"cronpad audit: {one}" for one in json.loads(done.out)["items"]]
        except (ValueError, KeyError):
            return [f"cronpad audit ended with {done.code}: {done.err}"]

    def _unsound(self) -> list[str]:
        files = (self.control, self.history, self.queue)
        return [f"{path.name} is damaged" for path in files if self.rows(path, "PRAGMA integrity_check") != [("ok",)]]


def _lies_ahead(finding: str, books: Books) -> bool:
    """Whether it is of a run whose slot comes once more: its job stands before it."""
    at = re.fullmatch(r"(.+) v\d+ (\d+): a run and no slot", finding)
    stands = {job["name"]: job["next_run_at"] for job in books.jobs.values()}
    return at is not None and int(at[2]) >= (stands[at[1]] or _FAR)


def _seen(text: str) -> Seen | None:
    if not text.endswith("\n"):
        return None  # cut off by a kill
    tag, run_id, slot, attempt, runner, fence = text.split()
    slot_ms = int(datetime.fromisoformat(slot).timestamp() * 1000)
    return Seen(tag, run_id, slot_ms, int(attempt), int(runner), int(fence))


def _of_fences(lines: list[Seen]) -> list[str]:
    """Each delivery has a fence of its own."""
    counts = Counter(line.fence for line in lines)
    return [f"fence {fence} was seen {count} times" for fence, count in counts.items() if count > 1]


def _expected(books: Books) -> int:
    """How many slots the schedules had, up to where each job stands."""
    count = 0
    for version in books.versions:
        job = books.jobs[version["job_id"]]
        ended, stands = version["valid_until"], job["next_run_at"]
        until_ms = ended if ended is not None else _FAR if stands is None else stands - 1
        count += len(slots(json.loads(version["spec"])["schedule"], version["valid_from"], until_ms))
    return count


def last_words(runner: Running) -> str:
    """The end of what a runner said on stderr."""
    return runner.stderr[-2000:]


def table(rows: list[Row]) -> str:
    """The table of the session, in Markdown."""
    lines = [["fault", "times injected", "slots expected", "lost", "repeated", "audit findings"]]
    lines.append(["---"] * len(lines[0]))
    for row in rows:
        counts = (row.injected, row.expected, row.lost, row.repeated, len(row.findings))
        lines.append([row.fault, *(["–"] * 4 + [row.skipped] if row.skipped else [f"{count:,}" for count in counts])])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def figures(rows: list[Row]) -> str:
    """What stands below the table: notes, and the findings themselves."""
    lines = []
    for row in rows:
        if row.notes:
            lines.append(f"{row.fault}: " + ", ".join(f"{count:,} {what}" for what, count in row.notes.items()))
        lines += [f"  FINDING {one}" for one in row.findings[:20]]
    return "\n".join(lines)
