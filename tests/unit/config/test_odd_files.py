"""What the formats can do and a jobs file must not: one message each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cronpad_core.config.jobsfile import LoadedFiles

Load = Callable[..., LoadedFiles]
Report = Callable[..., str]

GOOD = 'version = 1\n[[jobs]]\nname = "a"\nschedule = "* * * * *"\ncommand = "x"\n'


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: &a [*a]", "an alias stands inside itself"),
        ("a: !!python/object:os.system x", "the tag"),
        ("a: !secret x", "is not allowed here"),
        ("? [a]\n: 1", "a key must be plain text"),
        ("a: .nan", "is not a number"),
        ("a: 1\n---\nb: 1", "not valid YAML"),
        ("a: *b", "not valid YAML"),
        ("# nothing", "the file has no content"),
        ("a: [", "not valid YAML"),
        ("a: " + "[" * 500 + "]" * 500, "nested too deeply"),
        ("a: \x00", "not valid YAML"),
    ],
)
def test_odd_yaml(report: Report, text: str, data: str) -> None:
    """What YAML can do and a jobs file must not is refused with one message."""
    found = report(text, "jobs.yaml")
    assert data in found
    assert found.count("error[CP100]") == 1


def test_yaml_alias_bomb(report: Report) -> None:
    """A short file of aliases cannot make cronpad build endless data."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 9)]
    assert "too many aliases" in report("\n".join(lines), "jobs.yaml")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": 1e999}', "1e999 is not a number"),
        ('{"a": ' + "9" * 5000 + "}", "is not a number that can be used"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "[" * 100 + "]" * 100 + "}", "nested too deeply"),
        ("{'a': 1}", "double quotes"),
        ('{"a": "\\ud800"}', "half a surrogate pair"),
        ('{"a": 1} // x', "JSON has no comments"),
        ("\ufeff", "the file is empty"),
        ("{}".encode("utf-16"), "UTF-16"),
    ],
)
def test_odd_json(report: Report, content: str | bytes, words: str) -> None:
    """Numbers that are none, endless nesting, half characters: one message each."""
    found = report(content, "jobs.json")
    assert words in found
    assert found.count("error[CP100]") == 1


def test_byte_order_mark_is_accepted(load: Load) -> None:
    """Editors that write a UTF-8 mark do no harm, and columns do not count it."""
    assert len(load({"jobs.toml": "\ufeff" + GOOD}).specs) == 1
    assert len(load({"jobs.toml": GOOD.replace("\n", "\r\n")}).specs) == 1
