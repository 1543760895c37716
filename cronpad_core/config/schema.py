"""The JSON Schema of a native jobs file, with the settings of the loaded plugins in it, so that editors complete them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from cronpad_core.config.rules import MOST_RETRIES
from cronpad_core.domain.job import Guarantee
from cronpad_core.domain.limits import WORKSPACE_NAME
from cronpad_core.domain.overlap import BOUNDED, NO_BOUND, OverlapPolicy
from cronpad_core.domain.timing import JsonValue
from cronpad_core.schedules.changes import FoldRule, GapRule

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["jobs_schema"]

Schema = dict[str, JsonValue]

_NONE: Final[Mapping[str, type[BaseModel]]] = {}

_TEXT: Final[Schema] = {"type": "string", "minLength": 1}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}
_DURATION: Final[Schema] = {
    "type": "string",
    "description": "A number with a unit (ms, s, m, h, d, w), or several: 90s, 1h30m.",
    "pattern": r"^\s*([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+\s*$|\$\{",
}


def jobs_schema(
    sinks: Mapping[str, type[BaseModel]],
    misfires: Mapping[str, type[BaseModel] | None],
    emitters: Mapping[str, type[BaseModel]] = _NONE,
) -> Schema:
    """The schema (draft 2020-12) of a jobs file whose sinks, misfire policies and alert emitters are the given ones."""
    definitions: Schema = {}
    shared = _shared(misfires, definitions)
    job: Schema = {
        "type": "object",
        "required": ["name", "schedule"],
        "anyOf": [{"required": ["command"]}, {"required": ["sink"]}],
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^/]+$"},
            "id": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$"},
            "schedule": _schedule(),
            "command": {"anyOf": [_TEXT, {"type": "array", "items": {"type": "string"}, "minItems": 1}]},
            "sink": _sink(sinks, definitions),
            **shared,
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cronpad jobs file",
        **_closed(
            {
                "type": "object",
                "required": ["version"],
                "properties": {
                    "version": {"const": 1},
                    "defaults": _closed({"type": "object", "properties": shared}),
                    "jobs": {"type": "array", "items": _closed(job)},
                    "alerts": {"type": "object", "additionalProperties": _alert(emitters, definitions)},
                },
            }
        ),
        "$defs": definitions,
    }


def _closed(schema: Schema) -> Schema:
    return {**schema, "patternProperties": {"^x-": True}, "additionalProperties": False}


def _shared(misfires: Mapping[str, type[BaseModel] | None], definitions: Schema) -> Schema:
    retry = _closed(
        {
            "type": "object",
            "properties": {
                "max": {"type": "integer", "minimum": 0, "maximum": MOST_RETRIES},
                "base": _DURATION,
                "factor": {"type": "number", "minimum": 1},
                "cap": _DURATION,
                "jitter": {"type": "number", "minimum": 0, "maximum": 1},
                "deadline": _DURATION,
            },
        }
    )
    return {
        "timezone": _TEXT,
        "dst": _dst(),
        **{key: _DURATION for key in ("timeout", "kill_grace", "jitter", "offset", "grace")},
        "retry": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": MOST_RETRIES}, retry]},
        "overlap": _overlap(),
        "concurrency": _concurrency(),
        "misfire": _misfire(misfires, definitions),
        "guarantee": _words(Guarantee),
        "sla": _closed({"type": "object", "properties": {"start_within": _DURATION, "finish_within": _DURATION}}),
        "tags": _TEXTS,
        "alerts": _TEXTS,
        "workspace": {"type": "string", "pattern": rf"^{WORKSPACE_NAME}$|\$\{{"},
    }


def _words(words: type[OverlapPolicy] | type[Guarantee] | type[GapRule] | type[FoldRule]) -> Schema:
    return {"enum": [word.value for word in words]}


def _overlap() -> Schema:
    """A word, or a table in which ``max`` goes with some policies only; without a policy it is that of the defaults."""
    most: Schema = {"type": "integer", "minimum": 1, "maximum": NO_BOUND}
    bounded: JsonValue = [policy.value for policy in BOUNDED]
    others: JsonValue = [policy.value for policy in OverlapPolicy if policy not in BOUNDED]
    return {
        "anyOf": [
            _words(OverlapPolicy),
            _closed({"type": "object", "properties": {"policy": {"enum": bounded}, "max": most}}),
            _closed({"type": "object", "required": ["policy"], "properties": {"policy": {"enum": others}, "max": {"const": 1}}}),
        ]
    }


def _concurrency() -> Schema:
    most: Schema = {"type": "integer", "minimum": 1, "maximum": NO_BOUND}
    key: Schema = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^/]+$"}
    return {"anyOf": [most, _closed({"type": "object", "properties": {"max": most, "key": key}})]}


def _dst() -> Schema:
    table = _closed({"type": "object", "properties": {"gap": _words(GapRule), "fold": _words(FoldRule)}})
    return {"anyOf": [{"const": "cron"}, table]}


def _schedule() -> Schema:
    texts: Schema = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}
    kinds: Schema = {kind: texts for kind in ("cron", "every", "at", "text")}
    table = _closed({"type": "object", "properties": {**kinds, "timezone": _TEXT, "dst": _dst()}})
    return {"anyOf": [*cast("list[JsonValue]", texts["anyOf"]), table]}


def _model(kind: str, name: str, model: type[BaseModel] | None, extra: Schema, definitions: Schema) -> Schema:
    """Puts the model under ``$defs``, with the keys that the table itself has, and answers a reference to it."""
    schema: Schema = {"type": "object", "properties": {}}
    if model is not None:
        prefix = f"#/$defs/{kind}.{name}."
        schema = model.model_json_schema(ref_template=f"{prefix}{{model}}")
        for inner, definition in cast("Schema", schema.pop("$defs", {})).items():
            definitions[f"{kind}.{name}.{inner}"] = definition
    schema["properties"] = {**extra, **cast("Schema", schema.get("properties") or {})}
    definitions[f"{kind}.{name}"] = {**schema, "patternProperties": {"^x-": True}}
    return {"$ref": f"#/$defs/{kind}.{name}"}


def _sink(sinks: Mapping[str, type[BaseModel]], definitions: Schema) -> Schema:
    choices: list[JsonValue] = []
    for name, model in sorted(sinks.items()):
        reference = _model("sink", name, model, {"type": {"const": name}}, definitions)
        if name == "command":
            # The job's own command may stand beside the table.
            found = cast("Schema", definitions["sink.command"])
            found["required"] = [key for key in cast("list[str]", found.get("required") or []) if key != "command"]
        choices.append(reference)
    return {"type": "object", "anyOf": choices} if choices else {"type": "object"}


def _misfire(misfires: Mapping[str, type[BaseModel] | None], definitions: Schema) -> Schema:
    choices: list[JsonValue] = [{"enum": cast("list[JsonValue]", sorted(misfires))}]
    for name, model in sorted(misfires.items()):
        extra: Schema = {"policy": {"const": name}, "window": _DURATION}
        choices.append(_model("misfire", name, model, extra, definitions))
    return {"anyOf": choices}


def _alert(emitters: Mapping[str, type[BaseModel]], definitions: Schema) -> Schema:
    """The alert's own keys, and those of its emitter."""
    own: Schema = {"events": _TEXTS}
    choices: list[JsonValue] = []
    for name, model in sorted(emitters.items()):
        choices.append(_model("alert", name, model, {"type": {"const": name}, **own}, definitions))
    table: Schema = {"type": "object", "required": ["type"], "properties": {"type": _TEXT, **own}}
    return {**table, "anyOf": choices} if choices else table
