"""Holding the dispatcher lock, rule by rule: what a renewal needs, moving to another file, and giving it back."""

from __future__ import annotations

from typing import Any

import pytest
from bench import FULL, TTL, Bench, Failing, holding, lock, run

from cronpad_core.builtin.memory import QueueFile
from cronpad_core.domain.dispatch import LockRow, TermRecord
from cronpad_core.domain.errors import StoreBusyError, StoreDamagedError
from cronpad_core.domain.events import QueueRebuilt


# --- renewing ---------------------------------------------------------------------------------------------------------------------
def test_trust_counts_from_the_start_of_a_renewal(bench: Bench) -> None:
    """A renewal that takes four seconds trusts as if it had taken none, and no longer."""

    async def main() -> None:
        holder = await holding(bench)
        bench.clock.move(5_000)
        began, good = bench.clock.boot, holder.storage.queue.renew

        async def slow(*args: Any, **rest: Any) -> bool:
            bench.clock.move(4_000)
            return await good(*args, **rest)

        holder.storage.queue.renew = slow  # type: ignore[method-assign]  # a slow disk
        assert await holder.dispatcher.renew()
        assert holder.authority.trust_until_ms == began + TTL - 1_000

    run(main())


def test_a_row_that_has_expired_is_not_renewed(bench: Bench) -> None:
    """A holder that slept past its trust stands by, although nobody followed it."""

    async def main() -> None:
        holder = await holding(bench)
        bench.clock.move(TTL)
        assert not await holder.dispatcher.renew()
        assert not holder.authority.trusted()

    run(main())


def test_a_term_that_another_raised_is_standby(bench: Bench) -> None:
    """Once control names another term, the next renewal says no, whatever the row says."""

    async def main() -> None:
        holder = await holding(bench)
        bench.state.catalog.term.record = TermRecord(term=2, holder="b")
        bench.clock.move(5_000)
        assert not await holder.dispatcher.renew()

    run(main())


@pytest.mark.parametrize("row", [None, LockRow(token="other", term=1, expires_ms=2**60)])
def test_a_row_that_is_gone_or_anothers_is_not_renewed(bench: Bench, row: LockRow | None) -> None:
    """A deleted row, and one of the same term with another token, are a "no"."""

    async def main() -> None:
        holder = await holding(bench)
        assert bench.state.queue.file is not None
        bench.state.queue.file.lock = row
        bench.clock.move(5_000)
        assert not await holder.dispatcher.renew()
        assert lock(bench) == row

    run(main())


@pytest.mark.parametrize("heals", [True, False])
def test_an_error_is_tried_again_while_trust_lasts(bench: Bench, heals: bool) -> None:
    """A queue that is busy for a while costs nothing; one that stays busy costs the lock when trust ends, not later."""

    async def main() -> None:
        holder = await holding(bench)
        bench.clock.move(5_000)
        good = holder.storage.queue
        failing = Failing(good, StoreBusyError("busy"), "renew")
        holder.storage.queue = failing  # type: ignore[assignment]  # a stand-in
        holder.dispatcher._queue = failing  # type: ignore[assignment]  # a stand-in
        began, tries = bench.clock.boot, []

        def count() -> None:
            tries.append(bench.clock.boot)
            if heals and len(tries) == 5:
                failing.methods = ()

        failing.before = count
        assert await holder.dispatcher.renew() is heals
        if heals:
            assert holder.authority.trusted()
        else:
            assert TTL - 6_000 - 1_000 <= bench.clock.boot - began <= TTL - 6_000 + 1_000
            assert not holder.authority.trusted()

    run(main())


def test_a_damaged_queue_is_not_tried_again_but_looked_at(bench: Bench) -> None:
    """Row 27: damage is not waited out until the lock is lost; the renewal answers soon, and the file is in doubt."""

    async def main() -> None:
        holder = await holding(bench)
        holder.dispatcher._queue = Failing(  # type: ignore[assignment]  # a stand-in
            holder.storage.queue, StoreDamagedError("malformed"), "renew", "verify"
        )
        bench.clock.move(5_000)
        began = bench.clock.boot
        assert await holder.dispatcher.renew()
        assert bench.clock.boot - began <= 1_000
        assert holder.authority.doubts.is_set() and holder.authority.trusted()
        assert not await holder.dispatcher.whole()

    run(main())


def test_a_busy_queue_is_whole(bench: Bench) -> None:
    """A queue that is locked when it is to be verified is not taken for a damaged one, and ends nothing."""

    async def main() -> None:
        holder = await holding(bench)
        holder.dispatcher._queue = Failing(holder.storage.queue, StoreBusyError("busy"), "verify")  # type: ignore[assignment]  # so
        assert await holder.dispatcher.whole()
        bench.state.queue.delete()
        assert not await holder.dispatcher.whole()

    run(main())


