"""Random requests, openings, results, cancels, endings and fences on a few runs; each step is foreseen, and afterwards the promises
that hold at any time are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cronpad_core.api import (
    MOVES,
    AttemptStatus,
    EndRequest,
    Limit,
    OpenKind,
    OpenRequest,
    OpenSnapshot,
    OverlapPolicy,
    OverlapRule,
    Quota,
    RecordKind,
    RecordRequest,
    Run,
    RunKey,
    RunStatus,
    Storage,
    Trigger,
    decide_open,
    month_of,
)
from cronpad_testkit.samples import T0, fence, key, opening, pending, result, slot, spec
from cronpad_testkit.suites.storage import NewState, run_on

__all__ = ["check_by_walking"]

Step = tuple[str, int, int, int]

_STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(["open", "open", "record", "record", "ask", "cancel", "end", "raise"]),
        st.integers(0, 2),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    min_size=4,
    max_size=25,
)
"""(operation, which run, which variant, how far back)."""

_RESULTS = (
    (RunStatus.SUCCEEDED, AttemptStatus.DELIVERED),
    (RunStatus.FAILED, AttemptStatus.FAILED),
    (RunStatus.RETRYING, AttemptStatus.FAILED),
    (RunStatus.RETRYING, AttemptStatus.TIMED_OUT),
    (RunStatus.RUNNING, AttemptStatus.INTERRUPTED),
    (RunStatus.UNKNOWN, AttemptStatus.UNKNOWN),
)
_ENDS = (RunStatus.CANCELLED, RunStatus.FAILED)
_RULES = (
    None,
    2,
    2,
    OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=2),
    OverlapRule(policy=OverlapPolicy.KILL_RUNNING),
    OverlapRule(policy=OverlapPolicy.QUEUE_ONE),
)
_LIMITS = (Limit(scope="key:none", max=1), Limit(scope="all", max=2))
_QUOTA = Quota(max=5)


def check_by_walking(new_state: NewState, *, examples: int, shrink: bool = True) -> None:
    """Walks and checks H1 to H4, H7 to H9 and H12 after each step. Without ``shrink`` a failure is only raised."""
    chosen = settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    if not shrink:
        chosen = settings(chosen, phases=[Phase.generate], database=None, derandomize=True)

    @chosen
    @given(_STEPS)
    def check(steps: list[Step]) -> None:
        run_on(new_state(), lambda storage: _walk(storage, steps))

    check()


async def _walk(storage: Storage, steps: Sequence[Step]) -> None:
    walker = _Walker(storage)
    for number, step in enumerate(steps, 1):
        await walker.take(number, step)


class _Walker:
    """Walks over three slots of one job, and a manual run beside each."""

    def __init__(self, storage: Storage) -> None:
        self.history = storage.history
        self.opened: list[OpenRequest] = []
        self.last: dict[tuple[RunKey, int, int], RecordRequest] = {}
        self.used = 0

    async def take(self, number: int, step: Step) -> None:
        operation, which, variant, back = step
        keys = [key(T0 + each, trigger=trigger) for trigger in (Trigger.SCHEDULED, Trigger.MANUAL) for each in range(3)]
        before = {each: await self.history.run(each) for each in keys}
        chosen = keys[which + 3 * (variant % 2)]
        if operation == "open":
            await self._open(number, keys[which + 3 * (back // 2)], variant, back, before)
        elif operation == "record" and self.opened:
            await self._record(self.opened[-1 - back % len(self.opened)], variant, before)
        elif operation == "ask":
            await self._ask(keys[which + 3], number, before)
        elif operation == "cancel":
            await self._cancel(chosen, before[chosen])
        elif operation == "end":
            await self._end(chosen, before[chosen], variant, back)
        elif operation == "raise":
            await self._raise(chosen, before[chosen], number, back)
        unfinished = {each.id for each in await self.history.unfinished(after="", limit=99)}
        for each in keys:
            await self._check(each, before[each], unfinished)
        assert await self.history.used("default", month_of(T0)) == self.used

    async def _open(self, number: int, run_key: RunKey, variant: int, back: int, before: dict[RunKey, Run | None]) -> None:
        attempt = variant if variant < 3 else 0
        occurrence = slot(run_key.scheduled_at_ms, attempt=attempt, trigger=run_key.trigger)
        early = 2 if back == 3 or (back == 1 and variant == 2) else 0
        request = replace(
            opening(occurrence, max(1, number - early), term=1 + number // 6, job_spec=spec(overlap=_RULES[variant])),
            limits=_LIMITS if variant == 2 or back == 0 else (),
            quota=_QUOTA if variant != 1 else None,
        )
        run = before[run_key]
        others = [each for each in before.values() if each is not None and each.key != run_key]
        running = [each for each in others if each.status is RunStatus.RUNNING]
        expected = decide_open(request, self._seen(run, others))
        (decision,) = await self.history.open_runs([request])
        assert decision == expected
        assert await self.history.run(run_key) == (expected.write or run)
        self.used += decision.counted
        for other in running:
            marked = other.cancel_requested or decision.replaces is not None
            assert await self.history.run(other.key) == replace(other, cancel_requested=marked)
        if decision.kind is OpenKind.OPENED:
            self.opened.append(request)

    def _seen(self, run: Run | None, others: Sequence[Run]) -> OpenSnapshot:
        running = sum(other.status is RunStatus.RUNNING for other in others)
        waiting = [(other.created_at_ms, other.id) for other in others if other.status is RunStatus.WAITING]
        earlier = [age for age in waiting if run is None or age < (run.created_at_ms, run.id)]
        return OpenSnapshot(
            run=run,
            running_others=running,
            covered=False,
            waiting_before=len(earlier),
            waiting_after=len(waiting) - len(earlier),
            running_in={"all": running},
            used=self.used,
        )

    async def _ask(self, run_key: RunKey, number: int, before: dict[RunKey, Run | None]) -> None:
        """H8: asked for with one token, a run is there once."""
        at_ms, run = run_key.scheduled_at_ms, before[run_key]
        rule = _RULES[3 + number % 3]
        request = pending(at_ms, token=f"t{at_ms}", now_ms=T0 + 1_000 + number % 3, job_spec=spec(overlap=rule))
        (answer,) = await self.history.add_pending([request], term=0)
        assert (answer.created, answer.run.key) == (run is None, run_key)
        assert await self.history.run(run_key) == answer.run
        assert run is None or answer.run == run
        assert run is not None or answer.run.status is RunStatus.PENDING

    async def _cancel(self, run_key: RunKey, run: Run | None) -> None:
        """H9: a mark on what has not ended."""
        expected = run if run is None or run.status.terminal else replace(run, cancel_requested=True)
        assert await self.history.request_cancel(run_key, term=0) == expected
        assert await self.history.run(run_key) == expected

    async def _record(self, request: OpenRequest, variant: int, before: dict[RunKey, Run | None]) -> None:
        status, attempt_status = _RESULTS[variant]
        plan = request.now_ms + 60_000 if status is RunStatus.RETRYING else None
        wanted = result(request, status, attempt_status, retry_at_ms=plan)
        run = before[wanted.key]
        assert run is not None
        place = (wanted.key, wanted.attempt.attempt, wanted.attempt.fence)
        runs_it = (run.status, run.attempt, run.fence) == (RunStatus.RUNNING, *place[1:])
        (answer,) = await self.history.record([wanted])
        if self.last.get(place) == wanted:
            assert answer.kind is RecordKind.ALREADY
        else:
            assert (answer.kind is RecordKind.RECORDED) == runs_it
        after = await self.history.run(wanted.key)
        assert after is not None
        assert answer.status is after.status
        if answer.kind is RecordKind.RECORDED:
            self.last[place] = wanted
            assert (after.status, after.retry) == (status, wanted.retry)
            assert wanted.attempt in await self.history.attempts(after.id)
        else:
            assert after == run

    async def _end(self, run_key: RunKey, run: Run | None, variant: int, back: int) -> None:
        was, attempt, run_fence = (run.status, run.attempt, run.fence) if run else (RunStatus.RETRYING, 0, 0)
        if was.terminal:
            was = RunStatus.RETRYING
        status = _ENDS[variant % 2] if was in (RunStatus.RUNNING, RunStatus.RETRYING) else RunStatus.CANCELLED
        request = EndRequest(
            key=run_key,
            was=was,
            attempt=attempt + (back == 1),
            fence=run_fence - (back == 2),
            status=status,
            reason="a test",
            now_ms=T0 + 90_000,
        )
        done = await self.history.end(request)
        assert done == (run is not None and run.status is was and back not in (1, 2))
        if done:
            after = await self.history.run(run_key)
            assert after is not None
            assert after.status is request.status

    async def _raise(self, run_key: RunKey, run: Run | None, number: int, back: int) -> None:
        old = run.fence - (back == 1) if run else 0
        attempt = run.attempt + (back == 2) if run else 0
        done = await self.history.raise_fence(run_key, attempt=attempt, old=old, new=fence(number, term=9))
        assert done == (
            run is not None and run.status is RunStatus.RUNNING and back not in (1, 2) and old <= fence(number, term=9)
        )
        if done and run is not None:
            # A result that was recorded under the old fence went with the row, so it is no longer the same one.
            self.last.pop((run_key, run.attempt, run.fence), None)
            assert await self.history.run(run_key) == replace(run, fence=fence(number, term=9))

    async def _check(self, run_key: RunKey, before: Run | None, unfinished: set[str]) -> None:
        """H1: moves only; H7: fences only grow; at most the present delivery runs, and only of a run that does."""
        run = await self.history.run(run_key)
        if run is None:
            assert before is None
            return
        if before is not None and before != run:
            assert not before.status.terminal
            assert run.fence >= before.fence
            assert run.cancel_requested or not before.cancel_requested
            if run.status is before.status and run.status is not RunStatus.RUNNING:
                assert run == replace(before, cancel_requested=True)
            else:
                assert run.status in MOVES[before.status]
        rows = [row for row in await self.history.attempts(run.id) if row.status is AttemptStatus.RUNNING]
        assert [(row.attempt, row.fence) for row in rows] in ([], [(run.attempt, run.fence)])
        assert not rows or run.status is RunStatus.RUNNING
        assert (run.id in unfinished) == (not run.status.terminal)
