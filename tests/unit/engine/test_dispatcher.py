"""Taking the dispatcher lock, rule by rule: who may take it when, and what refuses it."""

from __future__ import annotations

import pytest
from bench import FULL, TTL, UNSEEN, Bench, Failing, holding, lock, run

from cronpad_core.builtin.memory import QueueFile
from cronpad_core.domain.dispatch import LockRow, TermRecord
from cronpad_core.domain.errors import StoreBusyError


# --- taking at once ---------------------------------------------------------------------------------------------------------------
def test_nobodys_lock_is_taken_at_once(bench: Bench) -> None:
    """In an empty state the first look takes: control, history and the row say term 1, and trust ends a second before the row."""

    async def main() -> None:
        began = bench.clock.boot
        holder = await holding(bench)
        record = TermRecord(term=1, holder="a", released=False)
        assert bench.state.catalog.term.record == bench.state.history.term.record == record
        row = lock(bench)
        assert row is not None and (row.token, row.term) == (holder.dispatcher.token, 1)
        assert row.expires_ms == holder.authority.lease_ms(began) + TTL
        assert holder.authority.trust_until_ms == began + TTL - 1_000

    run(main())


def test_a_released_lock_is_taken_at_once(bench: Bench) -> None:
    """After a clean stop nobody waits."""

    async def main() -> None:
        first = await holding(bench)
        await first.dispatcher.give_back()
        assert lock(bench) is None and bench.state.catalog.term.record.released
        assert not first.authority.trusted()
        second = bench.holder("b")
        assert await second.looks() == 1
        assert second.authority.term == 2

    run(main())


def test_a_dead_holders_lock_is_taken_at_once(bench: Bench) -> None:
    """A holder that is provably gone is followed at the first look, where the row is of its term."""

    async def main() -> None:
        await holding(bench)
        bench.dead.add("a")
        assert await bench.holder("b").looks() == 1

    run(main())


def test_a_dead_holder_without_its_row_is_waited_for(bench: Bench) -> None:
    """Where the row is not of the dead holder's term, somebody else may have taken in a file that is gone: wait a full TTL."""

    async def main() -> None:
        await holding(bench)
        bench.dead.add("a")
        bench.state.queue.set(QueueFile())
        assert await bench.holder("b").looks() == FULL

    run(main())


def test_a_process_takes_its_own_finished_taking_up_again(bench: Bench) -> None:
    """A holder that lost its lock, and whom nobody followed, takes it again at once, under a new term."""

    async def main() -> None:
        holder = await holding(bench)
        holder.dispatcher.lose("a test says so")
        assert not holder.authority.trusted() and holder.dispatcher.lost_because == "a test says so"
        assert await holder.looks() == 1
        assert holder.authority.term == 2

    run(main())


@pytest.mark.parametrize("broken", ["history", "queue"])
def test_a_process_waits_for_its_own_unfinished_taking(bench: Bench, broken: str) -> None:
    """A taking that broke off after its first write proves nothing: the same process waits a full TTL like anybody."""

    async def main() -> None:
        holder = bench.holder("a")
        good = getattr(holder.storage, broken)
        method = "swap_term" if broken == "history" else "acquire"
        setattr(holder.storage, broken, Failing(good, StoreBusyError("busy"), method))
        assert not await holder.build().try_take()
        assert bench.state.catalog.term.record.term == 1
        setattr(holder.storage, broken, good)
        finished = holder.dispatcher
        finished._history, finished._queue = holder.storage.history, holder.storage.queue
        bench.clock.move(1_000)
        assert await holder.looks() == FULL
        assert holder.authority.term == 2

    run(main())


# --- waiting ----------------------------------------------------------------------------------------------------------------------
def test_a_silent_holder_is_waited_for_a_full_ttl_of_looks(bench: Bench) -> None:
    """A holder that may wake again is followed after a full TTL of looks that saw no change."""

    async def main() -> None:
        await holding(bench)
        assert await bench.holder("b").looks() == FULL

    run(main())


def test_a_renewal_starts_the_count_again(bench: Bench) -> None:
    """A holder that renews every five seconds is never followed."""

    async def main() -> None:
        first, second = await holding(bench), bench.holder("b")
        for number in range(100):
            if number % 5 == 0:
                assert await first.dispatcher.renew()
            assert not await second.dispatcher.try_take()
            bench.clock.move(1_000)
        assert await second.looks() >= FULL - 6

    run(main())


def test_looking_more_often_is_not_waiting_longer(bench: Bench) -> None:
    """Looks within one second of each other count as one, so a taker in a hurry shuts nobody out early."""

    async def main() -> None:
        await holding(bench)
        second = bench.holder("b")
        for _ in range(10 * FULL):
            assert not await second.dispatcher.try_take()
            bench.clock.move(50)
        assert await second.looks() >= FULL // 2 - 1

    run(main())


@pytest.mark.parametrize("change", ["file", "row", "holder", "failed look"])
def test_any_change_starts_the_count_again(bench: Bench, change: str) -> None:
    """Another file, another row (or none), another holder, or a look that failed: the full TTL begins anew."""

    async def main() -> None:
        await holding(bench)
        second = bench.holder("b")
        for _ in range(FULL - 1):
            assert not await second.dispatcher.try_take()
            bench.clock.move(1_000)
        if change == "file":
            file = bench.state.queue.file
            assert file is not None
            bench.state.queue.set(QueueFile(fresh=False, lock=file.lock, term=file.term))
        elif change == "row":
            assert bench.state.queue.file is not None
            bench.state.queue.file.lock = None
        elif change == "holder":
            record = TermRecord(term=5, holder="c")
            bench.state.catalog.term.record = record
        else:
            good = second.storage.catalog
            second.dispatcher._catalog = Failing(good, StoreBusyError("busy"), "read_term")  # type: ignore[assignment]  # a stand-in
            assert not await second.dispatcher.try_take()
            second.dispatcher._catalog = good
        # Where the holder's own row is not there to be watched, a taking comes in two halves.
        assert await second.looks() == (UNSEEN if change in ("row", "holder") else FULL)

    run(main())


