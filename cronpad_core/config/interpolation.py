"""``${NAME}`` in the texts of a file: filled from the environment, everywhere but in commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from cronpad_core.config.document import Path
from cronpad_core.domain.timing import JsonValue

__all__ = ["Undefined", "fill"]

_PART: Final = re.compile(r"\$\$|\$\{(?P<body>[^}]*)(?P<end>\}?)")
_BODY: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<how>:-|:\?)(?P<rest>.*))?\Z", re.DOTALL)

Undefined = Callable[[Path, str, tuple[int, int], str, "str | None"], None]
"""Told of each reference that cannot be filled: where, the text, the part of it, what is wrong, and the mend."""


def fill(
    data: JsonValue, environ: Mapping[str, str], report: Undefined, *, leave: Callable[[Path], bool], at: Path = ()
) -> JsonValue:
    """The data with every ``${NAME}``, ``${NAME:-default}`` and ``${NAME:?message}`` filled, and ``$$`` as a dollar.

    What lies below a path for which ``leave`` answers true stays as it is.
    """
    if leave(at):
        return data
    match data:
        case str():
            return _fill_text(data, environ, report, at) if "$" in data else data
        case list():
            return [fill(item, environ, report, leave=leave, at=(*at, index)) for index, item in enumerate(data)]
        case dict():
            return {key: fill(item, environ, report, leave=leave, at=(*at, key)) for key, item in data.items()}
        case _:
            return data


def _fill_text(text: str, environ: Mapping[str, str], report: Undefined, at: Path) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        body = _BODY.match(match["body"])
        if body is None or not match["end"]:
            report(at, text, match.span(), f"{match[0]} is not a variable", "write ${NAME}, and $$ for a dollar")
            return ""
        value = environ.get(body["name"])
        if body["how"] is None:
            if value is None:
                hint = f"set it, or give a default: ${{{body['name']}:-…}}"
                report(at, text, match.span(), f"the variable {body['name']} is not set", hint)
            return value or ""
        if value:
            return value
        if body["how"] == ":-":
            return str(body["rest"])
        report(at, text, match.span(), f"the variable {body['name']} is not set: {body['rest'] or 'it is needed'}", None)
        return ""

    return _PART.sub(replace, text)
