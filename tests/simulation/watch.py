"""The three stores under watch: each call is compared with what it may do, then the rules are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ledger import begins_ms, knows, outcomes, slots

from cronpad_core.domain.admission import OpenDecision, OpenKind, OpenRequest
from cronpad_core.domain.backfill import Backfill
from cronpad_core.domain.errors import TermRefusedError
from cronpad_core.domain.ledger import SlotRange
from cronpad_core.domain.limits import month_of, scopes_of
from cronpad_core.domain.occurrence import RunKey
from cronpad_core.domain.run import Run, RunStatus
from cronpad_core.ports.asked import PendingAnswer, PendingRequest
from cronpad_core.ports.catalog import CatalogStore, JobWrite, Move, MoveAnswer, MoveKind
from cronpad_core.ports.history import HistoryStore, RangeRequest, RecordAnswer, RecordRequest
from cronpad_core.ports.keeping import CutRequest, Pruned, PruneRequest
from cronpad_core.ports.queue import Claimed, Entry, Lease, LeaseState, QueueStore

if TYPE_CHECKING:
    from world import Process

__all__ = ["WatchedCatalog", "WatchedHistory", "WatchedQueue"]


class _Watched:
    """Passes everything on that is not watched."""

    def __init__(self, inner: Any, process: Process) -> None:
        self._inner, self._process = inner, process
        self._world, self._rules = process.world, process.world.rules

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _checked(self, what: str) -> None:
        self._rules.hit(what)
        self._rules.state()


class WatchedQueue(_Watched):
    """The queue: S5, S6, S10, S13 and S14."""

    _inner: QueueStore

    def _file(self) -> Any:
        return self._inner._file

    async def _under_term(self, what: str, term: int, call: Any) -> Any:
        """S6: a write under a term that is not the lock's changes nothing."""
        file = self._file()
        lock = file.lock if file is not None else None
        try:
            answer = await call
        except TermRefusedError:
            self._checked(f"{what} refused")
            raise
        if lock is None or lock.term != term:
            self._rules.bad("S6", f"{self._process.name} does {what} under term {term}, the lock says {lock}")
        self._checked(what)
        return answer

    async def claim(self, *, term: int, limit: int, **rest: Any) -> list[Claimed]:
        """Claims under S5, S6, S10 and Q2."""
        engine = self._process.engine
        if limit > engine.claimer.free():
            self._rules.bad("S10", f"{self._process.name} asks for {limit} with {engine.claimer.free()} workers free")
        claimed = await self._under_term("queue.claim", term, self._inner.claim(term=term, limit=limit, **rest))
        if self._file() is self._world.state.queue.file:
            self._rules.claimed([one.fence for one in claimed], [(one.due_at_ms, one.member) for one in claimed])
        for one in claimed:
            self._world.note(self._process.name, "claims", one.member, hex(one.fence))
        return claimed

    async def put(self, entries: Sequence[Entry], *, term: int) -> frozenset[str]:
        """Puts under S6."""
        answer = await self._under_term("queue.put", term, self._inner.put(entries, term=term))
        if answer:
            self._rules.hit("queue.put in flight")
            self._rules.refused_puts |= dict.fromkeys(answer, (self._process, self._world.clock.boot_ms()))
        self._world.note(self._process.name, "puts", *(one.member for one in entries))
        return answer

    async def reap(self, *, term: int, **rest: Any) -> list[str]:
        """Reaps under S6."""
        members = await self._under_term("queue.reap", term, self._inner.reap(term=term, **rest))
        if members:
            self._rules.hit("reaped")
            self._world.note(self._process.name, "reaps", *members)
        return members

    async def requeue(self, *, term: int, **rest: Any) -> list[str]:
        """Requeues under S6."""
        members = await self._under_term("queue.requeue", term, self._inner.requeue(term=term, **rest))
        if members:
            self._rules.hit("requeued")
            self._world.note(self._process.name, "requeues", *members)
        return members

    async def ack(self, lease: Lease, *, retry: Entry | None = None) -> LeaseState:
        """Acknowledges under S6, S13 and S14."""
        file = self._file()
        held, due = file.inflight.get(lease.member), file.due.get(lease.member)
        ours = lease.fence in (getattr(held, "fence", None), getattr(due, "fence", None))
        if ours and file is self._world.state.queue.file:
            self._rules.acknowledges(file, lease.member, lease.fence)
        answer = await self._inner.ack(lease, retry=retry)
        changed = (held, due) != (file.inflight.get(lease.member), file.due.get(lease.member))
        if not ours and (changed or answer is not LeaseState.LOST):
            self._rules.bad("S6", f"{self._process.name} acknowledges {lease} which it does not hold")
        self._world.note(self._process.name, "acks", lease.member, answer.value, retry.member if retry else "")
        self._checked(f"queue.ack {answer.value}")
        return answer

    async def release(self, lease: Lease, **rest: Any) -> LeaseState:
        """Gives back under S6."""
        file = self._file()
        held, due = file.inflight.get(lease.member), file.due.get(lease.member)
        answer = await self._inner.release(lease, **rest)
        ours = held is not None and held.fence == lease.fence
        if not ours and (held, due) != (file.inflight.get(lease.member), file.due.get(lease.member)):
            self._rules.bad("S6", f"{self._process.name} gives {lease} back which it does not hold")
        self._world.note(self._process.name, "releases", lease.member, answer.value)
        self._checked(f"queue.release {answer.value}")
        return answer

    async def extend(self, leases: Sequence[Lease], **rest: Any) -> Any:
        """Extends; what became of each lease is counted."""
        answer = await self._inner.extend(leases, **rest)
        for state in answer.values():
            self._rules.hit(f"queue.extend {state.value}")
        self._rules.state()
        return answer

    async def acquire(self, row: Any, **rest: Any) -> bool:
        """Takes the lock; refusals are counted."""
        taken = await self._inner.acquire(row, **rest)
        self._world.note(self._process.name, "acquires", row.term, taken)
        self._checked(f"queue.acquire {taken}")
        return taken

    async def reassert(self, row: Any, **rest: Any) -> bool:
        """Moves the lock to another file; refusals are counted."""
        moved = await self._inner.reassert(row, **rest)
        self._world.note(self._process.name, "reasserts", row.term, moved)
        self._checked(f"queue.reassert {moved}")
        return moved


