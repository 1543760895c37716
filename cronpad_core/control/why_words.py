"""What :func:`cronpad_core.control.why.why` found out, in sentences; times in the zone of the job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cronpad_core.control.why import Verdict, Why
from cronpad_core.domain.job import JobSpec, JobStatus
from cronpad_core.domain.ledger import RangeKind
from cronpad_core.domain.run import Attempt, AttemptStatus, Run, RunStatus, SkipReason
from cronpad_core.domain.timing import DAY, HOUR, MINUTE, SECOND, Millis, from_ms
from cronpad_core.schedules.zones import load_zone

__all__ = ["local_time", "sentences"]

_SKIPPED: Final = {
    SkipReason.WORKSPACE_SUSPENDED: "its workspace was suspended",
    SkipReason.QUOTA_EXCEEDED: "its workspace had used up its runs of the month",
    SkipReason.PREVIOUS_RUN_IN_PROGRESS: "as many runs of the job as its overlap rule allows were still running",
    SkipReason.QUEUE_FULL: "as many runs of the job as its overlap rule allows were already waiting",
    SkipReason.MISFIRE: "it was overdue, and the misfire policy left it out",
    SkipReason.PLUGIN_UNAVAILABLE: "the plugin of its sink was missing or had failed",
}


def local_time(instant_ms: Millis, spec: JobSpec) -> str:
    """The instant as the job's zone reads it, to the millisecond where it has some."""
    digits = "milliseconds" if instant_ms % SECOND else "seconds"
    return from_ms(instant_ms).astimezone(load_zone(spec.schedule.timezone)).isoformat(sep=" ", timespec=digits)


def sentences(found: Why) -> tuple[str, ...]:
    """One sentence for each thing that had a say."""
    return tuple(_Words(found).all())


