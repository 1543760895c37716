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
from cronpad_command.nursery import wire
from cronpad_command.sweep import Listener, sweep

__all__ = ["NurseryLink", "NurseryNotStarted"]

_BOOT = "import sys; sys.path.append(sys.argv[1]); from cronpad_command.nursery.main import main; main()"
_ROOT = str(Path(__file__).resolve().parent.parent)
_READY_WITHIN = 15.0
_GONE_WITHIN = 8.0


class NurseryNotStarted(Exception):
    """There is no nursery on this machine, for the reason given."""


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
        self._ready = self.loop.create_future()
        self._listeners: dict[int, Listener] = {}
        self._unsaid: deque[tuple[bytes, list[int]]] = deque()
        self._token = 0
        link.setblocking(False)
        self.loop.add_reader(link.fileno(), self.take)
        self._watch = self.loop.create_task(asyncio.Event().wait(), name=f"nursery {process.pid}")
        # Cancelled by the end of the loop alone. A task that is cancelled before its first step runs no line of its body.
        self._watch.add_done_callback(lambda _: self.end())
        self._sweep: asyncio.Task[None] | None = None

    @classmethod
    async def started(cls, locks: str) -> NurseryLink:
        """A nursery that is ready. Raises ``OSError`` for a lack of resources, else :class:`NurseryNotStarted`."""
        if not sys.executable:
            raise NurseryNotStarted("the path of the Python interpreter is not known")
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
        link = cls(ours, writer, process)
        try:
            async with asyncio.timeout(_READY_WITHIN):
                await link._ready
        except TimeoutError:
            link.break_off()
            raise NurseryNotStarted("it was not ready in time") from None
        return link

    def add(self, listener: Listener) -> int:
        """A new token, under which the listener hears of its command."""
        self._token += 1
        self._listeners[self._token] = listener
        return self._token

    def remove(self, token: int) -> None:
        """Nothing more is to be heard under the token."""
        self._listeners.pop(token, None)

    def order(self, order: wire.Order, descriptors: list[int]) -> None:
        """Has a command started. The descriptors stay the caller's. Raises ``OSError``."""
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
                if not self._ready.done():
                    self._ready.set_result(None)
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
        self._process.wait()
        if not self._ready.done():
            self._ready.set_exception(NurseryNotStarted(self.fault or f"it ended with {self._process.returncode}"))
        lost, self._listeners = list(self._listeners.values()), {}
        if lost:
            self._sweep = self.loop.create_task(sweep(lost), name="what a nursery left")
        self._watch.cancel()

    def end(self) -> None:
        """Has everything killed that is left, and returns when that is done and the nursery is gone."""
        if not self.alive:
            return
        self.say(wire.CLOSE, 0)
        self._close()
        try:
            self._process.wait(_GONE_WITHIN)
        except subprocess.TimeoutExpired:
            # Something hangs in the kernel: the nursery stays with it, and keeps its lock.
            self._process.returncode = 0
        for listener in list(self._listeners.values()):
            listener.lose()
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
        return True

    def _flush(self) -> None:
        try:
            while self._unsaid and self._sent(*self._unsaid[0]):
                self._discard(self._unsaid.popleft()[1])
        except OSError:
            self.break_off()
            return
        if not self._unsaid:
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
        raise NurseryNotStarted(str(error)) from error


def _start(link: int, life: int, locks: str) -> subprocess.Popen[bytes]:
    """Starts it in a session of its own, where no signal of the runner's terminal reaches it."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _BOOT, _ROOT, wire.MARK, str(link), str(life), locks],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if not name.startswith("CRONPAD_SECRET_")},
        pass_fds=(link, life),
        start_new_session=True,
    )
