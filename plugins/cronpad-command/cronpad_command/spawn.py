"""Starts processes from the runner itself: the only module that does.

A start takes about 0.2 ms of the event loop: without ``preexec_fn`` the standard library uses vfork, whose cost does not grow
with the memory of the runner. A thread would not help, as the interpreter's lock is held until the child has become its program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time

from cronpad_command.capture import Capture
from cronpad_command.failures import spawn_error
from cronpad_command.group import await_gone, signal_group
from cronpad_command.leader import ExitStatus, Leader
from cronpad_command.pump import Pump
from cronpad_core.api import SECOND, Ended, Millis, SpawnRequest

__all__ = ["AsyncioChild", "AsyncioSpawner"]

_STREAMS = ("stdout", "stderr")
_GROUP_GONE_WITHIN = 2.0
_LAST_LOOKS, _LAST_PAUSE = 1_000, 0.001


class AsyncioChild:
    """A started process and its group, watched by a task of its own from its start to its last trace.

    The task goes on when whoever waits is cancelled. When the task itself is cancelled, which only the end of the event loop
    does, the group is killed and the leader reaped on the spot.
    """

    def __init__(self, process: subprocess.Popen[bytes], pumps: tuple[Pump, ...], *, linger_ms: Millis) -> None:
        self.pid = process.pid
        self._process = process
        self._pumps = pumps
        self._linger = linger_ms / SECOND
        self._leader = Leader(process.pid)
        self._keeper = asyncio.get_running_loop().create_task(self._keep(), name=f"command {process.pid}")
        # A task that is cancelled before its first step runs no line of its body.
        self._keeper.add_done_callback(lambda _: self._clear())

    @property
    def leader_ended(self) -> bool:
        """Whether the process itself has ended, so that ``wait`` is only about what it left behind."""
        return self._leader.has_ended

    async def wait(self) -> Ended:
        """Waits for the leader, ends what is left of its group, and answers."""
        return await asyncio.shield(self._keeper)

    def terminate(self) -> None:
        """TERM to the whole group; a group that is gone already is no error."""
        self._signal(signal.SIGTERM)
        # A stopped process would take TERM only when somebody lets it go on.
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """KILL to the whole group; a group that is gone already is no error."""
        self._signal(signal.SIGKILL)

    async def _keep(self) -> Ended:
        try:
            await self._leader.wait()
            await self._linger_for_output()
            # One KILL is enough: the kernel sends it to all members and lets no fork slip through in between.
            self.kill()
            status = self._reap()
            await await_gone(self.pid, within=_GROUP_GONE_WITHIN)
            for pump in self._pumps:
                pump.drain()
        finally:
            self._clear()
        return Ended(exit_code=status.code, signal=status.signal, output=tuple(pump.result() for pump in self._pumps))

    async def _linger_for_output(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._linger):
                for pump in self._pumps:
                    await pump.at_end.wait()

    def _signal(self, number: int) -> None:
        if not self._leader.reaped:
            signal_group(self.pid, number)

    def _reap(self) -> ExitStatus:
        status = self._leader.reap() or ExitStatus()
        if self._leader.reaped:
            # Popen would otherwise think that it is running, and wait for a number that may be another's.
            self._process.returncode = status.code if status.code is not None else -(status.signal or 0)
        return status

    def _clear(self) -> None:
        """Leaves nothing behind, at once; does nothing after an orderly end."""
        self.kill()
        for _ in range(_LAST_LOOKS):
            if self._leader.has_ended:
                break
            time.sleep(_LAST_PAUSE)  # the event loop is ending: nothing can be awaited any more
        self._reap()
        for pump in self._pumps:
            pump.close()


class AsyncioSpawner:
    """Starts each process in a session of its own, its output read before it writes. Holds nothing between two starts."""

    async def spawn(self, request: SpawnRequest) -> AsyncioChild:
        """Starts one, in a session of its own, stdin on ``/dev/null``. Raises :class:`SpawnError`."""
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as always:
            pumps: list[Pump] = []
            writers: list[int] = []
            try:
                for name in _STREAMS:
                    reader, writer = os.pipe()
                    always.callback(os.close, writer)
                    pump = Pump(reader, Capture(name, keep_head=request.keep_head, keep_tail=request.keep_tail))
                    on_failure.callback(pump.close)
                    pump.start()
                    pumps.append(pump)
                    writers.append(writer)
                process = _start(request, *writers)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                raise spawn_error(error, request) from error
            on_failure.pop_all()
        return AsyncioChild(process, tuple(pumps), linger_ms=request.linger_ms)


def _start(request: SpawnRequest, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    if not request.argv:
        raise ValueError("there is no program to start")
    return subprocess.Popen(
        list(request.argv),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=request.cwd,
        env=dict(request.env),
        close_fds=True,
        start_new_session=True,
    )
