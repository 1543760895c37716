"""One manual run of one job through the whole line, with its retries, and nothing else of that state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from cronpad_core.control.apply import Declared, apply
from cronpad_core.domain.errors import CronpadError, LockHeldError, NotFoundError
from cronpad_core.domain.job import Job
from cronpad_core.domain.occurrence import Occurrence, Trigger
from cronpad_core.domain.run import Attempt, AttemptStatus, Run, RunStatus
from cronpad_core.ports.asked import PendingRequest
from cronpad_core.ports.history import EndRequest
from cronpad_core.ports.queue import Entry
from cronpad_core.runtime.lifecycle import Runner

__all__ = ["OnceResult", "run_once"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceResult:
    """The run as it ended, and its last attempt."""

    run: Run
    attempt: Attempt | None

    @property
    def exit_code(self) -> int:
        """The last attempt's: the child's code (128+n for a signal), 124 for a time-out, 1 for any other failure."""
        if self.run.status is RunStatus.SUCCEEDED:
            return 0
        if self.attempt is None:
            return 1
        if self.attempt.status is AttemptStatus.TIMED_OUT:
            return 124
        return self.attempt.exit_code or 1


async def run_once(runner: Runner, declared: Declared) -> OnceResult:
    """Runs a job of the runner's files now. Raises ``LockHeldError`` where the state is in use.

    The entry is due before everything else in the queue and claims are one entry long, so no other work of the state is begun.
    """
    await runner.storage.open()
    try:
        engine = runner.engine
        if not await engine.dispatcher.try_take():
            raise LockHeldError("another cronpad dispatches on this state", hint="leave --state out to run it on its own")
        await runner.storage.prepare()
        job = await _the_job(runner, declared)
        occurrence = await _asked(runner, job)
        while True:
            await _walk(runner, occurrence)
            run = await runner.storage.history.run(occurrence.key)
            if run is None or run.retry is None:
                break
            await runner.clock.sleep(max(0, run.retry.at_ms - runner.clock.wall_ms()))
            occurrence = occurrence.with_attempt(run.retry.attempt)
        if run is None:
            raise NotFoundError(f'job "{declared.spec.name}" was not run')
        attempts = await runner.storage.history.attempts(run.id)
        return OnceResult(run=run, attempt=attempts[-1] if attempts else None)
    finally:
        await runner.engine.dispatcher.give_back()
        await runner.close()


async def _the_job(runner: Runner, declared: Declared) -> Job:
    """The job as stored; stored now where the state does not know it yet."""
    stored = await runner.storage.catalog.job(declared.job_id)
    if stored is not None:
        return stored
    applied = await apply(
        [declared],
        origins=(),
        prune=False,
        catalog=runner.engine.catalog,
        history=runner.storage.history,
        schedules=runner.schedules,
        now=runner.clock.wall_ms,
        term=runner.engine.authority.term,
    )
    return applied.changes[0].job


async def _asked(runner: Runner, job: Job) -> Occurrence:
    """The durable row of a manual run, which takes the next free millisecond."""
    now, term = runner.clock.wall_ms(), runner.engine.authority.term
    request = PendingRequest(
        job_id=job.id,
        job_version=job.version,
        spec=job.spec,
        trigger=Trigger.MANUAL,
        at_ms=now,
        slot_at_ms=now,
        now_ms=now,
    )
    if term is None:
        raise LockHeldError("the lock was lost before the job could be run")
    [answer] = await runner.storage.history.add_pending([request], term=term)
    return Occurrence(
        job_id=job.id,
        scheduled_at_ms=answer.run.key.scheduled_at_ms,
        attempt=0,
        job_version=job.version,
        trigger=Trigger.MANUAL,
    )


async def _walk(runner: Runner, occurrence: Occurrence) -> None:
    """Puts this attempt before everything else and walks it, again where it had to be given back."""
    engine = runner.engine
    while True:
        term = engine.authority.term
        if term is None or not await engine.dispatcher.renew():
            raise LockHeldError("the lock was lost before the job could be run")
        await runner.storage.queue.put([Entry(member=occurrence.member, at_ms=0)], term=term)
        for ticket in (await engine.claimer.claim(most=1)).tickets:
            keeper = asyncio.ensure_future(_keep(runner))
            try:
                await engine.line.walk(replace(ticket, due_at_ms=ticket.claimed_at_ms))
            finally:
                keeper.cancel()
        run = await runner.storage.history.run(occurrence.key)
        if run is not None and (run.status.terminal or run.status is RunStatus.RETRYING):
            return
        if run is not None and len(engine.line.holds):
            await _refuse(runner, run)
        await runner.clock.sleep(50)


async def _refuse(runner: Runner, run: Run) -> None:
    """Nothing else of the state is run, so what keeps this run waiting would keep it for ever."""
    request = EndRequest(
        key=run.key,
        was=run.status,
        attempt=run.attempt,
        fence=max(run.fence, (runner.engine.authority.term or 0) << 32),
        status=RunStatus.CANCELLED,
        reason="other runs were in the way",
        now_ms=runner.clock.wall_ms(),
    )
    await runner.storage.history.end(request)
    raise CronpadError(
        f'"{run.spec.name}" was not run: runs that an earlier runner left open are in its way',
        hint="'cronpad run' on this state finishes them; without --state the job runs on its own",
    )


async def _keep(runner: Runner) -> None:
    """Keeps lock and lease while the job runs."""
    engine = runner.engine
    while True:
        await runner.clock.sleep(engine.parts.tuning.renew_ms)
        await engine.dispatcher.renew()
        await engine.leases.extend()
