"""Who this process is, and how it knows that another one is gone for good.

A holder is named by boot id, PID namespace, pid and start time, and by whether it holds a file lock on ``cronpad.lock``. It is
provably dead if the same boot and namespace have no such process, or if it held the lock and the lock is free. A file lock is freed
by SIGKILL, kept by a stopped holder, and works across containers; it is evidence of death, never the dispatcher lock.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from cronpad_core.ports.clock import Clock

__all__ = ["EphemeralIdentity", "ProcessIdentity"]


def _start_time(pid: int) -> str | None:
    """Field 22 of ``/proc/PID/stat`` (proc(5)): when the process started, in ticks since boot; ``None`` without it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in ("Z", "X") else rest[18]


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "none"


class ProcessIdentity:
    """The identity of this process over one state directory; keeps the file lock for the life of the process, once it has it."""

    def __init__(self, directory: Path, clock: Clock, token: str) -> None:
        self._path = directory / "cronpad.lock"
        self._clock = clock
        self._token = token
        self._descriptor: int | None = None

    def me(self) -> str:
        """Our identity as JSON text; takes the file lock if it is free."""
        return json.dumps(
            {
                "boot": self._clock.boot_id(),
                "ns": _namespace(),
                "pid": os.getpid(),
                "start": _start_time(os.getpid()),
                "flock": self._hold(),
                "token": self._token,
            },
            sort_keys=True,
        )

    def _hold(self) -> bool:
        if self._descriptor is not None:
            return True
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def dead(self, holder: str) -> bool:
        """Whether that holder is provably gone."""
        try:
            other = json.loads(holder)
            boot, namespace, pid, start = other["boot"], other["ns"], int(other["pid"]), other["start"]
            held = bool(other["flock"])
        except (ValueError, KeyError, TypeError):
            return False
        if boot != self._clock.boot_id():
            return held and self._free()
        if namespace == _namespace() and start is not None:
            now = _start_time(pid)
            if now is None or now != start:
                return True
        return held and self._free()

    def _free(self) -> bool:
        """Whether nobody holds the file lock at the moment; our own hold says nothing of others."""
        if self._descriptor is not None:
            return True
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def close(self) -> None:
        """Gives the file lock up."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class EphemeralIdentity:
    """The identity over a state that dies with the process: nobody else ever held it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def me(self) -> str:
        """Our token."""
        return self._token

    def dead(self, holder: str) -> bool:
        """Never: in one process's memory there is nobody else."""
        return False

    def close(self) -> None:
        """Nothing to give up."""
