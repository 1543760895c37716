"""Texts with fixed names in double braces: no expressions, no attributes, no calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from cronpad_core.api import Delivery, JsonValue, from_ms

__all__ = ["NAMES", "LARGEST", "TemplateError", "check", "fill", "fill_value", "texts_in", "values_of"]

LARGEST: Final = 64 * 1024
"""The most bytes that a filled text may have."""

NAMES: Final = ("job.id", "job.name", "workspace", "run.id", "trigger", "scheduled_at", "idempotency_key")
"""What a text may name, besides ``params.NAME``: all of it the same over the retries of a run."""

_PARAMETER: Final = re.compile(r"params\.[A-Za-z_][A-Za-z0-9_-]*")
_FIELD: Final = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)


class TemplateError(ValueError):
    """A text cannot be filled."""


def check(text: str) -> str:
    """The text, if all that it names is known. Raises :class:`TemplateError`."""
    for field in _FIELD.finditer(text):
        if field[1] not in NAMES and _PARAMETER.fullmatch(field[1]) is None:
            known = ", ".join(NAMES)
            raise TemplateError(f"unknown name {{{{ {field[1][:40]} }}}} in a template; known: {known} and params.NAME")
    return text


def values_of(delivery: Delivery, message_id: str) -> dict[str, JsonValue]:
    """What the names stand for in one delivery; ``message_id`` is its idempotency key."""
    values: dict[str, JsonValue] = {
        "job.id": delivery.job_id,
        "job.name": delivery.job_name,
        "workspace": delivery.workspace,
        "run.id": delivery.run_id,
        "trigger": delivery.trigger.name.lower(),
        "scheduled_at": from_ms(delivery.slot_at_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "idempotency_key": message_id,
    }
    if isinstance(delivery.payload, Mapping):
        values |= {f"params.{name}": value for name, value in delivery.payload.items()}
    return values


def fill(text: str, values: Mapping[str, JsonValue]) -> str:
    """The text with each name replaced; what is put in is not looked at again. Raises :class:`TemplateError`."""
    if "{{" not in text:
        return text
    filled = _FIELD.sub(lambda field: _said(_value(field[1], values)), text)
    if len(filled.encode("utf-8", "surrogatepass")) > LARGEST:
        raise TemplateError(f"a filled template is larger than {LARGEST // 1024} KiB")
    return filled


def fill_value(value: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """A JSON value with the texts in it filled; a text that is one name and nothing else becomes that value, whatever its kind."""
    if isinstance(value, str):
        field = _FIELD.fullmatch(value)
        return _value(field[1], values) if field is not None and "{{" not in field[1] else fill(value, values)
    if isinstance(value, list):
        return [fill_value(one, values) for one in value]
    if isinstance(value, dict):
        return {name: fill_value(one, values) for name, one in value.items()}
    return value


def texts_in(value: JsonValue) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts_in(one)


def _value(name: str, values: Mapping[str, JsonValue]) -> JsonValue:
    if name not in values:
        raise TemplateError(f"the run has no {name}: give it with --payload, or take it out of the template")
    return values[name]


def _said(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
