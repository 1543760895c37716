"""The spawner that leaves everything to a nursery: of a run nothing survives, neither its end nor the runner's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping, Sequence

from cronpad_command.capture import Capture
from cronpad_command.failures import NurseryLost, PreviousRunInProgress, spawn_error
from cronpad_command.leader import ExitStatus
from cronpad_command.nursery import wire
from cronpad_command.nursery_link import NurseryLink, NurseryNotStarted
from cronpad_command.orders import lock_file, order_for, scope_of
from cronpad_command.pump import Pump
from cronpad_command.spawn import AsyncioSpawner
from cronpad_core.api import SECOND, Child, Ended, Millis, SpawnError, SpawnRequest

__all__ = ["NurseryChild", "NurserySpawner"]

_log = logging.getLogger(__name__)
_STREAMS = ("stdout", "stderr")
_GRACE: Millis = 1_000
_ANSWER_WITHIN = 60.0  # besides the patience for an earlier copy


class NurseryChild:
    """A command in the nursery, watched by a task of its own from its order to its last trace."""

    def __init__(self, request: SpawnRequest, run: bytes, pumps: tuple[Pump, ...], link: NurseryLink) -> None:
        self.pid = 0
        self.run = run
        self.token = link.add(self)
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[int] = loop.create_future()
        self._request = request
        self._pumps = pumps
        self._link = link
        self._status: ExitStatus | None = None
        self._ended = asyncio.Event()
        self._gone = asyncio.Event()
        self._lost = False
        self._keeper = loop.create_task(self._keep(), name=f"command {self.token}")
        # A task that is cancelled before its first step runs no line of its body; a loss is told to whoever waits, if anybody.
        self._keeper.add_done_callback(self._clear)

    @property
    def leader_ended(self) -> bool:
        """Whether the process itself has ended, looked up now."""
        self._link.take()
        return self._status is not None

    async def wait(self) -> Ended:
        """Waits for the leader, has the rest of its run ended, and answers. Raises :class:`NurseryLost`."""
        return await asyncio.shield(self._keeper)

    async def closed(self) -> None:
        """Returns when nothing of it is left, neither a process nor a descriptor, after a start that came to nothing."""
        await asyncio.wait({self._keeper})

    def terminate(self) -> None:
        """TERM to the whole group; a group that is gone already is no error."""
        self._link.say(wire.SIGNAL, self.token, signal.SIGTERM)

    def kill(self) -> None:
        """KILL to everything of the run, wherever it went; a run that is gone already is no error."""
        self._link.say(wire.END, self.token, 0)

    def hear(self, kind: bytes, rest: Sequence[bytes]) -> None:
        """Takes a report of the nursery."""
        if kind == wire.STARTED:
            self.pid = int(rest[0])
            self._answer(None)
        elif kind == wire.REFUSED:
            number = int(rest[0]) if rest[0] else None
            about, text = os.fsdecode(rest[1]), rest[2].decode(errors="replace")
            error = ValueError(text) if number is None else OSError(number, os.strerror(number), about)
            self._answer(spawn_error(error, self._request))
        elif kind == wire.HELD:
            self._answer(PreviousRunInProgress())
        elif kind == wire.ENDED:
            code, number_, alone = rest
            self._status = ExitStatus(code=int(code) if code else None, signal=int(number_) if number_ else None)
            self._ended.set()
            if alone:
                self._gone.set()
        elif kind == wire.GONE:
            self._gone.set()

    def lose(self) -> None:
        """The nursery died under the command."""
        self._lost = True
        self._answer(NurseryLost())
        self._ended.set()
        self._gone.set()

    def _answer(self, error: Exception | None) -> None:
        if self.started.done():
            return
        if error is None:
            self.started.set_result(self.pid)
        else:
            self.started.set_exception(error)
            # Asked for by then, or never: a start whose caller was cancelled has nobody to tell.
            self.started.exception()

    async def _keep(self) -> Ended:
        await asyncio.wait({self.started})
        if self.started.exception() is not None:
            return Ended(exit_code=None, signal=None, output=())
        await self._ended.wait()
        await self._linger_for_output()
        if not self._gone.is_set():
            self._link.say(wire.END, self.token, _GRACE)
            await self._gone.wait()
        for pump in self._pumps:
            pump.drain()
        output = tuple(pump.result() for pump in self._pumps)
        if self._lost and self._status is None:
            raise NurseryLost(output)
        status = self._status or ExitStatus()
        return Ended(exit_code=status.code, signal=status.signal, output=output)

    async def _linger_for_output(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._request.linger_ms / SECOND):
                for pump in self._pumps:
                    await pump.at_end.wait()

    def _clear(self, keeper: asyncio.Task[Ended]) -> None:
        self._link.remove(self.token)
        for pump in self._pumps:
            pump.close()
        if not keeper.cancelled():
            keeper.exception()


class NurserySpawner:
    """Has each command started by a nursery, which is started with the first one, and again when it died.

    Where there can be none, commands are started by the runner itself, and the log says so once.
    """

    def __init__(self, *, state: str = "", environ: Mapping[str, str] | None = None) -> None:
        self._scope = scope_of(state)
        self._locks = lock_file(state, environ or {})
        self._link: NurseryLink | None = None
        self._without: AsyncioSpawner | None = None

    async def spawn(self, request: SpawnRequest) -> Child:
        """Starts one, in a session of its own, stdin on ``/dev/null``. Raises :class:`SpawnError`."""
        if self._without is None:
            try:
                link = await self._nursery()
            except NurseryNotStarted as error:
                if error.passing:
                    raise SpawnError(f"resource: no nursery for commands: {error}", code=126, resource=True) from error
                if self._without is None:
                    _log.warning(
                        "there is no nursery for commands (%s): the runner starts them itself, so what leaves the session of its "
                        "command, or still runs when the runner is killed, is not ended",
                        error,
                    )
                    self._without = AsyncioSpawner()
            except OSError as error:
                raise spawn_error(error, request) from error
            else:
                return await self._spawn(link, request)
        return await self._without.spawn(request)

    async def close(self) -> None:
        """Ends the nursery, and with it whatever still runs, without holding up the event loop."""
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _spawn(self, link: NurseryLink, request: SpawnRequest) -> NurseryChild:
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as always:
            pumps: list[Pump] = []
            writers: list[int] = []
            try:
                order = order_for(request, scope=self._scope)
                for name in _STREAMS:
                    reader, writer = os.pipe()
                    always.callback(os.close, writer)
                    pump = Pump(reader, Capture(name, keep_head=request.keep_head, keep_tail=request.keep_tail))
                    on_failure.callback(pump.close)
                    pump.start()
                    pumps.append(pump)
                    writers.append(writer)
                child = NurseryChild(request, order.run, tuple(pumps), link)
                on_failure.pop_all()
                on_failure.callback(child.lose)
                order.token = child.token
                link.order(order, writers)
            except (OSError, ValueError) as error:
                raise spawn_error(error, request) from error
            on_failure.pop_all()
        try:
            async with asyncio.timeout(_ANSWER_WITHIN + request.patience_ms / SECOND):
                await asyncio.shield(child.started)
        except TimeoutError:
            # A runner that was stopped for a while finds its timers due before the answers that wait for it.
            link.take()
            if not child.started.done():
                link.break_off()
                raise NurseryLost() from None
            await child.started
        except asyncio.CancelledError:
            # It may have started already, with the answer still on its way: nothing of it may be left for whoever hears of this.
            child.kill()
            await child.closed()
            raise
        except SpawnError:
            await child.closed()
            raise
        return child

    async def _nursery(self) -> NurseryLink:
        link = self._link
        if link is None or not link.alive or link.loop is not asyncio.get_running_loop():
            link = self._link = NurseryLink.launched(self._locks)
        await link.ready()
        return link
