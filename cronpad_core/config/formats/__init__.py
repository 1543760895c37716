"""The formats of a jobs file: each reads a text into plain data, and finds places when there is something to show."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Final

from cronpad_core.config.document import Document, Path, SyntaxFault
from cronpad_core.config.formats.crontab import looks_like_crontab, read_crontab
from cronpad_core.config.formats.json_ import json_positions, read_json
from cronpad_core.config.problems import Place, Problem, Problems
from cronpad_core.domain.timing import JsonValue

__all__ = ["FORMATS", "read_document"]

FORMATS: Final[Mapping[str, str]] = {
    ".json": "json",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".crontab": "crontab",
    ".cron": "crontab",
}
_LARGEST: Final = 64 * 1024 * 1024
_DEEPEST: Final = 64
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TOML_LINE: Final = re.compile(r"(?m)^\s*(?:\[\[?[\w.\"'-]+\]\]?\s*(?:#.*)?$|[\w.\"'-]+\s*=)")


def read_document(
    path: FilePath, problems: Problems, *, environ: Mapping[str, str], system: bool = False, empty: bool = False
) -> Document | None:
    """The file's document, or ``None`` after its problems were added. ``system``: crontab lines have a user column.

    ``empty``: a file without content is an empty table.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        problems.add(Problem(code="CP100", message="no such file", place=Place(file=name)))
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problems.add(Problem(code="CP100", message=f"the file cannot be read: {reason}", place=Place(file=name)))
        return None
    if len(content) > _LARGEST:
        problems.add(Problem(code="CP100", message="the file is larger than 64 MiB", place=Place(file=name)))
        return None
    text = _decode(content, name, problems)
    if text is None:
        return None
    if not text.strip():
        if empty:
            return Document(name=name, kind="toml", text=text, data={}, positions=lambda _: {})
        hint = "'cronpad init' writes a commented jobs file"
        problems.add(Problem(code="CP100", message="the file is empty", place=Place(file=name), hint=hint))
        return None
    kind = _kind_of(path, text)
    if kind == "crontab":
        return read_crontab(name, text, problems, environ=environ, system=system)
    return _read(name, kind, text, problems)


def _decode(content: bytes, name: str, problems: Problems) -> str | None:
    if content.startswith(_UTF16):
        message, hint = "the file is UTF-16, not UTF-8", "save it as UTF-8"
        problems.add(Problem(code="CP100", message=message, place=Place(file=name), hint=hint))
        return None
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode()
        rest = content[error.start :].split(b"\n", 1)[0].decode(errors="replace")
        place = Document(name=name, kind="", text=before + rest, data=None, positions=lambda _: {}).at(
            len(before), len(before) + 1
        )
        label = f"the byte 0x{content[error.start]:02x} is not UTF-8"
        problems.add(
            Problem(code="CP100", message="the file is not UTF-8 text", place=place, label=label, hint="save it as UTF-8")
        )
        return None
    return text


def _kind_of(path: FilePath, text: str) -> str:
    kind = FORMATS.get(path.suffix.lower())
    if kind is not None:
        return kind
    if path.name.lower() == "crontab":
        return "crontab"
    if text.lstrip()[0] in "{[" and not _TOML_LINE.search(text.lstrip().split("\n", 1)[0]):
        return "json"
    if looks_like_crontab(text):
        return "crontab"
    return "toml" if _TOML_LINE.search(text) else "yaml"


def _read(name: str, kind: str, text: str, problems: Problems) -> Document | None:
    positions = json_positions
    # YAML and TOML readers are loaded only for files of their kind: the quick commands read JSON without them.
    if kind == "yaml":
        from cronpad_core.config.formats.yaml_ import node_positions as positions
        from cronpad_core.config.formats.yaml_ import read_yaml as read
    elif kind == "toml":
        from cronpad_core.config.formats.toml_ import read_toml as read
        from cronpad_core.config.formats.toml_ import toml_positions as positions
    else:
        read = read_json
    try:
        data = read(text)
    except SyntaxFault as fault:
        empty = Document(name=name, kind=kind, text=text, data=None, positions=lambda _: {})
        place = empty.at(fault.start, fault.end)
        problems.add(Problem(code="CP100", message=fault.message, place=place, label=fault.label, hint=fault.hint))
        return None
    document = Document(name=name, kind=kind, text=text, data=data, positions=positions)
    odd = _odd_value(data)
    if odd is not None:
        path, message = odd
        problems.add(Problem(code="CP100", message=message, place=document.locate(path)))
        return None
    return document


def _odd_value(data: JsonValue) -> tuple[Path, str] | None:
    """The first value that is nested too deeply, or a text that is half a character (JSON can write one)."""
    waiting: list[tuple[Path, JsonValue]] = [((), data)]
    while waiting:
        path, value = waiting.pop()
        if len(path) > _DEEPEST:
            return path[:8], "the file is nested too deeply"
        if isinstance(value, str):
            if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
                return path, "the text has half a surrogate pair, which is no character"
        elif isinstance(value, dict):
            for key, item in value.items():
                if not key.isascii() and any("\ud800" <= char <= "\udfff" for char in key):
                    return path, f"the key {json.dumps(key)} has half a surrogate pair, which is no character"
                waiting.append(((*path, key), item))
        elif isinstance(value, list):
            waiting.extend(((*path, at), item) for at, item in enumerate(value))
    return None