class WatchedCatalog(_Watched):
    """Control: S6."""

    _inner: CatalogStore

    async def move(self, moves: Sequence[Move]) -> list[MoveAnswer]:
        """Moves jobs under S6."""
        term = self._world.state.catalog.term.record.term
        try:
            answers = await self._inner.move(moves)
        except TermRefusedError:
            self._checked("catalog.move refused")
            raise
        for move, answer in zip(moves, answers, strict=True):
            if answer.kind is MoveKind.MOVED and move.to_ms is not None:
                self._decided(move, move.to_ms)
            self._world.note(self._process.name, "moves", move.job_id, move.from_ms, move.to_ms, answer.kind.value)
            if move.term != term and answer.kind.value == "moved":
                self._rules.bad("S6", f"{self._process.name} moves {move.job_id} under term {move.term}, control says {term}")
            self._checked(f"catalog.move {answer.kind.value}")
        return answers

    def _decided(self, move: Move, to_ms: int) -> None:
        """2 before 3: no slot is left behind by a move unless it has its outcome."""
        spec = self._world.state.catalog.jobs[move.job_id].spec
        # Of a long absence the ends are enough: what lies between is one row.
        first, long = move.from_ms, to_ms - move.from_ms > 500_000
        spans = [(first, first + 1), (to_ms - 60_000, to_ms)] if long else [(first, to_ms)]
        found = [slot for start, end in spans if knows(spec) for slot in slots(spec, start - 1, end - 1)]
        for slot in found:
            if slot >= begins_ms(self._world, move.job_id) and not outcomes(self._world, move.job_id, move.version, slot):
                self._rules.bad(
                    "order", f"{self._process.name} moves {move.job_id} from {move.from_ms} past {slot} without an outcome"
                )

    async def write(self, writes: Sequence[JobWrite], *, term: int | None) -> None:
        """Stores jobs under S6."""
        stored = self._world.state.catalog.term.record.term
        await self._inner.write(writes, term=term)
        if term != stored:
            self._rules.bad("S6", f"{self._process.name} writes jobs under term {term}, control says {stored}")
        for write in writes:
            self._world.note(self._process.name, "writes", write.job.id, write.job.version, write.job.status.value)
        self._checked("catalog.write")


