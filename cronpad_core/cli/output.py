"""Everything that is printed, and the only place that prints: results on stdout, messages on stderr.

Texts from jobs files, plugins and child processes are not trusted: whatever could move the cursor, set a title or turn the
reading direction is shown as an escape, never sent.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TextIO, TypeAlias

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.domain.errors import ConfigurationError, CronpadError
from cronpad_core.domain.timing import JsonValue

__all__ = ["Cell", "Output", "OutputClosed", "Styled", "safe", "show_error", "use_color"]

_CODES: Final = {"good": "32", "bad": "31", "warn": "33", "dim": "2", "strong": "1", "info": "36"}
_RICH_STYLES: Final = {"good": "green", "bad": "red", "warn": "yellow", "dim": "dim", "strong": "bold", "info": "cyan"}
_SIGPIPE_EXIT: Final = 141
_WRAPPED_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class Styled:
    """A text with a style by meaning: ``good``, ``bad``, ``warn``, ``dim``, ``strong`` or ``info``."""

    text: str
    style: str


Cell: TypeAlias = "str | Styled"


class OutputClosed(click.exceptions.Exit):
    """Whoever read stdout has gone; the command ends as a process that SIGPIPE killed."""

    def __init__(self) -> None:
        super().__init__(_SIGPIPE_EXIT)


class Output:
    """Prints for one invocation. Every text is made safe; a closed stdout raises :class:`OutputClosed`."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    @property
    def wants_json(self) -> bool:
        """Whether results are to be one JSON document."""
        return self._invocation.json

    def line(self, *parts: Cell) -> None:
        """One line of a result."""
        _write(sys.stdout, "".join(self._painted(part, sys.stdout) for part in parts))

    def text(self, text: str) -> None:
        """A result of several lines, as it is but for what is unsafe."""
        _write(sys.stdout, safe(text, lines=True).removesuffix("\n"))

    def raw(self, text: str) -> None:
        """A text of cronpad's own that another program reads, such as a completion script."""
        _write(sys.stdout, text.removesuffix("\n"))

    def document(self, thing: str, items: Sequence[Mapping[str, JsonValue]], **more: JsonValue) -> None:
        """``{"schema": "cronpad.<thing>/1", …, "items": [ … ]}``, in ASCII, so that nothing in it can act on a terminal."""
        _write(sys.stdout, json.dumps({"schema": f"cronpad.{thing}/1", **more, "items": list(items)}, indent=2))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Aligned columns under their titles; on a terminal long cells are wrapped, elsewhere a row is a line."""
        heads = [Styled(title, "strong") for title in columns]
        cells = [heads, *([cell if isinstance(cell, Styled) else Styled(cell, "") for cell in row] for row in rows)]
        if sys.stdout.isatty() and len(rows) <= _WRAPPED_ROWS:
            self._wrapped(cells)
        else:
            self._aligned(cells)

    def _aligned(self, rows: Sequence[Sequence[Styled]]) -> None:
        color = use_color(sys.stdout, self._invocation)
        texts = [[safe(cell.text) for cell in row] for row in rows]
        widths = [max(_width(text) for text in column) for column in zip(*texts, strict=True)]
        lines = []
        for row, shown in zip(rows, texts, strict=True):
            parts = [
                _paint(text, cell.style if color else "") + " " * (width - _width(text))
                for cell, text, width in zip(row, shown, widths, strict=True)
            ]
            lines.append("  ".join(parts).rstrip())
        _write(sys.stdout, "\n".join(lines))

    def _wrapped(self, rows: Sequence[Sequence[Styled]]) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        color = use_color(sys.stdout, self._invocation)
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        for row in rows:
            table.add_row(*[Text(safe(cell.text), style=_RICH_STYLES.get(cell.style, "")) for cell in row])
        console = Console(file=sys.stdout, force_terminal=color, no_color=not color, highlight=False, legacy_windows=False)
        with console.capture() as captured:
            console.print(table)
        _write(sys.stdout, "\n".join(line.rstrip() for line in captured.get().splitlines()))

    def say(self, text: str, style: str = "", *, level: int = 0) -> None:
        """A message on stderr, unless ``-q`` asks for less than ``level``."""
        if self.loud(level):
            with suppress(OSError):  # nobody is there to be told
                _write(sys.stderr, self._painted(Styled(safe(text, lines=True), style), sys.stderr, clean=True))

    def loud(self, level: int) -> bool:
        """Whether a message of this level is wanted."""
        return self._invocation.verbosity >= level

    def message_line(self, text: str) -> None:
        """One line on stderr that another program reads."""
        with suppress(OSError):  # nobody is there to be told
            _write(sys.stderr, text)

    def warn(self, text: str) -> None:
        """A warning on stderr."""
        self.say(f"warning: {text}", "warn")

    def _painted(self, part: Cell, stream: TextIO, *, clean: bool = False) -> str:
        text = part.text if isinstance(part, Styled) else part
        text = text if clean else safe(text)
        return _paint(text, part.style) if isinstance(part, Styled) and use_color(stream, self._invocation) else text


def show_error(error: CronpadError, invocation: Invocation) -> None:
    """The error and its mend on stderr; of a refused file all problems, as they were reported."""
    lines = []
    if isinstance(error, ConfigurationError) and error.report != error.message:
        lines.append(safe(error.report, lines=True).removesuffix("\n"))
    else:
        word = "\x1b[1;31merror:\x1b[0m" if use_color(sys.stderr, invocation) else "error:"
        lines.append(f"{word} {safe(error.message, lines=True)}")
    if error.hint:
        lines.append(f"  hint: {safe(error.hint, lines=True)}")
    with suppress(OSError):
        _write(sys.stderr, "\n".join(lines))


def use_color(stream: TextIO, invocation: Invocation) -> bool:
    """``--color`` decides, then ``NO_COLOR``, then ``FORCE_COLOR``, then whether the stream is a terminal that knows colour."""
    if invocation.color != "auto":
        return invocation.color == "always"
    environ = invocation.environ
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"


def safe(text: str, *, lines: bool = False) -> str:
    """The text with control and invisible formatting characters written out; line ends and tabs stay where ``lines``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if (lines and one in "\n\t") or not _unsafe(one) else _escape(one) for one in text)


def _paint(text: str, style: str) -> str:
    code = _CODES.get(style)
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def _width(text: str) -> int:
    """How many columns a terminal needs for a text that is safe."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in text)
    return len(text) + wide - sum(unicodedata.combining(one) != 0 for one in text)


def _unsafe(one: str) -> bool:
    # Cc: control; Cf: direction marks and other invisible ones; Cs: halves of a pair; Zl, Zp: line ends of Unicode.
    return unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")


def _write(stream: TextIO, text: str) -> None:
    try:
        try:
            print(text, file=stream, flush=True)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)
    except BrokenPipeError:
        if stream is not sys.stdout:
            raise
        with suppress(OSError, ValueError):
            # What is still buffered must go somewhere when the interpreter flushes at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise OutputClosed from None
