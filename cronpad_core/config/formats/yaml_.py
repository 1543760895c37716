"""YAML 1.2 as plain data, and the places of YAML and JSON: one tree of nodes serves both.

The data are built from the nodes here and not by ruamel's constructors: no dates, no binary, no tags of one's own, duplicate keys
refused, and aliases bounded.
"""

from __future__ import annotations

import math
import re
from typing import Final, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from cronpad_core.config.document import Path, Spans, SyntaxFault
from cronpad_core.domain.timing import JsonValue

__all__ = ["node_positions", "read_yaml"]

_MOST_NODES: Final = 2_000_000
_DEEPEST: Final = 64
_TAG: Final = "tag:yaml.org,2002:"
_INT: Final = re.compile(r"[-+]?(?:0o[0-7]+|0x[0-9a-fA-F]+|[0-9]+)\Z")


def read_yaml(text: str) -> JsonValue:
    """The file's data; raises ``SyntaxFault``."""
    node = _compose(text)
    if node is None:
        raise SyntaxFault("the file has no content", 0, hint="a jobs file needs at least version and jobs")
    return _Reader().value(node, 0)


def node_positions(text: str) -> dict[Path, Spans]:
    """The places of everything in a YAML or JSON text; empty where ruamel cannot read it."""
    try:
        node = _compose(text)
    except SyntaxFault:
        return {}
    found: dict[Path, Spans] = {}
    waiting: list[tuple[Path, Node, Node]] = [((), node, node)] if node is not None else []
    while waiting and len(found) < _MOST_NODES:
        path, key, value = waiting.pop()
        if len(path) > _DEEPEST:
            continue
        found[path] = Spans(key=_span(key), value=_span(value))
        if isinstance(value, MappingNode):
            for name, item in reversed(_pairs(value)):
                waiting.append(((*path, str(name.value)), name, item))
        elif isinstance(value, SequenceNode):
            for at, item in enumerate(value.value):
                waiting.append(((*path, at), item, item))
    return found


def _compose(text: str) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    try:
        return cast("Node | None", yaml.compose(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = str(error.problem or error.context or "not YAML")
        raise SyntaxFault(f"not valid YAML: {what}", mark.index if mark else 0) from None
    except ReaderError as error:
        raise SyntaxFault("not valid YAML: a control character", int(error.position)) from None
    except YAMLError as error:
        raise SyntaxFault(f"not valid YAML: {str(error).splitlines()[0]}", 0) from None
    except RecursionError:
        raise SyntaxFault("the file is nested too deeply", 0) from None
    except (ValueError, TypeError, AttributeError, LookupError, AssertionError):
        # ruamel has no bound on what odd input makes it raise.
        raise SyntaxFault("not valid YAML", 0) from None


def _span(node: Node) -> tuple[int, int]:
    return node.start_mark.index, node.end_mark.index


def _pairs(node: MappingNode) -> list[tuple[Node, Node]]:
    """The mapping's own pairs, after those that ``<<`` brings in."""
    merged: list[tuple[Node, Node]] = []
    own: list[tuple[Node, Node]] = []
    for key, value in node.value:
        if isinstance(key, ScalarNode) and key.tag == f"{_TAG}merge":
            sources = value.value if isinstance(value, SequenceNode) else [value]
            for source in sources:
                if isinstance(source, MappingNode) and source is not node:
                    merged = [*_own(source), *merged]
        else:
            own.append((key, value))
    return [*merged, *own]


def _own(node: MappingNode) -> list[tuple[Node, Node]]:
    return [(key, value) for key, value in node.value if key.tag != f"{_TAG}merge"]


class _Reader:
    """Turns nodes into data; counts them, because aliases can make a short text endless."""

    def __init__(self) -> None:
        self._count = 0
        self._open: set[int] = set()

    def value(self, node: Node, depth: int) -> JsonValue:
        self._count += 1
        if self._count > _MOST_NODES or depth > _DEEPEST or id(node) in self._open:
            what = (
                "an alias stands inside itself"
                if id(node) in self._open
                else "the file is nested too deeply, or has too many aliases"
            )
            raise SyntaxFault(what, *_span(node))
        if isinstance(node, ScalarNode):
            return _scalar(node)
        self._open.add(id(node))
        try:
            if isinstance(node, SequenceNode):
                return [self.value(item, depth + 1) for item in node.value]
            if isinstance(node, MappingNode):
                return self._mapping(node, depth)
        finally:
            self._open.discard(id(node))
        raise SyntaxFault("not a plain value", *_span(node))

    def _mapping(self, node: MappingNode, depth: int) -> dict[str, JsonValue]:
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                raise SyntaxFault("a key must be plain text", *_span(key))
            if key.tag == f"{_TAG}merge":
                sources = value.value if isinstance(value, SequenceNode) else [value]
                if not all(isinstance(source, MappingNode) for source in sources):
                    raise SyntaxFault("<< merges mappings only", *_span(value))
            if key.value in seen:
                raise SyntaxFault(f'"{key.value}" stands here twice', *_span(key))
            seen.add(key.value)
        return {str(key.value): self.value(value, depth + 1) for key, value in _pairs(node)}


def _scalar(node: ScalarNode) -> JsonValue:
    tag, text = str(node.tag).removeprefix(_TAG), str(node.value)
    match tag:
        case "str" | "timestamp" | "value":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            if _INT.match(text) and len(text) < 40:
                return int(text, 0) if "o" in text or "x" in text else int(text)
        case "float":
            try:
                number = float(text.replace(".inf", "inf").replace(".nan", "nan"))
            except ValueError:
                number = math.nan
            if math.isfinite(number):
                return number
        case _:
            raise SyntaxFault(
                f"the tag {node.tag} is not allowed here", *_span(node), hint="write a plain text, number, list or mapping"
            )
    raise SyntaxFault(f"{text[:40]} is not a number that can be used here", *_span(node), hint="put quotes around a text")
