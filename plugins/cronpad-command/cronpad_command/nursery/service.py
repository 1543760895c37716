"""The nursery's loop: orders in, reports out, and everything of a run gone before its lock is."""

from __future__ import annotations

import errno
import os
import select
import socket
import subprocess  # noqa: TID251 - for the name of its error
import time

from cronpad_command.nursery import wire
from cronpad_command.nursery.family import Family
from cronpad_command.nursery.leftovers import Leftovers
from cronpad_command.nursery.link import Link
from cronpad_command.nursery.locks import RunLocks
from cronpad_command.nursery.processes import signal_exactly
from cronpad_command.nursery.run import Run, start

__all__ = ["Service"]

_RUNNER_DIED_GRACE = 2.0
_STRAYS_WITHIN = 5.0
_LOCK_LOOKS = 0.05
_REST = 4
_STREAMS = 2
Report = tuple[bytes, *tuple[bytes | int, ...]]
_now = time.monotonic  # noqa: TID251 - a process of its own, without ports


class _Waiting:
    """An order whose run still has an earlier copy somewhere."""

    __slots__ = ("order", "stderr", "stdout", "until")

    def __init__(self, order: wire.Order, stdout: int, stderr: int, until: float) -> None:
        self.order = order
        self.stdout = stdout
        self.stderr = stderr
        self.until = until

    def close(self) -> None:
        os.close(self.stdout)
        os.close(self.stderr)


