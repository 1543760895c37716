"""The started process itself: notices its end without taking its process number away from it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass

__all__ = ["ExitStatus", "Leader"]

_FIRST_LOOK = 0.001
_LATER_LOOKS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitStatus:
    """An exit code, or the signal that killed it; neither, when somebody else took the status."""

    code: int | None = None
    signal: int | None = None


class Leader:
    """A child process that stays a zombie from its end until :meth:`reap`.

    As long as it is not reaped its number is not given to another process, nor is that of its group, even when the group has no
    other member. So signals may be sent to the group, and only so: once it is reaped, ``kill(-pid)`` could hit strangers.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.reaped = False
        self._status: ExitStatus | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, looked up now."""
        if self._status is None:
            self._status = self._look()
        return self._status is not None

    async def wait(self) -> None:
        """Returns when it has ended."""
        # The process runs already, so this must not fail: where there are no pidfds, or no descriptor is left, or they are not
        # allowed, looking now and then does as well.
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                await self._watch()
        await self._keep_looking()

    def reap(self) -> ExitStatus | None:
        """Takes the exit status and gives the number back to the system; ``None`` while it still runs."""
        if not self.has_ended:
            return None
        if not self.reaped:
            self.reaped = True
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)
        return self._status

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        pidfd = os.pidfd_open(self.pid)
        ended = asyncio.Event()
        try:
            loop.add_reader(pidfd, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(pidfd)
        finally:
            os.close(pidfd)

    async def _keep_looking(self) -> None:
        pause = _FIRST_LOOK
        while not self.has_ended:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LATER_LOOKS)

    def _look(self) -> ExitStatus | None:
        try:
            if not hasattr(os, "waitid"):
                return self._look_and_reap()
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            # Its number may be another's by now.
            self.reaped = True
            return ExitStatus()
        if found is None:
            return None
        if found.si_code == os.CLD_EXITED:
            return ExitStatus(code=found.si_status)
        return ExitStatus(signal=found.si_status)

    def _look_and_reap(self) -> ExitStatus | None:
        """For macOS before Python 3.13, which can only look by reaping.

        Its number is free from then on, and still counts as not reaped: what is left of the group has to be signalled all the
        same, and numbers are not given out again that soon.
        """
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        if os.WIFSIGNALED(status):
            return ExitStatus(signal=os.WTERMSIG(status))
        return ExitStatus(code=os.WEXITSTATUS(status))