class _Words:
    def __init__(self, found: Why) -> None:
        self._found = found
        covered = found.covered
        self._spec = found.job.spec if covered is None else covered.version.spec

    def _at(self, instant_ms: Millis) -> str:
        return local_time(instant_ms, self._spec)

    def all(self) -> Iterator[str]:
        found = self._found
        yield from self._coverage()
        if found.run is not None:
            yield from self._run(found.run)
        match found.verdict:
            case Verdict.NO_SLOT:
                yield f"{self._at(found.at_ms)} is no slot of it."
            case Verdict.NOT_YET:
                yield f"It is a slot, and its time has not come: it is due in {_long(found.at_ms - found.now_ms)}."
            case Verdict.MISSED | Verdict.DROPPED:
                yield from self._range()
            case Verdict.OPEN:
                yield from self._open()
            case Verdict.BEFORE_LEDGER if found.ledger_from_ms is not None:
                begins = self._at(found.ledger_from_ms)
                yield f"It is a slot. What became of it was pruned, or lost by a restore: the job's ledger begins at {begins}."
            case Verdict.LOST:
                yield "It is a slot, the job has gone past it, and nothing says what became of it: 'cronpad audit' reports it."
            case _:
                pass
        if found.verdict in (Verdict.NO_SLOT, Verdict.NOT_COVERED):
            around = [self._at(one) for one in (found.before_ms, found.after_ms) if one is not None]
            yield (
                f"The nearest slots are {' and '.join(around)}."
                if len(around) > 1
                else (f"The nearest slot is {around[0]}." if around else "The job has no slot at all.")
            )
        if found.backfill is not None:
            yield f"A backfill ran it too: run {found.backfill.id} is {found.backfill.status.value}."

    def _coverage(self) -> Iterator[str]:
        found, one = self._found, self._found.covered
        if one is None:
            yield self._uncovered()
            return
        schedule = one.version.spec.schedule
        since = f"since {self._at(one.after_ms)}"
        if one.until_ms is not None:
            since = f"from {self._at(one.after_ms)} to {self._at(one.until_ms)}"
        texts = " | ".join(schedule.texts)
        yield f"Version {one.version.version} of the job covers it: '{texts}' in {schedule.timezone}, in force {since}."
        if found.run is not None and found.run.job_version != one.version.version:
            yield f"Its run is of version {found.run.job_version}, though."

    def _uncovered(self) -> str:
        found, job = self._found, self._found.job
        if not found.history:
            return "No version of the job is known."
        if found.at_ms <= found.history[0].after_ms:
            return f"The job was first stored at {self._at(found.history[0].after_ms)}, later than that."
        ended = max(
            (one.until_ms for one in found.history if one.until_ms is not None and one.until_ms < found.at_ms), default=None
        )
        following = next((one for one in found.history if one.after_ms >= found.at_ms and one.until_ms != one.after_ms), None)
        when = f"since {self._at(ended)}" if ended is not None else "then"
        if following is not None:
            until = f" until version {following.version.version} began at {self._at(following.after_ms)}"
            return f"No version was in force {when}{until}: the job was paused or removed, and has no slots in between."
        if job.status is JobStatus.PAUSED:
            more = f": {job.paused_reason}" if job.paused_reason else ""
            until = f" until {self._at(job.paused_until_ms)}" if job.paused_until_ms is not None else ""
            return f"The job is paused {when}{until}{more}. A pause has no slots."
        if job.status is JobStatus.DELETED:
            return f"The job is removed {when}, and has no slots any more."
        return f"No version of the job was in force {when}."

    def _range(self) -> Iterator[str]:
        found, row = self._found, self._found.range
        assert row is not None, "the verdict says so"
        reason = row.reason or "no reason is known"
        if row.kind is RangeKind.DROPPED:
            until = None if found.covered is None else found.covered.until_ms
            ended = "" if until is None else f" at {self._at(until)}"
            yield f"It was dropped, because its version ended{ended} before it came up: an edit, a pause or a removal ({reason})."
        else:
            yield f"It could not start within its grace of {_long(self._spec.grace_ms)}: no dispatcher got to it in time."
            rule = self._spec.misfire
            yield f"The misfire policy '{rule.policy}' (window {_long(rule.window_ms)}) did not choose it: missed ({reason})."
        if row.count > 1:
            yield f"The same holds for {row.count:,} slots, from {self._at(row.first_ms)} to {self._at(row.last_ms)}."

    def _open(self) -> Iterator[str]:
        found, job = self._found, self._found.job
        ago = _long(found.now_ms - found.at_ms)
        if found.covered is not None and found.covered.version.valid_until_ms is not None:
            yield "Its version ended before it came up: it is dropped, and the next dispatcher writes that down."
        elif job.replay is not None and found.at_ms <= job.replay.until_ms:
            yield f"Its time came {ago} ago. It was overdue and chosen to run: it is caught up with in its turn."
        elif found.held_ms is not None:
            yield f"Its time came {ago} ago. A limit keeps the job waiting since {self._at(found.held_ms)}."
        else:
            standing = self._at(found.at_ms if job.next_run_at_ms is None else job.next_run_at_ms)
            yield f"Its time came {ago} ago, and no dispatcher has decided yet; the job stands at {standing}."
            yield f"Later than its grace of {_long(job.spec.grace_ms)}, the misfire policy '{job.spec.misfire.policy}' decides."

    def _run(self, run: Run) -> Iterator[str]:
        if run.status is RunStatus.SKIPPED:
            reason = run.skip_reason
            words = "no reason is known" if reason is None else _SKIPPED.get(reason, reason.value)
            yield f"It was skipped: {words} ({'-' if reason is None else reason.value}); run {run.id}."
            return
        yield f"It has run {run.id}, which is {run.status.value}{_because(run.reason)}."
        if self._found.attempts:
            yield from self._late(run, self._found.attempts[0])
        for attempt in self._found.attempts:
            yield self._attempt(attempt)
        if run.redeliveries:
            times = "once" if run.redeliveries == 1 else f"{run.redeliveries} times"
            yield f"It was delivered again {times}, because its process died while it was running."
        if run.cancel_requested:
            yield "Somebody asked to cancel it."
        if run.retry is not None:
            yield f"Attempt {run.retry.attempt + 1} is planned for {self._at(run.retry.at_ms)}."

    def _late(self, run: Run, first: Attempt) -> Iterator[str]:
        """Where the lateness of the first delivery came from."""
        begun = first.opened_at_ms if first.sent_at_ms is None else first.sent_at_ms
        parts = [
            f"due {_ms(first.due_at_ms - run.slot_at_ms)} after the slot",
            f"claimed {_ms(first.claimed_at_ms - first.due_at_ms)} later",
        ]
        parts.append(f"opened {_ms(first.opened_at_ms - first.claimed_at_ms)} later")
        if first.sent_at_ms is not None:
            parts.append(f"sent {_ms(first.sent_at_ms - first.opened_at_ms)} later")
        yield f"Its first delivery began {_ms(begun - run.slot_at_ms)} after the slot: {', '.join(parts)}."
        if first.held_since_ms is not None:
            yield f"A limit had kept it waiting since {self._at(first.held_since_ms)}."
        shift = run.spec.jitter_ms + run.spec.offset_ms
        if first.due_at_ms - run.slot_at_ms > shift + MINUTE and first.held_since_ms is None:
            yield "It was overdue when it was put in the queue: caught up with, or put back after its process had ended."
        elif first.due_at_ms > run.slot_at_ms and shift:
            yield f"Up to {_long(shift)} of that are the job's offset and jitter."

    def _attempt(self, one: Attempt) -> str:
        text = f"Attempt {one.attempt + 1} was opened at {self._at(one.opened_at_ms)}"
        if one.status is AttemptStatus.RUNNING:
            return f"{text} and is running."
        began = one.opened_at_ms if one.sent_at_ms is None else one.sent_at_ms
        took = "" if one.finished_at_ms is None else f" after {_ms(one.finished_at_ms - began)}"
        code = "" if one.exit_code is None else f", exit code {one.exit_code}"
        return f"{text}: {one.status.value.replace('_', ' ')}{took}{code}{_because(one.reason)}."


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _ms(length_ms: Millis) -> str:
    return f"{length_ms} ms" if abs(length_ms) < 10 * SECOND else _long(length_ms)


def _long(length_ms: Millis) -> str:
    """``2 d 4 h``: the two largest units."""
    parts, left = [], max(0, length_ms)
    for unit_ms, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"), (1, "ms")):
        if left >= unit_ms:
            parts.append(f"{left // unit_ms} {unit}")
            left %= unit_ms
    return " ".join(parts[:2]) or "0 s"
