"""Whose is this process? Every orphan of every run becomes a child of the nursery, however far it went."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from cronpad_command.nursery.processes import Process, children_of, descendants_of, look, run_of
from cronpad_command.nursery.run import Run

__all__ = ["Family"]


class Family:
    """Knows the nursery's children and which run each belongs to.

    The nursery is the subreaper of all commands: what a dead command left is its child. So a run whose leader is gone has
    something left exactly when a child of the nursery is neither a leader nor another run's. A child's run is known by its
    session, or by the ``CRONPAD_NURSERY`` in its environment, or because it was seen below the leader. One that gave away all
    three belongs to the last to end of the runs that were there when it was first seen, and so goes as well.
    """

    def __init__(self) -> None:
        self._self = os.getpid()
        self._owner: dict[int, tuple[int, int]] = {}  # process → when it began, token: numbers are given out again
        self._suspects: dict[int, set[int]] = {}

    def census(self, runs: Mapping[int, Run], of: Iterable[Run]) -> dict[int, list[Process]]:
        """What runs of each of the given runs, their living leaders included, by token; reaps orphans that are over."""
        asked = {run.token: run for run in of}
        found: dict[int, list[Process]] = {token: [] for token in asked}
        leaders = {run.pid: run for run in runs.values()}
        by_name = {run.run: run for run in runs.values() if run.run}
        for pid in children_of(self._self):
            if pid in leaders:
                run = leaders[pid]
                if run.token in asked and run.status is None:
                    found[run.token] += self._with_descendants(pid, run)
            elif not self._reap(pid):
                token = self._owner_of(pid, leaders, by_name)
                if token in asked:
                    found[token] += self._with_descendants(pid, asked[token])
        return found

    def strays(self) -> list[Process]:
        """Children that belong to no run any more."""
        found = []
        for pid in children_of(self._self):
            if not self._reap(pid) and (process := look(pid)) is not None:
                found.append(process)
        return found

    def reap(self, leaders: set[int]) -> None:
        """Reaps orphans that are over."""
        for pid in children_of(self._self):
            if pid not in leaders:
                self._reap(pid)

    def forget(self, token: int) -> None:
        """The run is over: whatever might have been its is another's."""
        for suspects in self._suspects.values():
            suspects.discard(token)
        self._owner = {pid: known for pid, known in self._owner.items() if known[1] != token}

    def _owner_of(self, pid: int, leaders: Mapping[int, Run], by_name: Mapping[bytes, Run]) -> int | None:
        process = look(pid)
        if process is None:
            return None
        known = self._owner.get(pid)
        if known is not None and known[0] == process.started:
            return known[1]
        run = leaders.get(process.session) or by_name.get(run_of(pid) or b"")
        if run is None:
            return self._last_suspect(pid, leaders)
        self._owner[pid] = (process.started, run.token)
        return run.token

    def _last_suspect(self, pid: int, leaders: Mapping[int, Run]) -> int | None:
        suspects = self._suspects.get(pid)
        if not suspects:
            suspects = self._suspects[pid] = {run.token for run in leaders.values()}
        return next(iter(suspects)) if len(suspects) == 1 else None

    def _with_descendants(self, pid: int, run: Run) -> list[Process]:
        members = []
        for number in (pid, *descendants_of(pid)):
            process = look(number)
            if process is not None and process.runs:
                # It may become a child of the nursery later, when nothing else tells whose it was.
                self._owner[number] = (process.started, run.token)
                members.append(process)
        return members

    def _reap(self, pid: int) -> bool:
        try:
            gone = os.waitpid(pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            gone = True
        if gone:
            self._owner.pop(pid, None)
            self._suspects.pop(pid, None)
        return gone
