"""Places: every value of every format is found where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cronpad_core.config import document as documents
from cronpad_core.config.formats import read_document
from cronpad_core.config.problems import Problems
from cronpad_core.domain.timing import JsonValue

TOML = """\
# é
top.dotted."quoted key" = "v1"
list = [ # comment
  "v2é", "v3",
  { a = "v4", b = { c = "v5" } },
]
[table."with.dot"]
k = "v6"
[[jobs]]
name = "v7"
[jobs.sink]
x.y = "v8"
[[jobs.inner]]
z = "v9"
[[jobs.inner]]
z = "v10"
[[jobs]]
name = "v11"
long = \"\"\"
v12\"\"\"
"""
YAML = """\
é: [v1, {a: "v2é"}]
jobs:
  - name: v3
    <<: &m {b: v4}
    deep:
      - [v5, v6]
      - 'v7'
  - *m
block: |
  v8
"""
JSON = '{"é": ["v1", {"a": "v2"}],\n\t"jobs": [\n\t\t{"name": "v3é"}, {"n": {"m": "v\\u0034"}}\n\t]}'


def _leaves(data: JsonValue, path: documents.Path = ()) -> Iterator[tuple[documents.Path, str]]:
    if isinstance(data, str):
        yield path, data
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from _leaves(value, (*path, key))


@pytest.mark.parametrize(("name", "text"), [("a.toml", TOML), ("a.yaml", YAML), ("a.json", JSON)])
def test_every_value_and_key(tmp_path: Path, name: str, text: str) -> None:
    """The characters at a value's place are the value, and those at its key's place the key."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    problems = Problems()
    document = read_document(path, problems, environ={})
    assert document is not None
    leaves = list(_leaves(document.data))
    assert len(leaves) > 3
    lines = text.split("\n")
    for at, value in leaves:
        place = document.locate(at)
        shown = lines[place.line - 1][place.column - 1 :][: place.length]
        assert value.strip() in shown or shown in ('"""', "|") or "\\u" in shown, (at, shown)
        if isinstance(at[-1], str):
            place = document.locate(at, key=True)
            assert at[-1] in lines[place.line - 1][place.column - 1 :][: place.length], at


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    """What the file does not have is answered with its nearest parent."""
    path = tmp_path / "a.toml"
    path.write_text('[a]\nb = "c"\n')
    document = read_document(path, Problems(), environ={})
    assert document is not None
    assert document.locate(("a", "b", "x", 3)) == document.locate(("a", "b"))
    assert document.locate(("nothing",)).line == 1


def test_a_part_of_a_text_with_escapes(tmp_path: Path) -> None:
    """A part is found by its text where escapes make positions differ; where it is there twice, the whole text is meant."""
    path = tmp_path / "a.json"
    path.write_text('{"a": "x\\ty 61 z", "b": "\\t61 61"}')
    document = read_document(path, Problems(), environ={})
    assert document is not None
    assert str(document.locate(("a",), within=(4, 6), raw="x\ty 61 z")).endswith(":1:13")
    assert document.locate(("b",), within=(1, 3), raw="\t61 61").length == 9
