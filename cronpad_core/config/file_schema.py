"""What ``cronpad schema`` prints: one JSON Schema for the two shapes that a jobs file may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from cronpad_core.config.rules import MOST_RETRIES
from cronpad_core.config.schema import jobs_schema
from cronpad_core.domain.timing import JsonValue

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["file_schema"]

Schema = dict[str, JsonValue]

_KEYS: Final[Schema] = {
    "timeout_ms": {"type": "integer", "minimum": 1, "description": "How long an attempt may take."},
    "max_retries": {"type": "integer", "minimum": 0, "maximum": MOST_RETRIES, "description": "How often it is tried again."},
    "jitter_ms": {"type": "integer", "minimum": 0, "description": "A run starts up to this much later."},
}


def file_schema(
    sinks: Mapping[str, type[BaseModel]],
    misfires: Mapping[str, type[BaseModel] | None],
    emitters: Mapping[str, type[BaseModel]],
) -> Schema:
    """The schema of a native jobs file, or, where a file has jobs and no version, of the runner's JSON."""
    native = jobs_schema(sinks, misfires, emitters)
    dialect, title = native.pop("$schema"), native.pop("title")
    definitions = cast("Schema", native.pop("$defs"))
    job = cast("Schema", cast("Schema", cast("Schema", native["properties"])["jobs"])["items"])
    definitions["job"] = {**job, "properties": {**cast("Schema", job["properties"]), **_KEYS}}
    jobs: Schema = {"type": "array", "items": {"$ref": "#/$defs/job"}}
    cast("Schema", native["properties"])["jobs"] = jobs
    definitions["native"] = native
    definitions["runner"] = {
        "type": "object",
        "required": ["jobs"],
        "properties": {"jobs": jobs},
        "additionalProperties": False,
    }
    return {
        "$schema": dialect,
        "title": title,
        "if": {"required": ["jobs"], "not": {"required": ["version"]}},
        "then": {"$ref": "#/$defs/runner"},
        "else": {"$ref": "#/$defs/native"},
        "$defs": definitions,
    }
