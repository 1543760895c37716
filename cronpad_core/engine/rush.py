"""Claims before results: while what one claim brought is being opened, results wait, to be written together afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Rush"]


class Rush:
    """Whether a claim is being opened; short, since a claim is bounded."""

    def __init__(self) -> None:
        self._under_way = 0
        self._waiting: list[Callable[[], None]] = []

    @contextmanager
    def hour(self) -> Iterator[None]:
        """For the time in which a claim is opened."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                waiting, self._waiting = self._waiting, []
                for resume in waiting:
                    resume()

    def after(self, resume: Callable[[], None]) -> bool:
        """Calls ``resume`` once it is over; False, without calling it, where there is none."""
        if not self._under_way:
            return False
        self._waiting.append(resume)
        return True