@pytest.mark.parametrize("call", ["renew", "move"])
def test_trust_that_was_given_up_does_not_come_back(bench: Bench, call: str) -> None:
    """A renewal, or a move, that is answered after the lock was given back or lost grants nothing."""

    async def main() -> None:
        holder = await holding(bench)
        method = "renew" if call == "renew" else "reassert"
        good = getattr(holder.storage.queue, method)

        async def late(*args: Any, **rest: Any) -> bool:
            answer = await good(*args, **rest)
            await holder.dispatcher.give_back()
            return answer

        setattr(holder.storage.queue, method, late)
        await getattr(holder.dispatcher, call)()
        assert not holder.authority.trusted() and holder.authority.term is None

    run(main())


# --- moving to another file -------------------------------------------------------------------------------------------------------
def test_the_lock_moves_to_another_file_under_the_same_term(bench: Bench) -> None:
    """A deleted queue is made anew by its holder: same term, same token, no claim until it is refilled, and it is told."""

    async def main() -> None:
        holder = await holding(bench)
        bench.state.queue.delete()
        bench.clock.move(3_000)
        assert not await holder.dispatcher.whole()
        assert await holder.dispatcher.move()
        row = lock(bench)
        assert row is not None and (row.token, row.term) == (holder.dispatcher.token, 1)
        assert holder.authority.trust_until_ms == bench.clock.boot + TTL - 1_000
        assert holder.authority.trusted() and not holder.authority.may_claim()
        assert [type(event) for event in bench.events] == [QueueRebuilt]
        assert await holder.dispatcher.whole()

    run(main())


@pytest.mark.parametrize(
    "file",
    [
        QueueFile(term=2),
        QueueFile(lock=LockRow(token="other", term=2, expires_ms=0), term=2),
        QueueFile(lock=LockRow(token="other", term=1, expires_ms=0), term=1),
    ],
    ids=["higher term", "higher row", "same term of another"],
)
def test_the_lock_never_moves_over_a_higher_term(bench: Bench, file: QueueFile) -> None:
    """A file in which somebody else came after us, or stands beside us, is left alone."""

    async def main() -> None:
        holder = await holding(bench)
        bench.state.queue.set(file)
        before = file.lock
        assert not await holder.dispatcher.move()
        assert file.lock == before

    run(main())


def test_the_lock_moves_into_an_older_copy(bench: Bench) -> None:
    """A copy from an earlier term of anybody is older than we are, and is taken."""

    async def main() -> None:
        holder = await holding(bench)
        holder.dispatcher.lose("so that the next term is 2")
        await holder.looks()
        bench.state.queue.set(QueueFile(lock=LockRow(token="other", term=1, expires_ms=2**60), term=1))
        assert await holder.dispatcher.move()
        assert lock(bench) == LockRow(token=holder.dispatcher.token, term=2, expires_ms=holder.authority.lease_ms() + TTL)

    run(main())


def test_the_lock_does_not_move_once_trust_has_ended_or_control_names_another(bench: Bench) -> None:
    """Without trust, and under another's term, the other file is somebody else's business."""

    async def main() -> None:
        holder = await holding(bench)
        bench.state.queue.delete()
        bench.state.catalog.term.record = TermRecord(term=2, holder="b")
        assert not await holder.dispatcher.move()
        bench.state.catalog.term.record = TermRecord(term=1, holder="a")
        bench.clock.move(TTL - 1_000)
        assert not await holder.dispatcher.move()
        assert bench.state.queue.file is None

    run(main())


def test_a_give_back_leaves_what_another_wrote(bench: Bench) -> None:
    """Giving back a lock that somebody else has by now changes neither its record nor its row."""

    async def main() -> None:
        first, second = await holding(bench), bench.holder("b")
        assert await second.looks() == FULL
        record, row = bench.state.catalog.term.record, lock(bench)
        await first.dispatcher.give_back()
        assert (bench.state.catalog.term.record, lock(bench)) == (record, row)
        assert second.authority.trusted()

    run(main())


def test_a_give_back_into_a_failing_store_is_quiet(bench: Bench) -> None:
    """A stop does not fail for a store that does; trust is gone all the same, and the next taker waits."""

    async def main() -> None:
        holder = await holding(bench)
        holder.dispatcher._catalog = Failing(holder.storage.catalog, StoreBusyError("busy"), "read_term")  # type: ignore[assignment]  # so
        await holder.dispatcher.give_back()
        assert not holder.authority.trusted()
        assert await bench.holder("b").looks() == FULL

    run(main())
