"""Many moves in one call have statements of their own; each job must go where it goes when it is moved alone."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cronpad_core.api import Job, JobStatus, JobWrite, Move, MoveAnswer, Replay
from cronpad_sql.storage import SqliteStorage
from cronpad_testkit.samples import T0, job

Build = Callable[..., SqliteStorage]

REPLAY = Replay(until_ms=T0 + 500, then_ms=T0 + 1_000)
LAST_REPLAY = Replay(until_ms=T0 + 500, then_ms=None)


def _cases() -> list[tuple[Job, Move]]:
    """Jobs with what is asked of each: all that can become of a move."""
    plain = job()
    move = Move(job_id="", version=1, clock_epoch=0, from_ms=T0, to_ms=T0 + 100, replay=None, term=0)
    found = [
        (plain, move),
        (plain, replace(move, to_ms=None)),
        (plain, replace(move, replay=REPLAY)),
        (plain, replace(move, replay=LAST_REPLAY)),
        (plain, replace(move, to_ms=None, replay=REPLAY)),
        (replace(plain, replay=REPLAY), move),
        (replace(plain, replay=LAST_REPLAY), move),
        (replace(plain, replay=REPLAY), replace(move, replay=REPLAY)),
        (replace(plain, replay=REPLAY), replace(move, to_ms=None)),
        (plain, replace(move, from_ms=T0 + 1)),
        (plain, replace(move, version=2)),
        (plain, replace(move, clock_epoch=1)),
        (replace(plain, next_run_at_ms=None), move),
        *((replace(plain, status=status), move) for status in JobStatus if status is not JobStatus.ACTIVE),
    ]
    return [(replace(one, id=f"job_{n}"), replace(asked, job_id=f"job_{n}")) for n, (one, asked) in enumerate(found)]


def test_moves_of_one_call_go_where_each_goes_alone(build: Build, state: Path) -> None:
    """Answers and stored jobs are the same for any kind of move, whether it is made alone or with others."""

    async def moved(directory: Path, *, together: bool) -> tuple[list[MoveAnswer], list[Job | None]]:
        storage = build(directory)
        await storage.open()
        cases = _cases()
        await storage.catalog.write([JobWrite(job=one, expected=None) for one, _ in cases], term=None)
        moves = [move for _, move in cases]
        calls = [moves] if together else [[move] for move in moves]
        answers = [answer for call in calls for answer in await storage.catalog.move(call)]
        stored = [await storage.catalog.job(one.id) for one, _ in cases]
        await storage.close()
        return answers, stored

    async def main() -> None:
        other = state.with_name("other")
        shutil.copytree(state, other)
        alone, as_alone = await moved(state, together=False)
        answers, stored = await moved(other, together=True)
        assert len({answer.kind for answer in alone}) == 3
        assert answers == alone
        assert stored == as_alone
        assert [answer.job for answer in answers] == stored

    asyncio.run(main())
