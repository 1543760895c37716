"""The nursery's process: waits for orders, for the ends of commands and for the end of the runner, and does nothing else."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import sys

from cronpad_command.nursery.link import Link
from cronpad_command.nursery.service import Service
from cronpad_command.nursery.wire import FAULT

__all__ = ["main"]

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_LEFT_ALONE = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    """Runs a nursery; arguments: its mark, the descriptors of the socket and of the life pipe, the path of the lock file."""
    _mark, link, life, locks = sys.argv[-4:]
    talk = socket.socket(fileno=int(link))
    try:
        woken = _prepare(talk.fileno(), int(life))
        service = Service(talk, life=int(life), woken=woken, locks=locks)
    except Exception as error:
        Link(talk).say(FAULT, str(error).encode(errors="replace"))
        return
    try:
        service.run()
    except Exception as error:
        service.give_up(f"{type(error).__name__}: {error}")


def _prepare(*descriptors: int) -> int:
    """Sees to it that everything is there that is needed; answers with the descriptor that signals can be read from."""
    _become_subreaper()
    os.close(os.pidfd_open(os.getpid()))
    os.stat(f"/proc/{os.getpid()}/stat")
    # Commands inherit it: a core file holds what a command had in memory, secrets included.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, False)
    woken, waker = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    # The runner alone decides when a nursery ends. Handlers, as a command would inherit that a signal is ignored; what was
    # ignored before (nohup) stays so, but for TERM, by which commands are asked to end.
    for number in (signal.SIGCHLD, signal.SIGTERM, *_LEFT_ALONE):
        if number in (signal.SIGCHLD, signal.SIGTERM) or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)
    return woken


def _become_subreaper() -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    library.prctl(_PR_SET_NAME, b"cronpad-nursery", 0, 0, 0)
