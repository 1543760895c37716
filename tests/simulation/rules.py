"""What must hold after every step of the simulation, checked where the state changes; named as in the design (S1 to S14).

The first breach is kept and stops the world. ``hits`` counts what was reached: answers of the stores, kinds of events, faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from cronpad_core.builtin.memory import CatalogData, HistoryData, QueueFile
from cronpad_core.domain.job import Job, JobStatus
from cronpad_core.domain.limits import month_of
from cronpad_core.domain.occurrence import Occurrence, RunKey, Trigger
from cronpad_core.domain.run import MOVES, Run, RunStatus

if TYPE_CHECKING:
    from world import Process, World

__all__ = ["Breach", "Rules", "SafeCatalog", "SafeHistory"]


_ON_ITS_WAY_MS = 10_000


class Breach(AssertionError):
    """A rule that did not hold, and where."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule, self.what = rule, what


class Rules:
    """The book of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.breach: Breach | None = None
        self.hits: Counter[str] = Counter()
        self.highest_fence = 0
        self.ended: dict[RunKey, str | None] = {}
        self.admitted: Counter[tuple[str, str]] = Counter()
        self.tokens: dict[tuple[str, str], str] = {}
        self.refused_puts: dict[str, tuple[Process, int]] = {}
        self.on_breach: Callable[[], None] = lambda: None

    def bad(self, rule: str, what: str) -> None:
        """Notes a breach; only the first one counts."""
        if self.breach is None:
            self.breach = Breach(rule, f"{what} (boot {self._world.clock.boot_ms()} ms)")
            self._world.note("BREACH", rule, what)
            self.on_breach()

    def hit(self, what: str) -> None:
        """Counts something that was reached."""
        self.hits[what] += 1

    def state(self) -> None:
        """S1, and never two holders who trust their lock."""
        file = self._world.state.queue.file
        if file is not None and not file.due.keys().isdisjoint(file.inflight):
            self.bad("S1", f"due and in flight: {file.due.keys() & file.inflight.keys()}")
        holders = [one for one in self._world.processes if one.alive and one.engine.authority.trusted()]
        if len(holders) > 1:
            self.bad("two holders", " ".join(f"{one.name}:{one.engine.authority.term}" for one in holders))

    def run_changes(self, old: Run | None, new: Run) -> None:
        """S3: statuses move along the table; S5: a run's fence never goes down."""
        before = None if old is None else old.status
        ends_again = old is not None and old.status.terminal and old != new
        if ends_again or (before is not new.status and new.status not in MOVES.get(before, frozenset())):
            self.bad("S3", f"{new.key} {before} -> {new.status}")
        if old is not None and new.fence < old.fence:
            self.bad("S5", f"{new.key}: fence {old.fence} -> {new.fence}")
        if old is None and new.key in self.ended:
            self._again(new)
        if new.status.terminal:
            self.ended[new.key] = new.token
        if new.status is RunStatus.RUNNING and before is not RunStatus.RUNNING:
            self._starts(old, new)
        if new.attempt > new.spec.retry.max:
            self.bad("S8", f"{new.key}: attempt {new.attempt} of at most {new.spec.retry.max}")
        self.hit(f"run {new.status.value}")
        if new.skip_reason is not None:
            self.hit(f"skipped {new.skip_reason.value}")
        self._world.note("run", new.key.job_id, new.key.scheduled_at_ms, new.status.value, new.attempt, hex(new.fence))

    def _again(self, new: Run) -> None:
        """What has ended is over, pruned or not; another backfill may run its slot once more.

        A clock that was set back comes to the same slot again, and knows of it by its row alone.
        """
        trigger = new.key.trigger
        slot = trigger is Trigger.SCHEDULED and not self.hits["fault clock back"]
        if slot or (trigger is Trigger.BACKFILL and self.ended[new.key] == new.token):
            self.bad("again", f"{new.key} had ended, and was pruned")

    def _starts(self, old: Run | None, new: Run) -> None:
        """S12: what is admitted is counted, by the rules' own count; nobody asked for its end; nobody has waited for longer."""
        if old is not None and old.cancel_requested:
            self.bad("cancel", f"{new.key} was asked to end, and attempt {new.attempt} starts")
        if old is not None and old.status is RunStatus.RETRYING:
            return
        if new.key.trigger is not Trigger.RETRY:
            self.admitted[new.spec.workspace, month_of(new.opened_at_ms or 0)] += 1
        rows = self._world.state.history.by_job.get(new.key.job_id)
        older = [one for one in rows.waiting if one < (new.created_at_ms, new.id)] if rows else []
        if new.spec.overlap.waiting and older:
            self.bad("overtaken", f"{new.key} starts, and {older} have waited for longer")

    def admissions(self) -> None:
        """S12: quota counters are the number of attempt-0 admissions."""
        counted = +self._world.state.history.used
        if counted != self.admitted:
            self.bad("S12", f"counted {counted}, admitted {self.admitted}")

    def job_changes(self, old: Job | None, new: Job) -> None:
        """S7: the next run never moves back under one version and clock epoch."""
        if old is None or (old.version, old.clock_epoch) != (new.version, new.clock_epoch):
            return
        before, after = old.next_run_at_ms, new.next_run_at_ms
        if before is not None and after is not None and after < before:
            self.bad("S7", f"{new.id} v{new.version}: {before} -> {after}")

    def claimed(self, fences: list[int], order: list[tuple[int, str]]) -> None:
        """S5: fences grow; Q2: entries come in order."""
        for fence in fences:
            if fence <= self.highest_fence:
                self.bad("S5", f"fence {fence} handed out after {self.highest_fence}")
            self.highest_fence = max(self.highest_fence, fence)
        if order != sorted(order):
            self.bad("Q2", f"claimed out of order: {order}")

    def acknowledges(self, file: QueueFile, member: str, fence: int) -> None:
        """S13 and S14, before an entry goes for good."""
        try:
            occurrence = Occurrence.parse(member)
        except Exception:  # a malformed entry promises nothing
            return
        run = self._world.state.history.runs.get(occurrence.key)
        if run is not None and run.status is RunStatus.RUNNING and (run.fence, run.attempt) == (fence, occurrence.attempt):
            self.bad("S14", f"{member} goes while its attempt is running under {fence}")
        job = self._world.state.catalog.jobs.get(occurrence.job_id)
        if (
            occurrence.is_slot
            and not any(member in one.engine.advancer._owed for one in self._world.processes if one.alive)
            and not self._is_about_to_be_owed(member)
            and job is not None
            and job.status is JobStatus.ACTIVE
            and (job.version, job.next_run_at_ms) == (occurrence.job_version, occurrence.scheduled_at_ms)
            # Once moved back, it may catch up to a slot whose old entry was found to be none of its a moment before.
            and not (job.clock_epoch and job.replay is not None)
        ):
            self.bad("S13", f"{member} goes while its job still waits for it")

    def _is_about_to_be_owed(self, member: str) -> bool:
        """Whether a process is just being told that it could not put this entry, which was in flight."""
        process, at_ms = self.refused_puts.get(member, (None, 0))
        return process is not None and process.alive and self._world.clock.boot_ms() - at_ms < _ON_ITS_WAY_MS


class SafeCatalog(CatalogData):
    """Control's data, with an eye on every job that is stored."""

    rules: Rules

    def set_job(self, job: Job) -> None:
        """Stores a job under S7."""
        self.rules.job_changes(self.jobs.get(job.id), job)
        super().set_job(job)


class SafeHistory(HistoryData):
    """History's data, with an eye on every run that is stored."""

    rules: Rules

    def set_run(self, run: Run, *, keep: int) -> None:
        """Stores a run under S3, S5 and S8."""
        self.rules.run_changes(self.runs.get(run.key), run)
        super().set_run(run, keep=keep)
