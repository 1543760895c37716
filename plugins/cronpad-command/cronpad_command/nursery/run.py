"""One command and everything that it started, from its start to its last trace."""

from __future__ import annotations

import os
import signal
import subprocess  # noqa: TID251 - the nursery is where commands are started

from cronpad_command.nursery.processes import Process, signal_exactly, signal_group
from cronpad_command.nursery.wire import Order

__all__ = ["Run", "start"]

_FIRST_LOOK = 0.002
_LATER_LOOKS = 0.1
_TOLD_AFTER = 5.0


class Run:
    """A started command.

    Its leader stays a zombie until :meth:`reap`: so long neither its number nor that of its group and session is given to
    another process, and signals to the group reach nobody else.
    """

    def __init__(self, order: Order, pid: int) -> None:
        self.token = order.token
        self.run = order.run
        self.slot = order.slot
        self.pid = pid
        self.pidfd = -1
        self.status: tuple[bytes, bytes] | None = None
        self.told = False
        self.next_look = 0.0
        self._pause = _FIRST_LOOK
        self._kill_at: float | None = None
        self._termed: set[int] = set()

    @property
    def ending(self) -> bool:
        """Whether everything of it has to go."""
        return self._kill_at is not None

    def watch(self) -> None:
        """Opens the descriptor that tells its end. Raises ``OSError``, and leaves nothing then."""
        try:
            self.pidfd = os.pidfd_open(self.pid)
        except OSError:
            signal_group(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise

    def take_status(self) -> bool:
        """Learns how the leader ended, if it has, and leaves it a zombie; answers whether that is news."""
        if self.status is not None:
            return False
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if found is None:
            return False
        number = b"%d" % found.si_status
        self.status = (number, b"") if found.si_code == os.CLD_EXITED else (b"", number)
        return True

    def signal(self, number: int) -> None:
        """To the command's group; a stopped process takes it when it is let go on, so it is."""
        signal_group(self.pid, number)
        if number == signal.SIGTERM:
            signal_group(self.pid, signal.SIGCONT)

    def end(self, now: float, grace: float) -> None:
        """Everything of it has to go from now on; a shorter grace than an earlier one wins."""
        kill_at = now + grace
        if self._kill_at is None or kill_at < self._kill_at:
            self._kill_at = kill_at
        self._pause = _FIRST_LOOK
        self.next_look = now

    def press(self, members: list[Process], now: float) -> None:
        """Does what is due to what is left: TERM, to each once, or STOP and KILL."""
        if self._kill_at is None:
            return
        if now < self._kill_at:
            self._ask([process for process in members if process.pid not in self._termed])
        else:
            self._kill(members)
        self.next_look = now + self._pause
        if now < self._kill_at:
            self.next_look = min(self.next_look, self._kill_at)
        self._pause = min(2 * self._pause, _LATER_LOOKS)

    def overdue(self, now: float) -> bool:
        """Whether something of it hangs where no signal reaches, so that its outcome should not be waited for any longer."""
        return self._kill_at is not None and now > self._kill_at + _TOLD_AFTER

    def reap(self) -> None:
        """Gives the leader's number back to the system."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        try:
            os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return

    def _ask(self, members: list[Process]) -> None:
        if any(process.group == self.pid for process in members):
            self.signal(signal.SIGTERM)
        for process in members:
            self._termed.add(process.pid)
            if process.group != self.pid:
                signal_exactly(process, signal.SIGTERM)
                signal_exactly(process, signal.SIGCONT)

    def _kill(self, members: list[Process]) -> None:
        # One KILL is enough for the group: the kernel sends it to all members and lets no fork slip through in between.
        signal_group(self.pid, signal.SIGKILL)
        strangers = [process for process in members if process.group != self.pid]
        # What is stopped starts nothing any more, so that the next look finds the rest of a storm of forks.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in strangers:
                signal_exactly(process, number)


def start(order: Order, stdout: int, stderr: int) -> int:
    """Starts the command in a session of its own, stdin on ``/dev/null``. Raises what ``subprocess`` raises."""
    process = subprocess.Popen(
        order.argv,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=order.cwd or None,
        env=order.env,
        close_fds=True,
        start_new_session=True,
    )
    # The library must not wait for it: that is for the nursery to do, and later.
    process.returncode = 0
    return process.pid
