"""What both ends of the control socket agree on: where it is, how errors travel, and how large a line may be.

One JSON document is a line. A request is ``{"id", "op", "arguments"}``; its answer ``{"id", "ok": true, "result"}`` or
``{"id", "ok": false, "error": {"kind", "message", "hint"}}``. ``id`` is whatever the asker wrote. A ``kind`` is the word of an
error's class (``not_found``, ``configuration``, ``store_busy``, …); ``standby`` says that the process asked does not dispatch and
changed nothing, ``busy`` that it has too many clients.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from cronpad_core.domain import errors
from cronpad_core.domain.errors import ConfigurationError, CronpadError, NotRunningError, ScheduleError, TermRefusedError
from cronpad_core.domain.timing import JsonValue

__all__ = [
    "BUSY",
    "LINE_LIMIT",
    "SOCKET",
    "error_document",
    "error_of",
    "line_of",
    "parse_line",
    "reachable",
    "socket_name",
    "socket_path",
]

SOCKET: Final = "control.sock"

LINE_LIMIT: Final = 1024 * 1024
"""The longest line, in bytes, without its end."""

BUSY: Final = "busy"

_SCHEME: Final = "sqlite://"
_LONGEST_ADDRESS: Final = 103  # Linux takes 107 bytes and a NUL, other systems 103
_WORDS: Final[dict[str, type[CronpadError]]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Error")).lower(): getattr(errors, name) for name in errors.__all__
} | {"standby": TermRefusedError, BUSY: NotRunningError}
_KINDS: Final = {build: kind for kind, build in _WORDS.items() if kind != BUSY}


def socket_name(url: str) -> str:
    """The socket's file name for a state of that URL: two control databases in one directory have two."""
    stem = Path(url).name.removesuffix(".db") if url.endswith(".db") else "cronpad"
    return SOCKET if stem == "cronpad" else f"{stem}-{SOCKET}"


def socket_path(url: str) -> Path | None:
    """Where the socket of a state is, without its storage's plugin; ``None`` for a state that is in no directory of its own."""
    if not url.startswith(_SCHEME):
        return None
    place = Path("/" + unquote(url.removeprefix(_SCHEME)).lstrip("/"))
    return (place.parent if place.suffix == ".db" else place) / socket_name(url)


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A name of the socket that fits into an address, good while the context lasts. Raises ``OSError``."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


def line_of(document: Mapping[str, JsonValue]) -> bytes:
    """The document as a line. Raises ``ValueError`` where it is no plain JSON."""
    return json.dumps(document, allow_nan=False).encode() + b"\n"


def parse_line(line: bytes) -> dict[str, JsonValue]:
    """The document of a line. Raises ``ConfigurationError`` where there is none."""
    try:
        document = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError("the line is no JSON document") from error
    if not isinstance(document, dict):
        raise ConfigurationError("the line is no JSON object")
    return document


def _refuse(word: str) -> JsonValue:
    raise ValueError(f"{word} is no JSON")


def error_document(error: CronpadError) -> dict[str, JsonValue]:
    """The error as it travels."""
    kind = next(_KINDS[build] for build in type(error).__mro__ if build in _KINDS)
    document: dict[str, JsonValue] = {"kind": kind, "message": error.message, "hint": error.hint}
    if isinstance(error, ConfigurationError) and error.report != error.message:
        document["report"] = error.report
    return document


def error_of(document: JsonValue) -> CronpadError:
    """The error that travelled, of its class where that is known here, so that it ends a command with the same exit code."""
    if not isinstance(document, dict):
        return CronpadError("the answer has no error that can be read")
    kind, message, hint = str(document.get("kind")), str(document.get("message")), document.get("hint")
    hint = hint if isinstance(hint, str) else None
    build = _WORDS.get(kind, CronpadError)
    if build is ConfigurationError:
        report = document.get("report")
        return ConfigurationError(message, hint=hint, report=report if isinstance(report, str) else None)
    return ScheduleError(message, code="refused") if build is ScheduleError else build(message, hint=hint)
