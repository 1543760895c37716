"""A file as plain data, with the place of every key and value found when somebody asks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cronpad_core.config.problems import Place
from cronpad_core.domain.timing import JsonValue

__all__ = ["Document", "Path", "Span", "Spans", "SyntaxFault"]

Path = tuple[str | int, ...]
Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """The characters [start, end) of a key and of its value."""

    key: Span
    value: Span


class SyntaxFault(Exception):
    """The text breaks its format's rules at [``start``, ``end``); ``label`` says what was found there."""

    def __init__(self, message: str, start: int, end: int | None = None, *, label: str = "", hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = start + 1 if end is None else end
        self.label = label
        self.hint = hint


class Document:
    """One file's data and text.

    ``name`` is the file as the user wrote it, ``kind`` the format. ``positions`` answers the spans by path; it is called at most
    once, and only when there is something to show: finding places costs far more than reading.
    """

    def __init__(
        self,
        *,
        name: str,
        kind: str,
        text: str,
        data: JsonValue,
        positions: Callable[[str], Mapping[Path, Spans]],
    ) -> None:
        self.name = name
        self.kind = kind
        self.text = text
        self.data = data
        self._positions = positions
        self._spans: Mapping[Path, Spans] | None = None
        self._starts: list[int] | None = None
        self.unfilled: set[Path] = set()
        """Texts with a variable that is not set: reported once, and not again for what is left of them."""

    def locate(self, path: Path, *, key: bool = False, within: Span | None = None, raw: str = "") -> Place:
        """The place of a value, or of its key; ``within`` narrows it to those characters of the decoded text ``raw``.

        A path that the file does not have is answered with its nearest parent.
        """
        spans = self._find(path)
        if spans is None:
            return self.at(0, 1)
        start, end = spans.key if key else spans.value
        if within is not None:
            start, end = self._narrow((start, end), within, raw)
        return self.at(start, end)

    def at(self, start: int, end: int) -> Place:
        """The place of the characters [start, end), cut off at the end of the line."""
        if self._starts is None:
            self._starts = [0, *(at + 1 for at, char in enumerate(self.text) if char == "\n")]
        start = max(0, min(start, len(self.text)))
        line = bisect_right(self._starts, start) - 1
        first = self._starts[line]
        last = self.text.find("\n", first)
        text = self.text[first : last if last >= 0 else len(self.text)].rstrip("\r")
        length = max(1, min(end, first + len(text)) - start)
        return Place(file=self.name, line=line + 1, column=start - first + 1, length=length, text=text)

    def _find(self, path: Path) -> Spans | None:
        if self._spans is None:
            self._spans = self._positions(self.text)
        while path and path not in self._spans:
            path = path[:-1]
        return self._spans.get(path)

    def _narrow(self, span: Span, within: Span, raw: str) -> Span:
        source = self.text[span[0] : span[1]]
        at = source.find(raw) if raw else -1
        if at >= 0:
            return span[0] + at + within[0], span[0] + at + within[1]
        # Escapes in the source: the token itself may still stand there once.
        token = raw[within[0] : within[1]]
        if token and source.count(token) == 1:
            at = source.find(token)
            return span[0] + at, span[0] + at + len(token)
        return span
