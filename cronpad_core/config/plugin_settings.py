"""The settings of plugins' types, checked by their own models; what a model refuses is reported at its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from cronpad_core.config.document import Path
from cronpad_core.config.problems import did_you_mean
from cronpad_core.config.table import Table, kind_of
from cronpad_core.domain.timing import JsonValue

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

__all__ = ["SECRET_KEY", "Types", "check_settings", "warn_of_secrets"]

_WANTED: Final = {
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "dict": "a table",
    "mapping": "a table",
    "model": "a table",
    "none": "nothing",
}
SECRET_KEY: Final = re.compile(r"(?i)(?:^|[_-])(?:password|passwd|secret|token|api[_-]?key|sign_with|authorization)(?:$|[_-])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Types:
    """What the loaded plugins bring: sinks, misfire policies and alert emitters with the models of their settings.

    ``unavailable`` says of a type why its plugin is not there.
    """

    sinks: Mapping[str, type[BaseModel]]
    misfires: Mapping[str, type[BaseModel] | None]
    unavailable: Mapping[str, str]
    emitters: Mapping[str, type[BaseModel]] = field(default_factory=dict)

    def refuse(self, table: Table, kind: str, name: str, known: Mapping[str, object], *at: str) -> None:
        """Reports a type that no loaded plugin brings."""
        failed = self.unavailable.get(name)
        if failed is not None:
            table.problem("CP124", f'the {kind} "{name}" is not available: {failed}', *at, label=f"known: {_listed(known)}")
            return
        hint = did_you_mean(name, [*known, *self.unavailable])
        table.problem("CP124", f'unknown {kind} "{name[:60]}"', *at, label=f"known: {_listed(known)}", hint=hint)


def _listed(known: Mapping[str, object]) -> str:
    return ", ".join(sorted(known)) or "none"


def check_settings(
    table: Table, settings: Mapping[str, JsonValue], model: type[BaseModel], where: Callable[[Path], Path], what: str
) -> None:
    """Reports all that ``model`` refuses of ``settings``; ``where`` gives the place below ``table`` of a path in them."""
    from pydantic import ValidationError

    allowed = [field.alias or name for name, field in model.model_fields.items()]
    guessed: list[str] = []
    if model.model_config.get("extra") != "allow":
        for key in settings:
            if key not in allowed and key not in model.model_fields:
                hint = did_you_mean(key, allowed)
                guessed += get_close_matches(key, allowed, n=1, cutoff=0.6)
                table.problem("CP101", f'unknown key "{key}" in {what}', *where((key,)), key=True, hint=hint)
    try:
        model.model_validate(dict(settings))
    except ValidationError as error:
        found: dict[Path, list[ErrorDetails]] = {}
        for detail in error.errors(include_url=False, include_context=False):
            loc = detail["loc"]
            # An unknown key was reported above, and a key that is missing because another is its misspelling is the same slip.
            said = len(loc) == 1 and (detail["type"] == "extra_forbidden" or (detail["type"] == "missing" and loc[0] in guessed))
            if not said:
                found.setdefault(_existing(settings, loc), []).append(detail)
        for path, details in found.items():
            _report(table, path, details, where, what, settings)
    except Exception as error:  # a plugin's own validator may raise anything
        table.problem("CP125", f"{what} refuses its settings: {type(error).__name__}: {error}")


def _existing(settings: Mapping[str, JsonValue], loc: tuple[str | int, ...]) -> Path:
    """The part of pydantic's location that the file has: behind it come the names of union members."""
    path: Path = ()
    value: JsonValue = dict(settings)
    for part in loc:
        if (isinstance(value, dict) and isinstance(part, str) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        ):
            value = value[part]  # type: ignore[index]  # the two cases above
            path = (*path, part)
        else:
            break
    return path


def _report(
    table: Table,
    loc: Path,
    details: list[ErrorDetails],
    where: Callable[[Path], Path],
    what: str,
    settings: Mapping[str, JsonValue],
) -> None:
    at = where(loc)
    name = ".".join(str(part) for part in loc) if loc else what
    first = details[0]
    if first["type"] == "missing":
        for detail in details:
            table.problem("CP121", f"{what} needs the key {'.'.join(str(part) for part in detail['loc'])}", *at, key=not at)
        return
    if first["type"] == "extra_forbidden":
        for detail in details:
            table.problem("CP101", f'unknown key "{detail["loc"][-1]}" in {what}', *at, detail["loc"][-1], key=True)
        return
    wanted = list(dict.fromkeys(word for detail in details if (word := _wanted(detail["type"]))))
    others = list(dict.fromkeys(_said(detail) for detail in details if not _wanted(detail["type"])))
    if wanted and not others:
        value: JsonValue = dict(settings)
        for part in loc:
            value = value[part]  # type: ignore[index]  # _existing walked the same way
        table.problem("CP120", f"{name} must be {' or '.join(wanted)}", *at, label=f"this is {kind_of(value)}")
        return
    table.problem("CP125", f"{name}: {'; '.join(others)}", *at)


def _wanted(kind: str) -> str | None:
    base, _, rest = kind.partition("_")
    return _WANTED.get(base) if rest in ("type", "parsing", "from_float", "required", "attributes_type") else None


def _said(detail: ErrorDetails) -> str:
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ").removeprefix("Input ")
    return message[:1].lower() + message[1:]


def warn_of_secrets(table: Table, settings: JsonValue, at: Path = ()) -> None:
    """Warns of texts that look like secrets; ``settings`` are as written, before variables are filled in."""
    items = settings.items() if isinstance(settings, dict) else enumerate(settings) if isinstance(settings, list) else ()
    for key, value in items:
        if isinstance(value, dict | list):
            warn_of_secrets(table, value, (*at, key))
        elif isinstance(value, str) and SECRET_KEY.search(str(key)) and not value.startswith("secret:") and "${" not in value:
            hint = 'write "secret:env:NAME" or "secret:file:/path"'
            table.problem("CP110", f"{key} is a secret in plain text", *at, key, key=True, hint=hint, warning=True)
