"""Opening the run: the one transaction in which limits count and a delivery becomes possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from cronpad_core.domain.admission import OpenDecision, OpenKind, OpenRequest
from cronpad_core.domain.events import RunSkipped
from cronpad_core.domain.job import JobSpec
from cronpad_core.domain.run import RunStatus, SkipReason
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.patience import Emit, Patience
from cronpad_core.engine.ticket import Holdings, Ticket
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.history import HistoryStore

__all__ = ["Opener"]


class Opener:
    """Step 2 of the order of writes. Assumes an admitted ticket with its job.

    Guarantees: with ``OPENED`` there is a durable row under our fence before anything is delivered. Dies half-way: the row is
    there or not; the entry comes up again and finds it.
    """

    def __init__(
        self,
        *,
        history: HistoryStore,
        clock: Clock,
        patience: Patience,
        holdings: Holdings,
        tuning: Tuning,
        available: Callable[[str], bool],
        emit: Emit,
    ) -> None:
        self._history = history
        self._clock = clock
        self._patience = patience
        self._holdings = holdings
        self._tuning = tuning
        self._available = available
        self._emit = emit

    async def open(self, ticket: Ticket) -> tuple[OpenDecision, Ticket]:
        """Opens the ticket's run, or says why not."""
        assert ticket.job is not None, "the gate sets the job"
        request = self._request(ticket, ticket.job.spec, await self._uncounted(ticket))
        [decision] = await self._patience.insist("history", lambda: self._history.open_runs([request]))
        ticket = replace(ticket, run=decision.run, opened_at_ms=request.now_ms, redelivery=decision.redelivery)
        if decision.kind is OpenKind.SKIPPED and decision.run is not None and decision.run.skip_reason is not None:
            self._emit(
                RunSkipped(
                    occurrence=ticket.occurrence,
                    job_name=decision.run.spec.name,
                    run_id=decision.run.id,
                    skip_reason=decision.run.skip_reason,
                )
            )
        return decision, ticket

    async def _uncounted(self, ticket: Ticket) -> int:
        """How many deliveries of the job still run here without a row that says so: another holder has ended their runs."""
        count = 0
        for stray in self._holdings.strays(ticket.occurrence):
            run = await self._patience.insist("history", partial(self._history.run, stray.occurrence.key))
            count += run is None or run.status is not RunStatus.RUNNING
        return count

    def _request(self, ticket: Ticket, spec: JobSpec, local_others: int) -> OpenRequest:
        return OpenRequest(
            occurrence=ticket.occurrence,
            spec=spec,
            fence=ticket.holding.fence,
            now_ms=self._clock.wall_ms(),
            due_at_ms=ticket.due_at_ms,
            claimed_at_ms=ticket.claimed_at_ms,
            held_since_ms=ticket.held_since_ms,
            local_others=local_others,
            max_redeliveries=self._tuning.max_redeliveries,
            skip=None if self._available(spec.sink.type) else SkipReason.PLUGIN_UNAVAILABLE,
        )
