"""Printing: colour only where it is wanted, and nothing that is not trusted reaches a terminal as it is."""

from __future__ import annotations

import io
import json
import sys

import pytest

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output, Styled, safe, use_color


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("color", "environ", "terminal", "wanted"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "0"}, False, False),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_when_colour_is_used(color: str, environ: dict[str, str], terminal: bool, wanted: bool) -> None:
    """The flag decides, then NO_COLOR, then FORCE_COLOR, then the terminal."""
    stream = Terminal() if terminal else io.StringIO()
    assert use_color(stream, Invocation(color=color, environ=environ)) is wanted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("ü→日本", "ü→日本"),
        ("a\x1b]0;owned\x07b", "a\\x1b]0;owned\\x07b"),
        ("a\x9bm", "a\\x9bm"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
        ("\u200b", "\\u200b"),
    ],
)
def test_untrusted_text_is_escaped(text: str, shown: str) -> None:
    """Control characters, direction marks, odd line ends and half pairs are written out."""
    assert safe(text) == shown


def test_reports_keep_their_lines() -> None:
    """Line ends and tabs, nothing else."""
    assert safe("a\n\tb\x1b[1m", lines=True) == "a\n\tb\\x1b[1m"


def test_a_table_is_aligned_also_with_wide_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """A row is a line, without trailing blanks; colour does not move columns."""
    out = Output(Invocation(environ={}))
    out.table(("name", "is"), [("日本", "x"), ("a\x1b[2J", "long"), (Styled("q", "good"), "")])
    expected = ["name      is", "日本      x", "a\\x1b[2J  long", "q"]
    assert capsys.readouterr().out.splitlines() == expected


def test_a_wide_table_wraps_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is longer than the terminal."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    Output(Invocation(environ={"TERM": "dumb"}, color="never")).table(("a", "b"), [("word " * 20, "other " * 20)])
    lines = terminal.getvalue().splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 40


def test_a_document_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    """It reads back as it was, and nothing in it can act on a terminal."""
    Output(Invocation()).document("jobs", [{"name": "ü\x9b\u202e\x1b"}], total=1)
    text = capsys.readouterr().out
    assert text.isascii()
    assert "\x1b" not in text
    assert json.loads(text) == {"schema": "cronpad.jobs/1", "total": 1, "items": [{"name": "ü\x9b\u202e\x1b"}]}


def test_quiet_and_verbose_choose_messages(capsys: pytest.CaptureFixture[str]) -> None:
    """Results are printed all the same."""
    for invocation, said in ((Invocation(), "usual\n"), (Invocation(quiet=1), ""), (Invocation(verbose=1), "usual\nmore\n")):
        out = Output(invocation)
        out.say("usual")
        out.say("more", level=1)
        out.line("result")
        assert capsys.readouterr() == ("result\n", said)
