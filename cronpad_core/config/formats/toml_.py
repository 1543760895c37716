"""TOML as plain data, with the places through tree-sitter, which is loaded only when there is an error to show."""

from __future__ import annotations

import math
import re
import tomllib
from bisect import bisect_left
from collections.abc import Mapping
from datetime import date, datetime, time
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from cronpad_core.config.document import Path, Span, Spans, SyntaxFault
from cronpad_core.domain.timing import JsonValue

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["read_toml", "toml_positions"]

_WHERE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_toml(text: str) -> JsonValue:
    """The file's data, dates as texts; raises ``SyntaxFault``."""
    try:
        return _plain(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise _fault(str(error), text) from None
    except _OddNumber as error:
        raise SyntaxFault(f"{error} is not a number that can be used here", max(0, text.find(str(error)))) from None
    except RecursionError:
        raise SyntaxFault("the file is nested too deeply", 0) from None
    except ValueError:
        # int() refuses thousands of digits.
        raise SyntaxFault("a number in the file is too long", 0) from None


class _OddNumber(ValueError):
    pass


def _plain(value: object) -> JsonValue:
    match value:
        case None | bool() | str():
            return value
        case int():
            return value
        case float():
            if not math.isfinite(value):
                raise _OddNumber(value)
            return value
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            raise TypeError(f"TOML gave a {type(value).__name__}")


def _fault(message: str, text: str) -> SyntaxFault:
    where = _WHERE.search(message)
    what = _WHERE.sub("", message)
    what = what[:1].lower() + what[1:]
    at = len(text.rstrip())
    if where and where[1]:
        # tomllib counts lines of the text with \r\n already made \n, and columns are those of the same line.
        lines = text.split("\n")
        at = sum(len(line) + 1 for line in lines[: int(where[1]) - 1]) + int(where[2]) - 1
        if what == "cannot overwrite a value":
            # It stands behind the value; the key at the start of the line is what is meant.
            line = lines[int(where[1]) - 1]
            at += len(line) - len(line.lstrip()) - int(where[2]) + 1
            key = line.strip().partition("=")[0].strip().strip("[] ")
            return SyntaxFault(f"{key} is set twice", at, at + max(1, len(key)))
    return SyntaxFault(f"not valid TOML: {what}", at)


def toml_positions(text: str) -> Mapping[Path, Spans]:
    """The places of everything in the file."""
    import tree_sitter
    import tree_sitter_toml

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language()))
    return _Walk(text).document(parser.parse(text.encode()).root_node)


class _Walk:
    """Follows tables, arrays of tables and dotted keys the way TOML reads them."""

    def __init__(self, text: str) -> None:
        self._bytes = text.encode()
        self._ascii = text.isascii()
        # The tree counts bytes; how many of them the first n characters take gives the characters back.
        self._ends = [] if self._ascii else [0, *accumulate(len(char.encode()) for char in text)]
        self._found: dict[Path, Spans] = {(): Spans(key=(0, 1), value=(0, 1))}
        self._last: dict[Path, int] = {}

    def document(self, root: Node) -> Mapping[Path, Spans]:
        for node in root.children:
            match node.type:
                case "pair":
                    self._pair((), node)
                case "table":
                    self._table(node, self._header(node, array=False))
                case "table_array_element":
                    self._table(node, self._header(node, array=True))
                case _:
                    pass
        return self._found

    def _header(self, node: Node, *, array: bool) -> Path:
        names = node.named_children[0]
        span = self._span(names)
        path: Path = ()
        keys = self._keys(names)
        for at, key in enumerate(keys):
            path = (*path, key)
            last = at == len(keys) - 1
            if array and last:
                self._found.setdefault(path, Spans(key=span, value=span))
                self._last[path] = self._last.get(path, -1) + 1
            if path in self._last:
                path = (*path, self._last[path])
            self._found.setdefault(path, Spans(key=span, value=span))
        return path

    def _table(self, node: Node, path: Path) -> None:
        for child in node.named_children[1:]:
            if child.type == "pair":
                self._pair(path, child)

    def _pair(self, path: Path, node: Node) -> None:
        children = [child for child in node.named_children if child.type != "comment"]
        if len(children) < 2:
            return
        span = self._span(children[0])
        for key in self._keys(children[0]):
            path = (*path, key)
            self._found.setdefault(path, Spans(key=span, value=span))
        self._value(path, span, children[1])

    def _value(self, path: Path, key: Span, node: Node) -> None:
        self._found[path] = Spans(key=key, value=self._span(node))
        items = [child for child in node.named_children if child.type != "comment"]
        if node.type == "inline_table":
            for child in items:
                self._pair(path, child)
        elif node.type == "array":
            for at, child in enumerate(items):
                self._value((*path, at), self._span(child), child)

    def _keys(self, node: Node) -> list[str]:
        if node.type == "dotted_key":
            return [key for child in node.named_children for key in self._keys(child)]
        raw = self._bytes[node.start_byte : node.end_byte].decode()
        if node.type != "quoted_key":
            return [raw]
        try:
            return list(tomllib.loads(f"{raw} = 1"))
        except tomllib.TOMLDecodeError:
            return [raw]

    def _span(self, node: Node) -> Span:
        if self._ascii:
            return node.start_byte, node.end_byte
        return bisect_left(self._ends, node.start_byte), bisect_left(self._ends, node.end_byte)