class Service:
    """Holds all runs of one runner; :meth:`run` returns when the runner and all runs are gone."""

    def __init__(self, link: socket.socket, *, life: int, woken: int, locks: str) -> None:
        self._link = Link(link)
        self._life = life
        self._woken = woken
        self._locks = RunLocks(locks)
        self._leftovers = Leftovers()
        self._family = Family()
        self._runs: dict[int, Run] = {}
        self._by_pidfd: dict[int, Run] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._poll = select.epoll()
        self._closing = False
        self._stirred = False
        self._rested = 0.0

    def run(self) -> None:
        """Serves until the runner is gone and nothing of any run is left."""
        for descriptor in (self._link.fileno(), self._life, self._woken):
            self._poll.register(descriptor, select.EPOLLIN)
        self._link.say(wire.READY)
        while not self._closing or self._runs:
            self._serve(self._poll.poll(self._timeout()))
        self._end_strays()

    def give_up(self, why: str) -> None:
        """Kills what can be reached at once, after a fault in the nursery itself, and says so."""
        for run in self._runs.values():
            run.signal(9)
        self._link.say(wire.FAULT, why.replace("\0", "").encode(errors="replace"))

    def _serve(self, events: list[tuple[int, int]]) -> None:
        for descriptor, kinds in events:
            if descriptor in (self._life, self._link.fileno()):
                self._listen(kinds, orphaned=bool(kinds & select.EPOLLHUP))
            elif descriptor == self._woken:
                self._drain()
                self._stirred = True
            elif descriptor in self._by_pidfd:
                self._leader_ended(self._by_pidfd[descriptor])
        now = _now()
        self._look_round(now)
        self._look_after_waiting(now)

    def _timeout(self) -> float:
        now = _now()
        times = [max(run.next_look, self._rested) for run in self._runs.values() if run.ending]
        if self._stirred:
            times.append(self._rested)
        if self._waiting:
            times.append(now + _LOCK_LOOKS)
        return max(0.0, min(times) - now) if times else -1

    def _drain(self) -> None:
        try:
            while os.read(self._woken, 4_096):
                pass
        except BlockingIOError:
            return

    # -- orders

    def _listen(self, kinds: int, *, orphaned: bool) -> None:
        """Does what the runner has said; of a runner that is gone, only what ends things."""
        if self._closing:
            return
        if kinds & select.EPOLLOUT and self._link.flush():
            self._watch_link()
        while (heard := self._link.hear()) is not None:
            kind, rest, descriptors = heard
            if kind == wire.START:
                self._order(rest, descriptors, wanted=not orphaned)
            elif kind == wire.SIGNAL:
                if (run := self._runs.get(int(rest[0]))) is not None:
                    run.signal(int(rest[1]))
            elif kind == wire.END:
                self._end(int(rest[0]), int(rest[1]) / 1_000)
            elif kind == wire.CLOSE:
                self._close(int(rest[0]) / 1_000)
        if orphaned:
            self._close(_RUNNER_DIED_GRACE)

    def _watch_link(self) -> None:
        wanted = select.EPOLLIN | (select.EPOLLOUT if self._link.unsaid else 0)
        self._poll.modify(self._link.fileno(), wanted)

    def _order(self, rest: list[bytes], descriptors: list[int], *, wanted: bool) -> None:
        if not wanted or len(descriptors) != _STREAMS or len(rest) == 1:
            # The kernel drops the descriptors that we have no room for.
            for descriptor in descriptors:
                os.close(descriptor)
            self._say(wire.REFUSED, int(rest[0]), errno.EMFILE, b"", b"no room for its descriptors")
            return
        order = wire.Order.unpacked(b"\0".join(rest))
        stdout, stderr = descriptors
        waiting = _Waiting(order, stdout, stderr, _now() + order.patience_ms / 1_000)
        if not self._try(waiting):
            self._waiting[order.token] = waiting

    def _try(self, waiting: _Waiting) -> bool:
        """Starts the command if no earlier copy of its run is in the way; answers whether the order is dealt with."""
        order = waiting.order
        if order.run and (not self._leftovers.end(order.run) or not self._locks.take(order.run, order.slot)):
            return False
        try:
            run = Run(order, start(order, waiting.stdout, waiting.stderr))
            run.watch()
            self._poll.register(run.pidfd, select.EPOLLIN)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._refuse(order, error)
        else:
            self._runs[run.token] = self._by_pidfd[run.pidfd] = run
            self._say(wire.STARTED, run.token, run.pid)
        finally:
            waiting.close()
        return True

    def _refuse(self, order: wire.Order, error: Exception) -> None:
        self._locks.give_back(order.run, order.slot)
        number = error.errno if isinstance(error, OSError) and error.errno is not None else None
        about = error.filename if isinstance(error, OSError) else None
        about = os.fsencode(about) if isinstance(about, str | bytes) else b""
        text = str(error).replace("\0", "").encode(errors="replace")
        self._say(wire.REFUSED, order.token, b"" if number is None else number, about, text)

    def _look_after_waiting(self, now: float) -> None:
        for token, waiting in list(self._waiting.items()):
            if self._try(waiting):
                del self._waiting[token]
            elif now > waiting.until:
                del self._waiting[token]
                waiting.close()
                self._say(wire.HELD, token)

    # -- ends

    def _leader_ended(self, run: Run) -> None:
        if run.take_status():
            self._leader_over(run)

    def _leader_over(self, run: Run) -> None:
        self._poll.unregister(run.pidfd)
        del self._by_pidfd[run.pidfd]
        ended = (wire.ENDED, run.token, *(run.status or (b"", b"")))
        if self._family.census(self._runs, [run])[run.token]:
            self._say(*ended, b"")
        else:
            self._over(run, report=(*ended, b"1"))

    def _end(self, token: int, grace: float) -> None:
        waiting = self._waiting.pop(token, None)
        if waiting is not None:
            waiting.close()
            self._say(wire.HELD, token)
        elif (run := self._runs.get(token)) is not None:
            run.end(_now(), grace)

    def _close(self, grace: float) -> None:
        """The runner is gone, or wants the nursery to go."""
        if self._closing:
            return
        self._closing = True
        self._poll.unregister(self._life)
        self._poll.unregister(self._link.fileno())
        self._link.close()
        for token in [*self._waiting, *self._runs]:
            self._end(token, grace)

    def _look_round(self, now: float) -> None:
        """Takes notice of who has ended, and goes on with runs that have to go; four fifths of the time are for other things."""
        ending = [run for run in self._runs.values() if run.ending]
        if now < self._rested or not (self._stirred or any(run.next_look <= now for run in ending)):
            return
        self._stirred = False
        if ending:
            self._press(ending, now)
        else:
            # A command may go on for months, and what it leaves in the background may end every second.
            self._family.reap({run.pid for run in self._runs.values()})
        self._rested = now + _REST * (_now() - now)

    def _press(self, ending: list[Run], now: float) -> None:
        found = self._family.census(self._runs, ending)
        for run in ending:
            members = found[run.token]
            if not members and (run.status is not None or run.take_status()):
                if run.pidfd in self._by_pidfd:
                    self._leader_over(run)
                else:
                    self._over(run, report=None if run.told else (wire.GONE, run.token, 0))
                continue
            run.press(members, now)
            if run.overdue(now) and not run.told:
                run.told = True
                self._say(wire.GONE, run.token, len(members))

    def _over(self, run: Run, *, report: Report | None) -> None:
        """Forgets the run, and says so last: whoever hears it finds number, descriptor and lock free."""
        run.reap()
        self._locks.give_back(run.run, run.slot)
        del self._runs[run.token]
        self._family.forget(run.token)
        if report is not None:
            self._say(*report)

    def _end_strays(self) -> None:
        until = _now() + _STRAYS_WITHIN
        while (strays := self._family.strays()) and _now() < until:
            for process in strays:
                signal_exactly(process, 9)
            time.sleep(0.01)  # noqa: TID251 - the last act of a process that has nothing else to do

    def _say(self, kind: bytes, *parts: bytes | int) -> None:
        self._link.say(kind, *parts)
        if self._link.unsaid and not self._closing:
            self._watch_link()
