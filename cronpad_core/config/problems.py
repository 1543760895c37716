"""All that is wrong with a set of files, each with its place: printed with a caret, or as JSON.

====== ======== =====================================================================================
code   severity meaning
====== ======== =====================================================================================
CP100  error    the file cannot be read, is not text, or breaks its format's syntax
CP101  error    unknown key
CP102  error    bad schedule: a field, the interval, the date, the time zone or the dst rule
CP103  both     the schedule never fires (a warning where another text of the same job does)
CP104  warning  both day fields are restricted
CP105  warning  a clock change skips or repeats a time of the schedule
CP106  warning  a step is larger than its field
CP109  warning  unescaped ``%`` in a crontab: the rest would be the command's input
CP110  warning  a secret in plain text
CP111  error    ``${VAR}`` that is undefined or not well formed
CP113  error    two jobs with one name or one id
CP120  error    a value of the wrong type
CP121  error    a key that is needed is missing
CP122  error    two spellings of one thing in one job
CP123  error    a duration that is none, or out of bounds
CP124  error    a sink, misfire policy or alert emitter that no loaded plugin brings
CP125  error    a value out of bounds or not one of the allowed words
CP126  error    a name or an id has an odd character, or is too long
CP127  warning  a crontab line or variable that is not acted on (``@reboot``, ``MAILTO``)
CP128  error    a job names an alert that is not declared
CP129  error    a part of the design that this version does not have
CP130  warning  jobs that share a concurrency key give it different caps
====== ======== =====================================================================================
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from cronpad_core.domain.timing import JsonValue

__all__ = ["Place", "Problem", "Problems", "Severity", "did_you_mean", "printable", "render"]

_WIDEST: Final = 100


class Severity(StrEnum):
    """``ERROR``: nothing of the files is used. ``WARNING``: accepted, but looks like a slip."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a file: 1-based line and column, how many characters are meant, and the line itself for the caret."""

    file: str
    line: int = 0
    column: int = 0
    length: int = 1
    text: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong: what (``message``), where, why (``label``, beside the caret) and the mend (``hint``)."""

    code: str
    message: str
    place: Place
    severity: Severity = Severity.ERROR
    label: str = ""
    job: str | None = None
    hint: str | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """The problem for programs; the keys are stable."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "file": self.place.file,
            "line": self.place.line,
            "column": self.place.column,
            "length": self.place.length,
            "label": self.label,
            "job": self.job,
            "hint": self.hint,
        }


class Problems:
    """Collects problems; nothing stops at the first."""

    def __init__(self, found: Iterable[Problem] = ()) -> None:
        self._found: list[Problem] = []
        self.error_count = 0
        for problem in found:
            self.add(problem)

    def add(self, problem: Problem) -> None:
        """Keeps the problem."""
        self._found.append(problem)
        self.error_count += problem.severity is Severity.ERROR

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Those that forbid using the files."""
        return tuple(problem for problem in self._found if problem.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Those that do not."""
        return tuple(problem for problem in self._found if problem.severity is Severity.WARNING)

    def report(self) -> str:
        """Every problem with its caret, in the order of the files; a blank line between two."""
        files = list(dict.fromkeys(problem.place.file for problem in self._found))
        ordered = sorted(self._found, key=lambda one: (files.index(one.place.file), one.place.line, one.place.column))
        return "\n\n".join(render(problem) for problem in ordered)

    def summary(self) -> str:
        """``2 errors in jobs.toml``."""
        count = self.error_count
        files = list(dict.fromkeys(problem.place.file for problem in self.errors))
        where = files[0] if len(files) == 1 else f"{len(files)} files"
        return f"{count} error{'' if count == 1 else 's'} in {printable(where)}"

    def to_json(self) -> list[JsonValue]:
        """All problems for ``--json``."""
        return [problem.to_json() for problem in self._found]


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """``did you mean "schedule"?``, or ``None`` where nothing is near."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f'did you mean "{near[0]}"?' if near else None


def printable(text: str) -> str:
    """The text with every character that a terminal would act on, or not show, replaced one for one."""
    return "".join(char if char.isprintable() else " " if char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def render(problem: Problem) -> str:
    """The problem as a person reads it: code, message, place, the line with a caret, the job and the mend."""
    lines = [f"{problem.severity.value}[{problem.code}]: {printable(problem.message)}"]
    place = problem.place
    margin = " " * len(str(place.line or ""))
    lines.append(f"{margin}┌─ {printable(str(place))}")
    if place.line:
        text, column = _window(printable(place.text), place.column - 1)
        length = max(1, min(place.length, len(text) - column))
        caret = "^" * max(1, _width(text[column : column + length]))
        lines.append(f"{place.line} │ {text}".rstrip())
        lines.append(f"{margin} │ {' ' * _width(text[:column])}{caret} {printable(problem.label)}".rstrip())
    elif problem.label:
        lines.append(f"{margin} │ {printable(problem.label)}")
    note = "; ".join(part for part in (f'in job "{problem.job}"' if problem.job else "", problem.hint or "") if part)
    if note:
        lines.append(f"{margin}= {printable(note)}")
    return "\n".join(lines)


def _window(text: str, column: int) -> tuple[str, int]:
    """The part of a long line around the column, so that one-line JSON does not fill the screen."""
    column = max(0, min(column, len(text)))
    if len(text) <= _WIDEST:
        return text, column
    start = max(0, min(column - _WIDEST // 2, len(text) - _WIDEST))
    cut = text[start : start + _WIDEST]
    column -= start
    if start + _WIDEST < len(text):
        cut += "…"
    return (f"…{cut}", column + 1) if start else (cut, column)


def _width(text: str) -> int:
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