def test_looks_are_counted_and_not_time(bench: Bench) -> None:
    """A process that slept for an hour has looked twice, not for an hour."""

    async def main() -> None:
        await holding(bench)
        second = bench.holder("b")
        assert not await second.dispatcher.try_take()
        bench.clock.move(3_600_000)
        assert await second.looks() == FULL - 1

    run(main())


def test_a_holder_that_is_not_seen_is_shut_out_before_it_is_followed(bench: Bench) -> None:
    """A standby that sees no queue each time it looks proves nothing: the holder may have renewed in between. It writes the
    records first, so that no renewal succeeds any more, and takes the lock when the holder's trust has ended."""

    async def main() -> None:
        first, second = await holding(bench), bench.holder("b")
        for number in range(UNSEEN + 1):
            file = bench.state.queue.file
            bench.state.queue.delete()
            taken = await second.dispatcher.try_take()
            assert not (taken and first.authority.trusted()), f"two holders at look {number}"
            if taken:
                break
            bench.state.queue.file = file
            if first.authority.term is not None and not await first.dispatcher.renew():
                first.dispatcher.lose("told no")
            bench.clock.move(1_000)
        assert second.authority.trusted()
        assert first.dispatcher.lost_because == "told no"

    run(main())


def test_of_two_that_see_no_queue_one_takes_the_lock(bench: Bench) -> None:
    """Two standbys over a silent holder without a queue do not shut each other out for ever, whoever looks first."""

    async def main() -> None:
        await holding(bench)
        others = [bench.holder("b"), bench.holder("c")]
        bench.state.queue.delete()
        for number in range(2 * UNSEEN):
            for other in others if number % 3 else reversed(others):
                bench.clock.move(1)
                if await other.dispatcher.try_take():
                    return
            bench.clock.move(998)
        raise AssertionError("nobody took the lock")

    run(main())


# --- refusals ---------------------------------------------------------------------------------------------------------------------
def test_two_takers_of_one_look_are_one_holder(bench: Bench) -> None:
    """Every write of a taking compares the whole of what was read: of two that judged by the same sight, one goes on."""

    async def main() -> None:
        first, second = bench.holder("a"), bench.holder("b")
        sight = await first.dispatcher._look()
        same = await second.dispatcher._look()
        assert await first.dispatcher._take(sight)
        assert not await second.dispatcher._take(same)
        assert bench.state.catalog.term.record == bench.state.history.term.record == TermRecord(term=1, holder="a")
        assert first.authority.trusted() and not second.authority.trusted()

    run(main())


@pytest.mark.parametrize("changed", ["row", "file"])
def test_a_row_that_changed_since_the_look_is_not_overwritten(bench: Bench, changed: str) -> None:
    """Between look and row a renewal, or another file, refuses the taking."""

    async def main() -> None:
        first = await holding(bench)
        second = bench.holder("b")
        sight = await second.dispatcher._look()
        if changed == "row":
            bench.clock.move(100)
            assert await first.dispatcher.renew()
        else:
            bench.state.queue.set(QueueFile())
        before = lock(bench)
        assert not await second.dispatcher._take(sight)
        assert lock(bench) == before and not second.authority.trusted()

    run(main())


def test_a_taking_that_is_too_slow_is_refused(bench: Bench) -> None:
    """A taking that froze between its first write and the row finds its trust over before it began, and writes no row."""

    async def main() -> None:
        holder = bench.holder("a")
        sight = await holder.dispatcher._look()
        good = holder.storage.queue.open

        async def slow() -> str | None:
            bench.clock.move(TTL - 1_000)
            return await good()

        holder.storage.queue.open = slow  # type: ignore[method-assign]  # a slow disk
        assert not await holder.dispatcher._take(sight)
        assert lock(bench) is None and not holder.authority.trusted()

    run(main())


def test_the_term_is_above_every_one_that_is_known(bench: Bench) -> None:
    """Control, history, queue and row are all asked: after any one of them was restored, no term is given out twice."""

    async def main() -> None:
        bench.state.catalog.term.record = TermRecord(term=3, holder="x", released=True)
        bench.state.history.term.record = TermRecord(term=2, holder="y")
        bench.state.queue.set(QueueFile(term=9, lock=LockRow(token="z", term=8, expires_ms=0)))
        holder = bench.holder("a")
        assert await holder.looks() == 1
        assert holder.authority.term == 10

    run(main())


def test_lease_time_goes_on_over_a_restart_and_begins_anew_after_a_reboot(bench: Bench) -> None:
    """The base of lease time is kept as long as the machine runs; another boot writes its own."""

    async def main() -> None:
        first = await holding(bench)
        base = first.authority.lease_ms(0)
        await first.dispatcher.give_back()
        bench.clock.wall += 3_600_000
        second = await holding(bench, "b")
        assert second.authority.lease_ms(0) == base
        await second.dispatcher.give_back()
        bench.clock.id, bench.clock.boot = "boot-2", 1_000
        third = await holding(bench, "c")
        assert third.authority.lease_ms() == bench.clock.wall

    run(main())
