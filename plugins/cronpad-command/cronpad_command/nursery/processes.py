"""What ``/proc`` knows of other processes, and signals that reach the one that was looked at and no other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

from cronpad_command.nursery.wire import VARIABLE

__all__ = ["Process", "all_processes", "children_of", "descendants_of", "look", "run_of", "signal_exactly", "signal_group"]

_PROC = "/proc"
_RUN = VARIABLE.encode() + b"="
_OVER = (b"Z", b"X")


class Process:
    """One look at a process: its number, where it stands, and when it began (in ticks since the start of the machine)."""

    __slots__ = ("group", "parent", "pid", "session", "started", "state")

    def __init__(self, pid: int, state: bytes, parent: int, group: int, session: int, started: int) -> None:
        self.pid = pid
        self.state = state
        self.parent = parent
        self.group = group
        self.session = session
        self.started = started

    @property
    def runs(self) -> bool:
        """Whether it is more than a zombie."""
        return self.state not in _OVER


def look(pid: int) -> Process | None:
    """What the process is now; ``None`` when there is none."""
    text = _read(f"{_PROC}/{pid}/stat")
    if not text:
        return None
    # "pid (name) state parent group session …", where the name may hold anything, ")" included.
    fields = text[text.rindex(b")") + 1 :].split()
    return Process(pid, fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def run_of(pid: int) -> bytes | None:
    """The run that the process was started for, as its environment says; ``None`` when it says nothing, or not to us."""
    for entry in _read(f"{_PROC}/{pid}/environ").split(b"\0"):
        if entry.startswith(_RUN):
            return entry[len(_RUN) :]
    return None


def all_processes() -> Iterator[Process]:
    """Every process of the machine that can be looked at."""
    for name in os.listdir(_PROC):
        if name.isdigit() and (process := look(int(name))) is not None:
            yield process


def children_of(pid: int) -> list[int]:
    """The numbers of its children, zombies included; exact when nobody else reaps them."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"{_PROC}/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        try:
            with open(f"{_PROC}/{pid}/task/{task}/children", "rb") as children:
                found += map(int, children.read().split())
        except FileNotFoundError:
            # The thread is gone, or the kernel was built without these files.
            if os.path.exists(f"{_PROC}/{pid}/task/{task}"):
                return [process.pid for process in all_processes() if process.parent == pid]
        except OSError:
            continue
    return found


def descendants_of(pid: int) -> list[int]:
    """Its children and theirs; in a moving family some may be missed, and are found once their parents are gone."""
    found: dict[int, None] = {}
    unseen = [pid]
    while unseen:
        children = [child for child in children_of(unseen.pop()) if child not in found]
        found.update(dict.fromkeys(children))
        unseen += children
    return list(found)


def signal_exactly(process: Process, number: int) -> None:
    """Sends a signal to the process that was looked at; when its number is another's by now, to nobody."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        # The descriptor cannot change hands any more, so a second look that agrees with the first settles whose it is.
        again = look(process.pid)
        if again is not None and again.started == process.started:
            signal.pidfd_send_signal(pidfd, number)
    except OSError:
        pass
    finally:
        os.close(pidfd)


def signal_group(pgid: int, number: int) -> None:
    """Sends a signal to all members of a group at once, if there are any that may be sent one."""
    try:
        os.killpg(pgid, number)
    except (ProcessLookupError, PermissionError):
        return


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
