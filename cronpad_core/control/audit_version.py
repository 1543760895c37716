"""One version of a job against its schedule: the slots without an outcome, and those with two."""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from cronpad_core.domain.job import Job
from cronpad_core.domain.ledger import SlotRange
from cronpad_core.domain.timing import Millis
from cronpad_core.ports.schedule import Schedule

__all__ = ["FINDINGS_KEPT", "Finding", "FindingKind", "Frontier", "JobAudit", "VersionAudit"]

FINDINGS_KEPT = 1_000
"""So many findings of one job are told one by one; the rest is counted."""


class FindingKind(StrEnum):
    """``NO_OUTCOME``: slots that were passed over. ``UNDECIDED``: slots that wait for a decision for longer than one takes.
    ``TWO_OUTCOMES``: slots with more than one. ``NO_SLOT``: an outcome where there is no slot. ``MISCOUNTED``: a range row that
    says another number of slots than it has. ``UNREADABLE``: a schedule that cannot be read any more. ``NO_JOB``: runs of a job
    that control does not know."""

    NO_OUTCOME = "no outcome"
    UNDECIDED = "undecided"
    TWO_OUTCOMES = "two outcomes"
    NO_SLOT = "no slot"
    MISCOUNTED = "miscounted"
    UNREADABLE = "unreadable"
    NO_JOB = "no job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``slots`` slots of a version in [``first_ms``, ``last_ms``] are not as they must be; 0 where it is about a row."""

    kind: FindingKind
    version: int
    first_ms: Millis
    last_ms: Millis
    slots: int
    detail: str


@dataclass(slots=True, kw_only=True)
class JobAudit:
    """What the audit of one job found. ``slots`` were audited; ``open`` others are just being handled, or wait on purpose.

    ``unlisted``: how many more findings there are than ``findings`` holds. ``ledger_from_ms``: where the job's ledger begins, if
    that is later than the job's first slot could be: what was before was pruned, or lost by a restore, and is not judged.
    ``known`` is false for what is only known from runs; ``job`` is then made of their settings.
    """

    job: Job
    slots: int = 0
    open: int = 0
    ledger_from_ms: Millis | None = None
    known: bool = True
    findings: list[Finding] = field(default_factory=list)
    unlisted: int = 0

    def find(self, kind: FindingKind, version: int, first_ms: Millis, last_ms: Millis, detail: str, *, slots: int = 0) -> None:
        """Notes a finding."""
        if len(self.findings) < FINDINGS_KEPT:
            found = Finding(kind=kind, version=version, first_ms=first_ms, last_ms=last_ms, slots=slots, detail=detail)
            self.findings.append(found)
        else:
            self.unlisted += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """Up to where the slots of a version must have their outcomes.

    Younger ones than ``settled_ms`` need none yet. From ``standing_ms`` on they are undecided, as ``why`` says; up to
    ``waiting_ms`` that is as it should be.
    """

    settled_ms: Millis
    standing_ms: Millis | None
    waiting_ms: Millis | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionAudit:
    """Audits the slots of ``version`` in (``after_ms``, ``until_ms``]; ``runs`` are the instants of the job's runs, in order."""

    result: JobAudit
    version: int
    schedule: Schedule
    after_ms: Millis
    until_ms: Millis
    frontier: Frontier
    ranges: Sequence[SlotRange]
    runs: array[int]

    def audit(self) -> None:
        """Adds what is found to the result."""
        self._check_ranges()
        spans = sorted(self._clipped())
        self._check_two(spans)
        before = self.result.open
        for first, last in self._holes(spans):
            self._judge(first, last)
        if self.after_ms < self.until_ms:
            self.result.slots += self.schedule.count_between_ms(self.after_ms, self.until_ms) - (self.result.open - before)

    def _check_ranges(self) -> None:
        for one in self.ranges:
            count = self.schedule.count_between_ms(one.first_ms - 1, one.last_ms)
            if not count:
                detail = f"a {one.kind.value} range of {one.count} slots, and the schedule never fires in it"
                self.result.find(FindingKind.NO_SLOT, self.version, one.first_ms, one.last_ms, detail)
            elif count != one.count:
                detail = f"a {one.kind.value} range says {one.count} slots and has {count}"
                self.result.find(FindingKind.MISCOUNTED, self.version, one.first_ms, one.last_ms, detail, slots=count)

    def _clipped(self) -> Iterator[tuple[Millis, Millis]]:
        # A decision that lost against an edit may reach past the end of its version, and says nothing there.
        for one in self.ranges:
            first, last = max(one.first_ms, self.after_ms + 1), min(one.last_ms, self.until_ms)
            if first <= last:
                yield first, last

    def _check_two(self, spans: Sequence[tuple[Millis, Millis]]) -> None:
        reach = self.after_ms
        for first, last in spans:
            inside = self.runs[bisect_left(self.runs, first) : bisect_right(self.runs, last)]
            twice = [at_ms for at_ms in inside if self.schedule.next_after_ms(at_ms - 1) == at_ms]
            if twice:
                detail = "a run, and a range that covers it"
                self.result.find(FindingKind.TWO_OUTCOMES, self.version, twice[0], twice[-1], detail, slots=len(twice))
            end = min(reach, last)
            if first <= end and (count := self.schedule.count_between_ms(first - 1, end)):
                self.result.find(FindingKind.TWO_OUTCOMES, self.version, first, end, "two ranges", slots=count)
            reach = max(reach, last)

    def _holes(self, spans: Sequence[tuple[Millis, Millis]]) -> Iterator[tuple[Millis, Millis]]:
        """What lies between outcomes, from a slot on that has none."""
        own = self.runs[bisect_right(self.runs, self.after_ms) : bisect_right(self.runs, self.until_ms)]
        following, cursor = self.schedule.next_after_ms, self.after_ms
        for first, last in heapq.merge(((at_ms, at_ms) for at_ms in own), spans):
            if last <= cursor:
                continue
            expected = following(cursor)
            if expected is None or expected > self.until_ms:
                return
            if expected < first:
                yield expected, first - 1
            cursor = last
        expected = following(cursor)
        if expected is not None and expected <= self.until_ms:
            yield expected, self.until_ms

    def _judge(self, first_ms: Millis, last_ms: Millis) -> None:
        """Whether slots without an outcome were lost, are undecided for too long, or just have none yet."""
        settled, standing, waiting = self.frontier.settled_ms, self.frontier.standing_ms, self.frontier.waiting_ms
        lost_until, late_from = min(last_ms, settled), last_ms + 1
        if standing is not None:
            lost_until, late_from = min(lost_until, standing - 1), max(first_ms, standing, (waiting or 0) + 1)
        found = self._found(FindingKind.NO_OUTCOME, first_ms, lost_until, "neither a run nor a range has it")
        found += self._found(FindingKind.UNDECIDED, late_from, min(last_ms, settled), self.frontier.why)
        self.result.open += self.schedule.count_between_ms(first_ms - 1, last_ms) - found

    def _found(self, kind: FindingKind, after_ms: Millis, until_ms: Millis, detail: str) -> int:
        count = self.schedule.count_between_ms(after_ms - 1, until_ms) if after_ms <= until_ms else 0
        first, last = self.schedule.next_after_ms(after_ms - 1), self.schedule.prev_at_or_before_ms(until_ms)
        if not count or first is None or last is None:
            return 0
        self.result.find(kind, self.version, first, last, detail, slots=count)
        return count
