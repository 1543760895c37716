"""JSON as plain data; places are found through the YAML reader, which knows them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NoReturn

from cronpad_core.config.document import Path, Spans, SyntaxFault
from cronpad_core.domain.timing import JsonValue

__all__ = ["json_positions", "read_json"]


class _DuplicateKey(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def read_json(text: str) -> JsonValue:
    """The file's data; raises ``SyntaxFault``."""
    try:
        data: JsonValue = json.loads(
            text, object_pairs_hook=_pairs, parse_constant=_refuse, parse_float=_number, parse_int=_whole
        )
    except json.JSONDecodeError as error:
        raise _fault(error, text) from None
    except _DuplicateKey as error:
        start, end = _second(text, error.key)
        raise SyntaxFault(f'"{error.key}" stands here twice', start, end) from None
    except _OddNumber as error:
        at = text.find(str(error))
        raise SyntaxFault(f"{str(error)[:40]} is not a number that can be used here", at, at + len(str(error))) from None
    except RecursionError:
        raise SyntaxFault("the file is nested too deeply", 0) from None
    return data


def json_positions(text: str) -> Mapping[Path, Spans]:
    """The places of everything in the file."""
    from cronpad_core.config.formats.yaml_ import node_positions

    return node_positions(text)


def _fault(error: json.JSONDecodeError, text: str) -> SyntaxFault:
    at = error.pos
    # Up to Python 3.12 the bracket is blamed, from 3.13 on the comma before it.
    comma = at if text[at : at + 1] == "," else len(text[:at].rstrip()) - 1
    if text[comma : comma + 1] == "," and text[comma + 1 :].lstrip()[:1] in ("}", "]"):
        return SyntaxFault("not valid JSON: a comma before a closing bracket", comma, hint="remove it")
    hint = None
    if text[at : at + 1] == "'":
        hint = "JSON texts stand in double quotes"
    elif text[at : at + 1] in ("#", "/"):
        hint = "JSON has no comments; TOML and YAML do"
    message = error.msg[0].lower() + error.msg[1:]
    return SyntaxFault(f"not valid JSON: {message}", at, hint=hint)


class _OddNumber(ValueError):
    pass


def _pairs(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(key)
            seen.add(key)
    return found


def _refuse(word: str) -> NoReturn:
    raise _OddNumber(word)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _OddNumber(text)
    return number


def _whole(text: str) -> int:
    # int() on thousands of digits takes quadratic time, and nothing here is that large.
    if len(text) > 40:
        raise _OddNumber(text)
    return int(text)


def _second(text: str, key: str) -> tuple[int, int]:
    """The second of two equal keys in one object: found by reading the nodes again."""
    from cronpad_core.config.formats.yaml_ import read_yaml

    try:
        read_yaml(text)
    except SyntaxFault as fault:
        if f'"{key}"' in fault.message:
            return fault.start, fault.end
    return 0, 1
