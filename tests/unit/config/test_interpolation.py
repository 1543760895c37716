"""``${NAME}``: where it is filled, and what is said where it cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cronpad_core.config.interpolation import fill
from cronpad_core.config.jobsfile import LoadedFiles

Load = Callable[..., LoadedFiles]
Report = Callable[..., str]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "1"),
        ("x${A}y${A}", "x1y1"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", "d"),
        ("${NONE:-d e}", "d e"),
        ("${NONE:-}", ""),
        ("${A:?needed}", "1"),
        ("$$", "$"),
        ("$${A}", "${A}"),
        ("$$$${A}", "$${A}"),
        ("$A $ 5$", "$A $ 5$"),
        ("${NONE:-$$}", "$$"),
    ],
)
def test_forms(text: str, expected: str) -> None:
    """Each form gives what shells and Compose give."""
    problems: list[object] = []
    environ = {"A": "1", "EMPTY": ""}
    assert fill([text], environ, lambda *said: problems.append(said), leave=lambda _: False) == [expected]
    assert problems == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${NONE}", "the variable NONE is not set"),
        ("${NONE:?set it to the host}", "the variable NONE is not set: set it to the host"),
        ("${EMPTY:?}", "the variable EMPTY is not set: it is needed"),
        ("${}", "${} is not a variable"),
        ("${1}", "${1} is not a variable"),
        ("${NONE", "${NONE is not a variable"),
        ("${A B}", "is not a variable"),
    ],
)
def test_what_cannot_be_filled(text: str, words: str) -> None:
    """Each reference that cannot be filled is reported with its part of the text."""
    said: list[tuple[object, ...]] = []
    fill({"a": f"x{text}"}, {"EMPTY": ""}, lambda *problem: said.append(problem), leave=lambda _: False)
    ((path, whole, within, message, _),) = said
    assert (path, whole, within) == (("a",), f"x{text}", (1, 1 + len(text)))
    assert words in str(message)


def test_where(load: Load) -> None:
    """Names, schedules, durations and settings are filled, once; commands and ``x-`` keys are not."""
    text = """\
version = 1
x-a = "${NOT_SET}"
[defaults]
timeout = "${T}"
[[jobs]]
name = "a-${A}"
schedule = "${S}"
command = "echo ${NOT_SET} $$"
x-b = ["${NOT_SET}"]
[[jobs]]
name = "b"
schedule = ["${S}"]
sink = { type = "command", command = ["echo", "${NOT_SET}"], env = { X = "${A}" } }
[[jobs]]
name = "c"
schedule = "@daily"
sink = { type = "webhook", url = "${DOUBLE}" }
"""
    environ = {"T": "5m", "A": "1", "S": "0 4 * * *", "DOUBLE": "${A}$$"}
    first, second, third = (declared.spec for declared in load({"jobs.toml": text}, environ=environ).specs)
    assert (first.name, first.schedule.texts, first.timeout_ms) == ("a-1", ("0 4 * * *",), 300_000)
    assert first.sink.settings == {"command": "echo ${NOT_SET} $$"}
    assert second.sink.settings == {"command": ["echo", "${NOT_SET}"], "env": {"X": "1"}}
    assert third.sink.settings == {"url": "${A}$$"}


def test_one_message_for_an_unset_variable(report: Report) -> None:
    """What is left of an unfilled text is not reported again."""
    text = report(
        'version = 1\n[[jobs]]\nname = "${A}"\nschedule = "${B}"\ntimeout = "${C}"\nsink = { type = "${D}" }\n'
        'misfire = "${E}"\noverlap = "${F}"\n'
    )
    assert text.count("error[") == text.count("error[CP111]") == 6


def test_a_filled_schedule_is_shown_where_it_stands(report: Report) -> None:
    """A bad text that came out of a variable is shown at the variable."""
    text = report('version = 1\n[[jobs]]\nname = "a"\nschedule = "${S}"\ncommand = "x"\n', environ={"S": "61 * * * *"})
    assert "jobs.toml:4:12" in text
    assert "61 is not in 0-59" in text
