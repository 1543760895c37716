"""A job's rules and standing in words."""

from __future__ import annotations

from dataclasses import dataclass

from cronpad_core.config.durations import spell_duration
from cronpad_core.domain.errors import ScheduleError
from cronpad_core.domain.job import Job, JobStatus
from cronpad_core.domain.limits import ConcurrencyRule, SlaRule
from cronpad_core.domain.overlap import NO_BOUND, OverlapPolicy, OverlapRule
from cronpad_core.domain.timing import Millis, rfc3339

__all__ = ["SlotsLeft", "catching_up", "concurrency_words", "overlap_words", "paused_words", "sla_words", "slots_left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsLeft:
    """What a catch-up still has to run, the last slot at ``until_ms``; ``count`` is ``None`` where the schedule cannot be read."""

    count: int | None
    until_ms: Millis


def overlap_words(rule: OverlapRule) -> str:
    """The policy's name, and what it does with a run that is due while another of its job is running."""
    match rule.policy:
        case OverlapPolicy.SKIP:
            words = "one runs at a time, a further one is skipped"
        case OverlapPolicy.ALLOW if rule.max >= NO_BOUND:
            words = "as many run at once as there are workers"
        case OverlapPolicy.ALLOW:
            words = f"up to {rule.max:,} run at once, further ones are skipped"
        case OverlapPolicy.QUEUE_ONE:
            words = "one run waits for its turn, further ones are skipped"
        case OverlapPolicy.QUEUE_ALL:
            words = f"up to {rule.max:,} wait for their turn, further ones are skipped"
        case OverlapPolicy.CANCEL_RUNNING:
            words = "the running one is asked to end, then the newest runs"
        case _:
            words = "the running one is killed, then the newest runs"
    return f"{rule.policy.value}: {words}"


def concurrency_words(rule: ConcurrencyRule | None) -> str | None:
    """What the cap counts; ``None`` without one."""
    if rule is None:
        return None
    whose = "of this job" if rule.key is None else f'of all jobs with the key "{rule.key}"'
    return f"at most {rule.max:,} at once {whose}, further ones are held back"


def sla_words(rule: SlaRule | None) -> str | None:
    """``start within 30s, finish within 10m``; ``None`` where nothing is looked at."""
    if rule is None:
        return None
    limits = (("start", rule.start_within_ms), ("finish", rule.finish_within_ms))
    return ", ".join(f"{what} within {spell_duration(limit)}" for what, limit in limits if limit is not None) or None


def paused_words(job: Job) -> str | None:
    """Why a job is paused and until when; ``None`` for one that is not, or of which neither is known."""
    if job.status is not JobStatus.PAUSED:
        return None
    until = None if job.paused_until_ms is None else f"until {rfc3339(job.paused_until_ms)}"
    return ", ".join(part for part in (job.paused_reason, until) if part) or None


def catching_up(job: Job) -> str | None:
    """``catching up: 12 slots left, until …``; ``None`` where no catch-up is under way."""
    left = slots_left(job)
    if left is None:
        return None
    count = "" if left.count is None else f"{left.count:,} slot{'' if left.count == 1 else 's'} left, "
    return f"catching up: {count}until {rfc3339(left.until_ms)}"


def slots_left(job: Job) -> SlotsLeft | None:
    """How much of a decided catch-up is left, counted with the schedule; ``None`` where none is under way."""
    from cronpad_core.runtime.schedules import read_schedule

    replay, standing = job.replay, job.next_run_at_ms
    if job.status is not JobStatus.ACTIVE or replay is None or standing is None or standing > replay.until_ms:
        return None
    try:
        count = read_schedule(job.id, job.version, job.spec.schedule).count_between_ms(standing - 1, replay.until_ms)
    except ScheduleError:  # a zone that this machine does not know; the other jobs are listed all the same
        count = None
    return SlotsLeft(count=count, until_ms=replay.until_ms)
