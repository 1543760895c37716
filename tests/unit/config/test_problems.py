"""Problems for programs, and the codes that the module's table lists."""

from __future__ import annotations

import re
from pathlib import Path

from cronpad_core.config import problems as module
from cronpad_core.config.problems import Place, Problem, Problems, Severity, render


def test_to_json() -> None:
    """A problem as JSON has a stable set of keys."""
    problem = Problem(code="CP101", message="m", place=Place(file="f", line=1, column=2, length=3, text="abcde"), job="j")
    assert Problems([problem]).to_json() == [
        {
            "code": "CP101",
            "severity": "error",
            "message": "m",
            "file": "f",
            "line": 1,
            "column": 2,
            "length": 3,
            "label": "",
            "job": "j",
            "hint": None,
        }
    ]


def test_warnings_are_printed_as_such() -> None:
    """A warning says so, and a control character cannot reach the terminal."""
    place = Place(file="f\x1b", line=9, column=1, length=1, text="\x1b[31mx")
    text = render(Problem(code="CP104", message="m\x07", place=place, severity=Severity.WARNING))
    assert text.startswith("warning[CP104]: m")
    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_caret_beyond_the_line_still_shows() -> None:
    """The end of a line can be pointed at."""
    text = render(Problem(code="CP100", message="m", place=Place(file="f", line=3, column=4, length=1, text="abc")))
    assert text.splitlines()[-1] == "  │    ^"


def test_every_code_is_in_the_table() -> None:
    """The codes that the room uses are the codes that the table explains."""
    room = Path(module.__file__).parent
    used = {code for path in room.rglob("*.py") for code in re.findall(r'"(CP\d{3})"', path.read_text(encoding="utf-8"))}
    assert module.__doc__ is not None
    assert used == set(re.findall(r"^(CP\d{3})", module.__doc__, re.MULTILINE))