class WatchedHistory(_Watched):
    """History: S6."""

    _inner: HistoryStore

    async def open_runs(self, requests: Sequence[OpenRequest]) -> list[OpenDecision]:
        """Opens runs; the answers are counted."""
        decisions = await self._inner.open_runs(requests)
        for request, decision in zip(requests, decisions, strict=True):
            again = " again" if decision.redelivery else ""
            self._world.note(self._process.name, "opens", request.occurrence.member, decision.kind.value + again)
            self._checked(f"history.open {decision.kind.value}{again}")
            if decision.replaces is not None and decision.run is not None:
                self._marked(decision.run, requests)
            if decision.counted and request.quota is not None:
                self._within(request)
        self._rules.admissions()
        opened = [one.kind is OpenKind.OPENED and one.write is not None and not one.redelivery for one in decisions]
        if opened and opened[-1]:
            self._capped(requests[-1])
        return decisions

    def _marked(self, by: Run, requests: Sequence[OpenRequest]) -> None:
        """Who is to make way is marked, so that whoever delivers it next, or tries it again, knows."""
        here = {request.occurrence.key for request in requests}
        for run in self._world.state.history.runs.values():
            others = run.key.job_id == by.key.job_id and run.key not in here
            if others and run.status is RunStatus.RUNNING and not run.cancel_requested:
                self._rules.bad("marks", f"{run.key} is running and was not asked to end by {by.key}")

    def _within(self, request: OpenRequest) -> None:
        """A blocking quota is never exceeded."""
        quota, workspace = request.quota, request.spec.workspace
        used = self._world.state.history.used[workspace, month_of(request.now_ms)]
        if quota is not None and quota.blocking and used > quota.max:
            self._rules.bad("quota", f"{workspace} has opened {used} runs, {quota.max} may be")

    def _capped(self, request: OpenRequest) -> None:
        """No cap and no overlap rule is ever exceeded, counted from the rows themselves."""
        running = [run for run in self._world.state.history.runs.values() if run.status is RunStatus.RUNNING]
        for limit in request.limits:
            scopes = (scopes_of(run.key.job_id, run.spec.workspace, run.spec.concurrency) for run in running)
            if (count := sum(limit.scope in of_run for of_run in scopes)) > limit.max:
                self._rules.bad("cap", f"{count} runs of {limit.scope} are running, {limit.max} may")
        own = next((run for run in running if run.key == request.occurrence.key), None)
        count = sum(run.key.job_id == request.occurrence.job_id for run in running)
        if own is not None and count > own.spec.overlap.limit:
            self._rules.bad("cap", f"{count} runs of {own.key.job_id} are running, {own.spec.overlap.limit} may")

    async def record(self, requests: Sequence[RecordRequest]) -> list[RecordAnswer]:
        """Records under S6: another fence, or another attempt, changes no run."""
        runs = self._world.state.history.runs
        before = {request.key: runs.get(request.key) for request in requests}
        answers = await self._inner.record(requests)
        for request, answer in zip(requests, answers, strict=True):
            run = before[request.key]
            ours = run is not None and (run.fence, run.attempt) == (request.attempt.fence, request.attempt.attempt)
            if not ours and runs.get(request.key) != run:
                self._rules.bad("S6", f"{self._process.name} records {request.key} under fence {request.attempt.fence}")
            self._world.note(self._process.name, "records", request.key.scheduled_at_ms, request.status.value, answer.kind.value)
            self._checked(f"history.record {answer.kind.value}")
        return answers

    async def raise_fence(self, *args: Any, **rest: Any) -> bool:
        """A running worker takes a newer lease over; counted."""
        raised = await self._inner.raise_fence(*args, **rest)
        self._checked(f"history.raise_fence {raised}")
        return raised

    async def end(self, request: Any) -> bool:
        """Ends a run; counted."""
        ended = await self._inner.end(request)
        self._checked(f"history.end {request.status.value} {ended}")
        return ended

    async def add_pending(self, requests: Sequence[PendingRequest], *, term: int) -> list[PendingAnswer]:
        """Takes what is asked for under S6."""
        stored = self._world.state.history.term.record.term
        answers = await self._inner.add_pending(requests, term=term)
        if term != stored:
            self._rules.bad("S6", f"{self._process.name} adds runs under term {term}, history says {stored}")
        for request, answer in zip(requests, answers, strict=True):
            self._once(request, answer)
            self._world.note(self._process.name, "asks for", answer.run.key.scheduled_at_ms, answer.created)
            self._checked(f"history.add_pending {answer.created}")
        return answers

    def _once(self, request: PendingRequest, answer: PendingAnswer) -> None:
        """Asked twice by the same word it is the same run, for as long as that is kept."""
        if request.token is None:
            return
        before = self._rules.tokens.get((request.job_id, request.token))
        if answer.created and before in self._world.state.history.keys:
            self._rules.bad("token", f"{request.token!r} is run {before} and now {answer.run.id}")
        self._rules.tokens[request.job_id, request.token] = answer.run.id

    async def prune(self, request: PruneRequest, *, term: int) -> Pruned:
        """Prunes under S6, and nothing that has not ended."""
        stored, open_runs = self._world.state.history.term.record.term, set(self._world.state.history.unfinished)
        pruned = await self._inner.prune(request, term=term)
        if term != stored:
            self._rules.bad("S6", f"{self._process.name} prunes under term {term}, history says {stored}")
        if not open_runs <= self._world.state.history.keys.keys():
            self._rules.bad("prune", f"{open_runs - self._world.state.history.keys.keys()} had not ended")
        self._world.note(self._process.name, "prunes", pruned)
        self._checked(f"pruned {'runs' if pruned.runs else 'ranges' if pruned.ranges else 'nothing'}")
        return pruned

    async def request_cancel(self, key: RunKey, *, term: int) -> Run | None:
        """Marks a run; counted."""
        run = await self._inner.request_cancel(key, term=term)
        self._world.note(self._process.name, "asks to end", key, None if run is None else run.status.value)
        self._checked(f"history.request_cancel {None if run is None else run.status.value}")
        return run

    async def move_backfill(self, backfill: Backfill, *, expected: Backfill, term: int) -> bool:
        """Moves a backfill; counted."""
        moved = await self._inner.move_backfill(backfill, expected=expected, term=term)
        self._world.note(self._process.name, "moves backfill", backfill, moved)
        self._checked(f"history.move_backfill {moved}")
        return moved

    async def cut_ranges(self, requests: Sequence[CutRequest], *, term: int) -> list[SlotRange]:
        """Cuts ranges; counted."""
        cut = await self._inner.cut_ranges(requests, term=term)
        for row in cut:
            self._world.note(self._process.name, "cuts", row)
        self._checked(f"history.cut_ranges {'some' if cut else 'none'}")
        return cut

    async def add_ranges(self, requests: Sequence[RangeRequest], *, term: int) -> Any:
        """Writes ranges under S6."""
        stored = self._world.state.history.term.record.term
        try:
            rows = await self._inner.add_ranges(requests, term=term)
        except TermRefusedError:
            self._checked("history.add_ranges refused")
            raise
        if rows and term != stored:
            self._rules.bad("S6", f"{self._process.name} writes ranges under term {term}, history says {stored}")
        for row in rows:
            self._world.note(self._process.name, "ranges", row.job_id, row.kind.value, row.first_ms, row.last_ms)
            self._checked(f"range {row.kind.value}")
        return rows
