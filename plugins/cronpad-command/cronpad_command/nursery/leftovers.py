"""What a nursery left that was killed itself: processes of runs that nobody looks after any more."""

from __future__ import annotations

import signal
from collections.abc import Collection

from cronpad_command.nursery.processes import Process, all_processes, look, run_of, signal_exactly
from cronpad_command.nursery.wire import MARK

__all__ = ["Leftovers", "orphans_of"]


def orphans_of(runs: Collection[bytes] | None = None, *, sessions: Collection[int] = ()) -> dict[bytes, list[Process]]:
    """Running processes of the given runs (of any, for ``None``) that no living nursery has among its descendants, by run.

    Those of the given sessions count as well, under no name.
    """
    everybody = {process.pid: process for process in all_processes() if process.runs}
    found: dict[bytes, list[Process]] = {}
    kept: dict[int, bool] = {0: False}
    for process in everybody.values():
        run = run_of(process.pid)
        if run is None or (runs is not None and run not in runs):
            if process.session not in sessions:
                continue
            run = b""
        if not _is_kept(process.pid, everybody, kept):
            found.setdefault(run, []).append(process)
    return found


class Leftovers:
    """The orphans that were there when this nursery began: a run that is started again must not meet them."""

    def __init__(self) -> None:
        self._by_run = orphans_of()

    def end(self, run: bytes) -> bool:
        """Kills what an earlier nursery left of the run; answers whether nothing of it is left."""
        found = self._by_run.get(run)
        if not found:
            return True
        left = []
        for process in found:
            now = look(process.pid)
            if now is not None and now.runs and now.started == process.started:
                signal_exactly(process, signal.SIGKILL)
                left.append(process)
        if left:
            self._by_run[run] = left
        else:
            del self._by_run[run]
        return not left


def _is_kept(pid: int, everybody: dict[int, Process], known: dict[int, bool]) -> bool:
    """Whether the process is a nursery or has one above itself."""
    path = []
    while pid not in known:
        path.append(pid)
        if _is_nursery(pid):
            known[pid] = True
            break
        known[pid] = False  # ends a walk that meets itself, as numbers may change hands meanwhile
        process = everybody.get(pid)
        pid = process.parent if process is not None else 0
    answer = known[pid]
    for walked in path:
        known[walked] = answer
    return answer


def _is_nursery(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            return MARK.encode() in line.read().split(b"\0")
    except OSError:
        return False
