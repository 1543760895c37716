"""The book of entries that wait for room: how long each is given back for, and who comes first when a run ends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from cronpad_core.domain.timing import Millis

__all__ = ["Holds"]

_STEP_MS, _LONGEST_MS = 250, 5_000


class Holds:
    """Who waits for which scope, in the order of arrival. In memory only: after a restart those who wait come up again anyway.

    The k-th that waits for a scope with room for ``cap`` is given back for 250 ms · ⌈k / cap⌉, at most 5 s, so that a full scope
    costs little however many wait; when a run of the scope ends, the one that waits longest is due at once.
    """

    def __init__(self) -> None:
        self._arrivals: dict[str, list[int]] = {}
        self._members: dict[int, str] = {}
        self._places: dict[str, tuple[str, int]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._places)

    def hold(self, member: str, scope: str, cap: int) -> Millis:
        """Notes that this entry waits for the scope; answers after how long it is to come up again."""
        place = self._places.get(member)
        if place is None or place[0] != scope:
            self.leave(member)
            self._next += 1
            place = self._places[member] = scope, self._next
            self._members[self._next] = member
            self._arrivals.setdefault(scope, []).append(self._next)
        position = bisect_left(self._arrivals[scope], place[1]) + 1
        return min(_LONGEST_MS, _STEP_MS * -(-position // max(cap, 1)))

    def leave(self, member: str) -> None:
        """The entry waits no more."""
        place = self._places.pop(member, None)
        if place is None:
            return
        scope, arrival = place
        del self._members[arrival]
        arrivals = self._arrivals[scope]
        del arrivals[bisect_left(arrivals, arrival)]
        if not arrivals:
            del self._arrivals[scope]

    def first(self, scopes: Iterable[str]) -> list[str]:
        """Of each scope the entry that waits longest."""
        return [self._members[self._arrivals[scope][0]] for scope in scopes if scope in self._arrivals]

    def clear(self) -> None:
        """Forgets everybody: under another term they are met anew."""
        self._arrivals.clear()
        self._members.clear()
        self._places.clear()
