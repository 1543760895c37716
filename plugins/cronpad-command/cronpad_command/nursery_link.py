"""The runner's end of a nursery: starts it, talks to it, notices its death, and ends it with the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess  # noqa: TID251 - the one process that the runner starts itself
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from cronpad_command.failures import PASSING
from cronpad_command.leader import Leader
from cronpad_command.nursery import wire
from cronpad_command.sweep import Listener, kill_left, sweep

__all__ = ["NurseryLink", "NurseryNotStarted"]

_BOOT = "import sys; sys.path.append(sys.argv[1]); from cronpad_command.nursery.main import main; main()"
_ROOT = str(Path(__file__).resolve().parent.parent)
_READY_WITHIN = 60.0
_GONE_WITHIN = 8.0
# Commands bring their own; a runner that is a command itself is known to its nursery by the second one.
_ENVIRONMENT = ("LD_LIBRARY_PATH", wire.VARIABLE)


class NurseryNotStarted(Exception):
    """There is no nursery, for the reason given; ``passing`` that there can be one at the next try."""

    def __init__(self, reason: str, *, passing: bool) -> None:
        super().__init__(reason)
        self.passing = passing


class NurseryLink:
    """One nursery, for one event loop. With the loop's end it kills everything and is waited for."""

    def __init__(self, link: socket.socket, life: int, process: subprocess.Popen[bytes]) -> None:
        self.loop = asyncio.get_running_loop()
        self.alive = True
        self.fault = ""
        self.pid = process.pid
        self._link = link
        self._life = life
        self._process = process
        self._known = asyncio.Event()
        self._refusal: NurseryNotStarted | None = None
        self._parted = False
        self._listeners: dict[int, Listener] = {}
        self._unsaid: deque[tuple[bytes, list[int]]] = deque()
        self._token = 0
        link.setblocking(False)
        self.loop.add_reader(link.fileno(), self.take)
        self._watch = self.loop.create_task(asyncio.Event().wait(), name=f"nursery {process.pid}")
        # Cancelled by the end of the loop alone. A task that is cancelled before its first step runs no line of its body.
        self._watch.add_done_callback(lambda _: self.end())
        self._burial: asyncio.Task[None] | None = None

    @classmethod
    def launched(cls, locks: str) -> NurseryLink:
        """A nursery that is on its way. Raises ``OSError`` for a lack of resources, else :class:`NurseryNotStarted`."""
        if not sys.executable:
            raise NurseryNotStarted("the path of the Python interpreter is not known", passing=False)
        with contextlib.ExitStack() as on_failure, _passing_only():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            on_failure.callback(ours.close)
            with theirs:
                reader, writer = os.pipe()
                on_failure.callback(os.close, writer)
                try:
                    process = _start(theirs.fileno(), reader, locks)
                finally:
                    os.close(reader)
            on_failure.pop_all()
        return cls(ours, writer, process)

    async def ready(self) -> None:
        """Returns when commands can be ordered. Raises :class:`NurseryNotStarted`."""
        if not self._known.is_set():
            try:
                async with asyncio.timeout(_READY_WITHIN):
                    await self._known.wait()
            except TimeoutError:
                self.break_off()
                raise NurseryNotStarted(f"it was not ready within {_READY_WITHIN:g} s", passing=True) from None
        if self._refusal is not None:
            raise self._refusal
        if not self.alive:
            raise NurseryNotStarted("it died", passing=True)

    def add(self, listener: Listener) -> int:
        """A new token, under which the listener hears of its command."""
        self._token += 1
        self._listeners[self._token] = listener
        return self._token

    def remove(self, token: int) -> None:
        """Nothing more is to be heard under the token."""
        self._listeners.pop(token, None)

    def order(self, order: wire.Order, descriptors: list[int]) -> None:
        """Has a command started. The descriptors stay the caller's. Raises ``OSError`` for a lack of resources."""
        packed = order.packed()
        if len(packed) <= wire.LARGEST:
            self._send(wire.START + b"\0" + packed, descriptors)
            return
        long = os.memfd_create("cronpad-order", os.MFD_CLOEXEC)
        with os.fdopen(long, "wb") as file:
            file.write(packed)
            file.flush()
            self._send(wire.message(wire.START, order.token), [*descriptors, long])

    def say(self, kind: bytes, *parts: int) -> None:
        """Sends an order that needs no descriptors."""
        if self.alive:
            with contextlib.suppress(OSError):
                self._send(wire.message(kind, *parts), [])

    def take(self) -> None:
        """Hears all reports that are there now."""
        while self.alive:
            try:
                packet = self._link.recv(wire.LARGEST)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                packet = b""
            if not packet:
                self.break_off()
                return
            kind, rest = wire.fields(packet)
            if kind == wire.READY:
                self._known.set()
            elif kind == wire.FAULT:
                self.fault = rest[0].decode(errors="replace")
            elif (listener := self._listeners.get(int(rest[0]))) is not None:
                listener.hear(kind, rest[1:])

    def break_off(self) -> None:
        """The nursery is dead, or as good as that: ends it for good, then what it left, then tells the listeners."""
        if not self.alive:
            return
        self._close()
        self._process.kill()
        self._burial = self.loop.create_task(self._bury(), name=f"burial of nursery {self.pid}")

    async def close(self) -> None:
        """Has everything killed that is left; returns when that is done and the nursery is gone. Does not hold up the loop."""
        if self._burial is not None:
            await asyncio.wait({self._burial})
            return
        self._hang_up()
        await self._departed()
        self._part()

    def end(self) -> None:
        """The same at the end of the loop, when nothing can be awaited any more."""
        if self._parted:
            return
        self._hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GONE_WITHIN)
        if self._burial is not None:
            self._burial.cancel()
            kill_left(self._listeners.values())
        self._part()

    async def _bury(self) -> None:
        await self._departed()
        if not self._known.is_set():
            code = self._process.poll()
            # What a signal has killed may live the next time.
            passing = not self.fault and (code is None or code < 0)
            self._refusal = NurseryNotStarted(self.fault or f"it ended with {code}", passing=passing)
            self._known.set()
        await sweep(self._listeners.values())
        self._part()

    def _hang_up(self) -> None:
        if self.alive:
            self.say(wire.CLOSE, 0)
            self._close()

    async def _departed(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GONE_WITHIN):
                await Leader(self.pid).wait()

    def _part(self) -> None:
        """Takes the exit status and leaves nobody waiting."""
        if self._parted:
            return
        self._parted = True
        if self._process.poll() is None:
            # Something hangs in the kernel: the nursery stays with it, and keeps its lock.
            self._process.returncode = 0
        for listener in list(self._listeners.values()):
            listener.lose()
        self._known.set()
        self._watch.cancel()

    def _close(self) -> None:
        self.alive = False
        if not self.loop.is_closed():
            self.loop.remove_reader(self._link.fileno())
            self.loop.remove_writer(self._link.fileno())
        self._link.close()
        os.close(self._life)
        while self._unsaid:
            self._discard(self._unsaid.popleft()[1])

    def _send(self, packet: bytes, descriptors: list[int]) -> None:
        if not self._unsaid and self._sent(packet, descriptors):
            return
        with contextlib.ExitStack() as on_failure:
            copies = []
            for descriptor in descriptors:
                copies.append(os.dup(descriptor))
                on_failure.callback(os.close, copies[-1])
            on_failure.pop_all()
        self._unsaid.append((packet, copies))
        self.loop.add_writer(self._link.fileno(), self._flush)

    def _sent(self, packet: bytes, descriptors: list[int]) -> bool:
        try:
            socket.send_fds(self._link, [packet], descriptors)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            if error.errno in PASSING:
                raise
            # It is dead, and whoever sent the order hears of that as of any other loss.
            self.break_off()
        return True

    def _flush(self) -> None:
        try:
            while self._unsaid and self._sent(*self._unsaid[0]):
                if self._unsaid:
                    self._discard(self._unsaid.popleft()[1])
        except OSError:
            # No room for the descriptors at present; the socket is asked again when it can be written to.
            return
        if self.alive and not self._unsaid:
            self.loop.remove_writer(self._link.fileno())

    @staticmethod
    def _discard(descriptors: list[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)


@contextlib.contextmanager
def _passing_only() -> Iterator[None]:
    """Lets errors through that are otherwise at the next try; what will not change means that there is no nursery."""
    try:
        yield
    except (OSError, subprocess.SubprocessError) as error:
        if isinstance(error, OSError) and error.errno in PASSING:
            raise
        raise NurseryNotStarted(str(error), passing=False) from error


def _start(link: int, life: int, locks: str) -> subprocess.Popen[bytes]:
    """Starts it in a session of its own, where no signal of the runner's terminal reaches it."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _BOOT, _ROOT, wire.MARK, str(link), str(life), locks],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        pass_fds=(link, life),
        start_new_session=True,
    )
