"""Random openings, results, endings and fences on a few runs; after each step the promises that hold at any time are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cronpad_core.api import (
    MOVES,
    AttemptStatus,
    EndRequest,
    OpenKind,
    OpenRequest,
    OpenSnapshot,
    RecordKind,
    RecordRequest,
    Run,
    RunKey,
    RunStatus,
    Storage,
    decide_open,
)
from cronpad_testkit.samples import T0, fence, key, opening, result, slot, spec
from cronpad_testkit.suites.storage import NewState, run_on

__all__ = ["check_by_walking"]

Step = tuple[str, int, int, int]

_STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(["open", "open", "record", "record", "end", "raise"]),
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


def check_by_walking(new_state: NewState, *, examples: int, shrink: bool = True) -> None:
    """Walks and checks H1 to H4 and H7 after each step. Without ``shrink`` a failure is only raised."""
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
    def __init__(self, storage: Storage) -> None:
        self.history = storage.history
        self.opened: list[OpenRequest] = []
        self.last: dict[tuple[RunKey, int, int], RecordRequest] = {}

    async def take(self, number: int, step: Step) -> None:
        operation, which, variant, back = step
        keys = [key(T0 + each) for each in range(3)]
        before = {each: await self.history.run(each) for each in keys}
        if operation == "open":
            await self._open(number, which, variant, back, before)
        elif operation == "record" and self.opened:
            await self._record(self.opened[-1 - back % len(self.opened)], variant, before)
        elif operation == "end":
            await self._end(keys[which], before[keys[which]], variant, back)
        elif operation == "raise":
            await self._raise(keys[which], before[keys[which]], number, back)
        for each in keys:
            await self._check(each, before[each])

    async def _open(self, number: int, which: int, variant: int, back: int, before: dict[RunKey, Run | None]) -> None:
        term, overlap = 1 + number // 6, None if variant % 3 == 0 else 2
        occurrence = slot(T0 + which, attempt=variant % 3)
        request = opening(occurrence, max(1, number - (back == 3) * 2), term=term, job_spec=spec(overlap=overlap))
        run = before[request.occurrence.key]
        running = await self.history.runs(job_id="job_a", statuses=[RunStatus.RUNNING], limit=99)
        others = [other for other in running if other.key != request.occurrence.key]
        expected = decide_open(request, OpenSnapshot(run=run, running_others=len(others), covered=False))
        (decision,) = await self.history.open_runs([request])
        assert decision == expected
        assert await self.history.run(request.occurrence.key) == (expected.write or run)
        if decision.kind is OpenKind.OPENED:
            self.opened.append(request)

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
        if was not in (RunStatus.RUNNING, RunStatus.RETRYING):
            was = RunStatus.RETRYING
        request = EndRequest(
            key=run_key,
            was=was,
            attempt=attempt + (back == 1),
            fence=run_fence - (back == 2),
            status=_ENDS[variant % 2],
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

    async def _check(self, run_key: RunKey, before: Run | None) -> None:
        """H1: moves only; H7: fences only grow; at most the present delivery runs, and only of a run that does."""
        run = await self.history.run(run_key)
        if run is None:
            assert before is None
            return
        if before is not None and before != run:
            assert not before.status.terminal
            assert run.fence >= before.fence
            assert run.status in MOVES[before.status]
        rows = [row for row in await self.history.attempts(run.id) if row.status is AttemptStatus.RUNNING]
        assert [(row.attempt, row.fence) for row in rows] in ([], [(run.attempt, run.fence)])
        assert not rows or run.status is RunStatus.RUNNING
        unfinished = [each.id for each in await self.history.unfinished(after="", limit=99)]
        assert (run.id in unfinished) == (not run.status.terminal)
