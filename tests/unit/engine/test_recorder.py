"""Results that end within the flush interval share one write, and each caller hears of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from cronpad_core.api import (
    AttemptStatus,
    Delivered,
    JobSpec,
    Occurrence,
    RecordAnswer,
    RecordKind,
    RecordRequest,
    Run,
    RunStatus,
    ScheduleSpec,
    SinkSpec,
    Trigger,
    run_id_for,
)
from cronpad_core.domain.settlement import Settlement
from cronpad_core.domain.tuning import Tuning
from cronpad_core.engine.alert_book import AlertBook
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.patience import Patience
from cronpad_core.engine.recorder import Recorder
from cronpad_core.engine.rush import Rush
from cronpad_core.engine.ticket import Holding, Result, Ticket
from cronpad_testkit.clock import VirtualClock, run_virtual

SPEC = JobSpec(name="a", schedule=ScheduleSpec(texts=("* * * * *",)), sink=SinkSpec(type="none"))
DONE = Result(
    outcome=Delivered(),
    settlement=Settlement(attempt=AttemptStatus.DELIVERED, run=RunStatus.SUCCEEDED),
    sent_at_ms=1,
    finished_at_ms=2,
)


@dataclass
class Books:
    """A history that only counts what it is asked to write; refuses where told to."""

    writes: list[int] = field(default_factory=list)
    refuses: bool = False

    async def record(self, requests: Sequence[RecordRequest]) -> list[RecordAnswer]:
        self.writes.append(len(requests))
        if self.refuses:
            raise ValueError("no such move")
        return [RecordAnswer(kind=RecordKind.RECORDED, status=one.status) for one in requests]


def ticket(slot: int) -> Ticket:
    occurrence = Occurrence(job_id="job_a", scheduled_at_ms=slot, attempt=0, job_version=1, trigger=Trigger.SCHEDULED)
    run = Run(
        id=run_id_for(occurrence.key),
        key=occurrence.key,
        job_version=1,
        spec=SPEC,
        status=RunStatus.RUNNING,
        attempt=0,
        fence=1,
        slot_at_ms=slot,
        created_at_ms=slot,
    )
    holding = Holding(occurrence=occurrence, fence=1, term=1)
    return Ticket(occurrence=occurrence, holding=holding, due_at_ms=slot, claimed_at_ms=slot, run=run)


def recorded(books: Books, *, flush_ms: int, batch: int = 500, count: int = 5) -> tuple[list[object], int]:
    """What became of ``count`` results at once, and how long it took in virtual milliseconds."""

    async def main(clock: VirtualClock) -> tuple[list[object], int]:
        patience = Patience(clock, Authority(clock), lambda event: None)
        tuning = Tuning(flush_ms=flush_ms, batch=batch)
        recorder = Recorder(
            history=books, clock=clock, patience=patience, tuning=tuning, rush=Rush(), emit=lambda event: None, alerts=AlertBook()
        )  # type: ignore[arg-type]  # as much of it as is asked
        began = clock.boot_ms()
        answers = await asyncio.gather(*(recorder.record(ticket(slot), DONE) for slot in range(count)), return_exceptions=True)
        return list(answers), clock.boot_ms() - began

    return run_virtual(main)


@pytest.mark.parametrize(("flush_ms", "batch", "writes", "took"), [(0, 500, [5], 0), (50, 500, [5], 50), (50, 2, [2, 2, 1], 50)])
def test_results_share_a_write(flush_ms: int, batch: int, writes: list[int], took: int) -> None:
    """Without an interval what ends in the same moment is written together; with one, when it ends or the batch is full."""
    books = Books()
    answers, waited = recorded(books, flush_ms=flush_ms, batch=batch)
    assert [answer.kind for answer in answers if isinstance(answer, RecordAnswer)] == [RecordKind.RECORDED] * 5
    assert (books.writes, waited) == (writes, took)


def test_a_refused_write_reaches_every_caller() -> None:
    """Nobody waits for ever for an answer that does not come."""
    answers, _ = recorded(Books(refuses=True), flush_ms=50)
    assert [type(answer) for answer in answers] == [ValueError] * 5


def test_a_result_that_no_store_takes_keeps_no_other_out() -> None:
    """Written with others, each is then written alone; what cannot be stored as it is goes without what its sink said."""

    class Picky(Books):
        async def record(self, requests: Sequence[RecordRequest]) -> list[RecordAnswer]:
            if any(request.key.scheduled_at_ms == 2 and not request.attempt.reason for request in requests):
                raise TypeError("not JSON")
            return await super().record(requests)

    books = Picky()
    answers, _ = recorded(books, flush_ms=0)
    assert [answer.kind for answer in answers if isinstance(answer, RecordAnswer)] == [RecordKind.RECORDED] * 5
    assert books.writes == [1] * 5
