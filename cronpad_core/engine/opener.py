"""Opening runs: the durable rows that say deliveries may begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from cronpad_core.domain.admission import OpenDecision, OpenKind, OpenRequest
from cronpad_core.domain.events import QuotaExceeded, RunEnded, RunSkipped
from cronpad_core.domain.job import JobSpec
from cronpad_core.domain.limits import Workspace, limits_of, month_of
from cronpad_core.domain.run import RunStatus, SkipReason
from cronpad_core.domain.timing import Millis
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.alert_book import AlertBook
from cronpad_core.engine.job_cache import JobCache
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.engine.ticket import Holdings, Ticket
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import HistoryStore

__all__ = ["Opener"]


class Opener:
    """Step 2 of the order of writes, with gates 2 to 4. Assumes admitted tickets with their jobs.

    Guarantees: with ``OPENED`` there is a durable row under our fence before anything is delivered, and no limit was exceeded. Dies
    half-way: the row is there or not; the entry comes up again and finds it.
    """

    def __init__(
        self,
        *,
        catalog: JobCache,
        history: HistoryStore,
        clock: Clock,
        patience: Patience,
        holdings: Holdings,
        tuning: Tuning,
        available: Callable[[str], bool],
        emit: Emit,
        alerts: AlertBook,
    ) -> None:
        self._catalog = catalog
        self._history = history
        self._clock = clock
        self._patience = patience
        self._holdings = holdings
        self._tuning = tuning
        self._available = available
        self._emit = emit
        self._alerts = alerts

    async def open(self, tickets: Sequence[Ticket]) -> list[tuple[OpenDecision, Ticket]]:
        """Opens the tickets' runs in one transaction, in order, or says of each why not."""
        found = [(one, await self._uncounted(one), await self._workspace(one)) for one in tickets]
        now = self._clock.wall_ms()
        requests = [self._request(*one, now) for one in found]
        decisions = await self._patience.insist("history", lambda: self._history.open_runs(requests))
        return [self._opened(*one) for one in zip(tickets, requests, decisions, strict=True)]

    def _opened(self, ticket: Ticket, request: OpenRequest, decision: OpenDecision) -> tuple[OpenDecision, Ticket]:
        run = decision.run
        if decision.kind is not OpenKind.OPENED or decision.over_quota:
            self._tell(ticket, request, decision)
        elif run is not None:
            ticket.holding.run_id = run.id
        if decision.replaces is not None:
            self._holdings.tell_others(ticket.occurrence, decision.replaces, "a later run takes its place")
        return decision, ticket.opened(run, request.now_ms, redelivery=decision.redelivery)

    def _tell(self, ticket: Ticket, request: OpenRequest, decision: OpenDecision) -> None:
        occurrence, run = ticket.occurrence, decision.run
        if run is None:
            return
        if decision.kind is OpenKind.SKIPPED and run.skip_reason is not None:
            self._emit(RunSkipped(occurrence=occurrence, job_name=run.spec.name, run_id=run.id, skip_reason=run.skip_reason))
        elif decision.kind is OpenKind.FINISHED and decision.write is not None:
            self._emit(
                RunEnded(occurrence=occurrence, job_name=run.spec.name, run_id=run.id, status=run.status, reason=run.reason)
            )
        elif decision.over_quota and request.quota is not None:
            name, month = run.spec.workspace, month_of(request.now_ms)
            self._emit(QuotaExceeded(workspace=name, month=month, max=request.quota.max, run_id=run.id))

    def room(self, ticket: Ticket, scope: str) -> int:
        """How many of that scope may run at once, as far as this ticket's job says."""
        spec, kind = _spec(ticket), scope.partition(":")[0]
        if kind == "all":
            return self._tuning.max_running
        if kind == "workspace":
            try:
                workspace = self._catalog.known_workspace(spec.workspace)
            except KeyError:
                workspace = None
            return (workspace.concurrency if workspace is not None else None) or 1
        if spec.concurrency is not None and (kind == "key") == (spec.concurrency.key is not None):
            return spec.concurrency.max
        return spec.overlap.limit

    async def _uncounted(self, ticket: Ticket) -> int:
        """How many deliveries of the job still run here without a row that says so: another holder has ended their runs."""
        count = 0
        for stray in self._holdings.strays(ticket.occurrence):
            run = await self._patience.insist("history", partial(self._history.run, stray.occurrence.key))
            count += run is None or run.status is not RunStatus.RUNNING
        return count

    async def _workspace(self, ticket: Ticket) -> Workspace | None:
        name = _spec(ticket).workspace
        try:
            return self._catalog.known_workspace(name)
        except KeyError:
            return await self._patience.insist("control", partial(self._catalog.workspace, name))

    def _request(self, ticket: Ticket, local_others: int, workspace: Workspace | None, now_ms: Millis) -> OpenRequest:
        spec = _spec(ticket)
        most = self._tuning.max_running or None
        return OpenRequest(
            occurrence=ticket.occurrence,
            spec=spec,
            fence=ticket.holding.fence,
            now_ms=now_ms,
            due_at_ms=ticket.due_at_ms,
            claimed_at_ms=ticket.claimed_at_ms,
            held_since_ms=ticket.held_since_ms,
            local_others=local_others,
            max_redeliveries=self._tuning.max_redeliveries,
            skip=self._skip(spec, workspace),
            limits=limits_of(ticket.occurrence.job_id, spec.concurrency, workspace, most),
            quota=workspace.quota if workspace is not None else None,
            patient=ticket.replayed,
            alerts=self._alerts.rules(spec.alerts),
        )

    def _skip(self, spec: JobSpec, workspace: Workspace | None) -> SkipReason | None:
        if workspace is not None and workspace.suspended:
            return SkipReason.WORKSPACE_SUSPENDED
        return None if self._available(spec.sink.type) else SkipReason.PLUGIN_UNAVAILABLE


def _spec(ticket: Ticket) -> JobSpec:
    """By what the run is limited: its own settings, or those of its job where it has no row yet."""
    if ticket.run is not None:
        return ticket.run.spec
    assert ticket.job is not None, "the gate sets the job"
    return ticket.job.spec
