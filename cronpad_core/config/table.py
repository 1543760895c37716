"""Reads one table of a file key by key; what does not fit is reported at its place and read as absent."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

from cronpad_core.config.document import Document, Path, Span
from cronpad_core.config.durations import DurationFault, parse_duration
from cronpad_core.config.problems import Problem, Problems, Severity, did_you_mean
from cronpad_core.domain.timing import JsonValue, Millis

__all__ = ["Table", "kind_of"]

Word = TypeVar("Word", bound=StrEnum)


def kind_of(value: JsonValue) -> str:
    """How a person calls the type: text, number, …"""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "a table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The table at ``path`` of a document; ``job`` is named in every problem."""

    document: Document
    path: Path
    data: dict[str, JsonValue]
    problems: Problems
    job: str | None = None

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def problem(
        self,
        code: str,
        message: str,
        *at: str | int,
        key: bool = False,
        label: str = "",
        hint: str | None = None,
        within: Span | None = None,
        raw: str = "",
        warning: bool = False,
    ) -> None:
        """Reports at the value below ``at`` (or its key)."""
        if not key and (*self.path, *at) in self.document.unfilled:
            return
        place = self.document.locate((*self.path, *at), key=key, within=within, raw=raw)
        severity = Severity.WARNING if warning else Severity.ERROR
        self.problems.add(
            Problem(code=code, message=message, place=place, severity=severity, label=label, job=self.job, hint=hint)
        )

    def wrong_type(self, key: str, wanted: str, *, hint: str | None = None) -> None:
        """Reports that the value is not of the wanted kind."""
        found = kind_of(self.data[key])
        self.problem("CP120", f"{key} must be {wanted}", key, label=f"this is {found}", hint=hint)

    def unknown(self, known: Collection[str], *, later: Collection[str] = (), what: str = "") -> None:
        """Reports every key that is not known; keys that begin with ``x-`` are the user's own."""
        for key in self.data:
            if key in known or key.startswith("x-"):
                continue
            if key in later:
                self.problem("CP129", f'"{key}" is not in this version', key, key=True)
            else:
                where = f" in {what}" if what else ""
                self.problem("CP101", f'unknown key "{key}"{where}', key, key=True, hint=did_you_mean(key, known))

    def missing(self, message: str, key: str, known: Collection[str], *, hint: str | None = None) -> None:
        """Reports that the table lacks ``key``, unless an unknown key looks like it: then that is the one thing to say."""
        unknown = [other for other in self.data if other not in known]
        if not get_close_matches(key, unknown, n=1, cutoff=0.6):
            self.problem("CP121", message, hint=hint)

    def text(self, key: str) -> str | None:
        """The text, or ``None``; a blank one is refused."""
        if key not in self.data:
            return None
        value = self.data[key]
        if not isinstance(value, str):
            self.wrong_type(key, "a text")
            return None
        if not value.strip():
            self.problem("CP125", f"{key} is empty", key)
            return None
        return value

    def whole(self, key: str, *, low: int, high: int, unit: str = "") -> int | None:
        """The whole number within the bounds, or ``None``."""
        if key not in self.data:
            return None
        value = self.data[key]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong_type(key, f"a whole number{unit}")
            return None
        if not low <= value <= high:
            self.problem("CP125", f"{key} is out of bounds", key, label=f"{_short(value)} is not in {low}-{high}")
            return None
        return value

    def number(self, key: str, *, low: float, high: float) -> float | None:
        """The number within the bounds, or ``None``."""
        if key not in self.data:
            return None
        value = self.data[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong_type(key, "a number")
            return None
        if not low <= value <= high:
            self.problem("CP125", f"{key} is out of bounds", key, label=f"{_short(value)} is not in {low:g} to {high:g}")
            return None
        return float(value)

    def duration(self, key: str, *, low: Millis = 0) -> Millis | None:
        """The duration in milliseconds, at least ``low``, or ``None``."""
        if key not in self.data:
            return None
        value = self.data[key]
        if isinstance(value, int | float) and not isinstance(value, bool):
            hint = f'did you mean "{_short(value)}s"?'
            self.problem("CP123", f"{key} needs a unit", key, label="a duration is a text with ms, s, m, h, d or w", hint=hint)
            return None
        if not isinstance(value, str):
            self.wrong_type(key, 'a duration such as "90s" or "1h30m"')
            return None
        try:
            length = parse_duration(value)
        except DurationFault as fault:
            hint = f'did you mean "{fault.suggestion}"?' if fault.suggestion else 'for example "90s" or "1h30m"'
            self.problem("CP123", f"{key} is not a duration", key, label=str(fault), hint=hint)
            return None
        if length < low:
            self.problem("CP123", f"{key} is too short", key, label=f"the shortest is {low} ms")
            return None
        return length

    def word(self, key: str, words: type[Word]) -> Word | None:
        """The member of the enum, or ``None``."""
        value = self.text(key)
        if value is None:
            return None
        if value in tuple(words):
            return words(value)
        self.not_one_of(key, value, words)
        return None

    def not_one_of(self, key: str, value: str, words: Iterable[str], *at: str | int) -> None:
        """Reports a word that is none of those allowed."""
        known = [str(word) for word in words]
        hint = did_you_mean(value, known)
        self.problem("CP125", f'{key} cannot be "{value[:60]}"', *(at or (key,)), label=f"allowed: {', '.join(known)}", hint=hint)

    def texts(self, key: str) -> tuple[str, ...] | None:
        """The list of texts without doubles, or ``None``."""
        if key not in self.data:
            return None
        value = self.data[key]
        if not isinstance(value, list):
            hint = f'did you mean ["{value[:60]}"]?' if isinstance(value, str) else None
            self.wrong_type(key, "a list of texts", hint=hint)
            return None
        found: list[str] = []
        for at, item in enumerate(value):
            if not isinstance(item, str) or not item.strip():
                self.problem(
                    "CP120", f"{key} must be a list of texts", key, at, label=f"this is {kind_of(item) if item else 'empty'}"
                )
            elif item not in found:
                found.append(item)
        return tuple(found)

    def table(self, key: str, *, wanted: str = "a table") -> Table | None:
        """The table below the key, or ``None``."""
        if key not in self.data:
            return None
        value = self.data[key]
        if not isinstance(value, dict):
            self.wrong_type(key, wanted)
            return None
        return Table(document=self.document, path=(*self.path, key), data=value, problems=self.problems, job=self.job)


def _short(value: float) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:20]}…"
