"""An entry that a process holds comes up again: there is one line of it, under the newest lease."""

from __future__ import annotations

from typing import Any

import pytest
from bench import run

from cronpad_core.domain.occurrence import Occurrence, Trigger
from cronpad_core.engine.ticket import Holding, Holdings, Ticket
from cronpad_core.runtime.line import Line

ENTRY = Occurrence(job_id="job_a", scheduled_at_ms=1_000, attempt=0, job_version=1, trigger=Trigger.MANUAL)


class Leases:
    """A taking over that works only for a worker that is still there."""

    def __init__(self, holdings: Holdings) -> None:
        self.holdings = holdings

    async def take_over(self, holding: Holding, fence: int, term: int) -> bool:
        """As the lease keeper's."""
        if self.holdings.get(holding.occurrence.member) is not holding:
            return False
        if fence > holding.fence:
            holding.fence, holding.term = fence, term
        return True


class Walking(Line):
    """A line that notes what it would walk."""

    walked: list[Ticket]

    async def walk(self, ticket: Ticket) -> None:
        """Notes it."""
        self.walked.append(ticket)


def line(*there: Holding) -> Walking:
    """A line in a process that holds these."""
    holdings = Holdings()
    for holding in there:
        holdings.add(holding)
    parts: dict[str, Any] = dict.fromkeys(Line.__dataclass_fields__)
    made = Walking(**parts | {"holdings": holdings, "leases": Leases(holdings), "clock": _Clock()})
    made.walked = []
    return made


class _Clock:
    def wall_ms(self) -> int:
        return 5_000


def holding(fence: int) -> Holding:
    """A holding of the entry under that fence."""
    return Holding(occurrence=ENTRY, fence=fence, term=1)


def test_a_worker_that_is_there_goes_on_under_the_newer_lease() -> None:
    """Nothing new is started."""
    worker = holding(1)
    walking = line(worker)
    run(walking.hand_over(worker, 2, 7))
    assert (worker.fence, worker.term, walking.walked) == (2, 7, [])


def test_after_a_worker_that_has_ended_a_new_line_begins() -> None:
    """Under the newer lease, and held from then on."""
    walking = line()
    run(walking.hand_over(holding(1), 2, 7))
    [ticket] = walking.walked
    assert (ticket.holding.fence, ticket.holding.term) == (2, 7)
    assert walking.holdings.get(ENTRY.member) is ticket.holding


@pytest.mark.parametrize(("there", "fence"), [(3, 3), (2, 2), (1, 2)])
def test_beside_another_line_of_the_entry_none_begins(there: int, fence: int) -> None:
    """Where the worker has ended and another line has the entry by now, that one is left its newer lease, or given this one."""
    other = holding(there)
    walking = line(other)
    run(walking.hand_over(holding(1), 2, 7))
    assert walking.walked == []
    assert walking.holdings.get(ENTRY.member) is other and other.fence == fence
