"""What ``cronpad plugin list`` and ``cronpad plugin show`` say, as values; printing is the command line's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from cronpad_core.api import JsonValue, NotFoundError
from cronpad_core.host.descriptors import Descriptor
from cronpad_core.host.loader import PluginHost
from cronpad_core.host.records import PluginRecord

__all__ = ["PluginDetails", "SettingRow", "TypeDetails", "plugin_details"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One setting of a type: its name, what values it takes, its default (``None`` where it is required) and what it is for."""

    name: str
    values: str
    default: str | None
    required: bool
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeDetails:
    """One type that a plugin brings; ``schema`` is the JSON Schema of its settings."""

    kind: str
    name: str
    doc: str
    settings: tuple[SettingRow, ...]
    schema: Mapping[str, JsonValue]
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginDetails:
    """One plugin with all its types. A plugin that is not loaded has none."""

    plugin: PluginRecord
    types: tuple[TypeDetails, ...]
    hooks: tuple[str, ...]


def plugin_details(host: PluginHost, name: str) -> PluginDetails:
    """The plugin that goes by this name (its own, its distribution's, or that of one of its types).

    Raises ``NotFoundError`` with what there is.
    """
    found = host.plugin(name) or _owner_of_type(host, name)
    if found is None:
        known = ", ".join(one.name for one in host.plugins) or "none"
        raise NotFoundError(f"no plugin '{name}'; there are: {known}", hint="'cronpad plugin list' shows what each brings")
    mine = [one for one in host.registry.types if one.plugin == found.name and one.distribution == found.distribution]
    hooks = tuple(sorted(hook for hook, calls in host.calls.items() if any(one.plugin == found.name for one in calls)))
    return PluginDetails(plugin=found, types=tuple(_details(one) for one in mine), hooks=hooks)


def _owner_of_type(host: PluginHost, name: str) -> PluginRecord | None:
    owners = [one for one in host.plugins if any(each == name for _, each in one.types)]
    return owners[0] if owners else None


def _details(one: Descriptor) -> TypeDetails:
    schema = cast("dict[str, JsonValue]", one.settings.model_json_schema())
    return TypeDetails(
        kind=one.kind,
        name=one.name,
        doc=one.doc,
        settings=tuple(_rows(schema)),
        schema=schema,
        capabilities=tuple(sorted(getattr(one, "capabilities", ()))),
    )


def _rows(schema: Mapping[str, JsonValue]) -> Iterable[SettingRow]:
    required = cast("list[str]", schema.get("required", []))
    properties = cast("Mapping[str, Mapping[str, JsonValue]]", schema.get("properties", {}))
    for name, one in properties.items():
        yield SettingRow(
            name=name,
            values=_values(one),
            default=None if "default" not in one else _literal(one["default"]),
            required=name in required,
            doc=str(one.get("description", "")),
        )


def _values(one: Mapping[str, JsonValue]) -> str:
    """What a setting takes, in as few words as its schema allows."""
    choices = one.get("enum")
    if isinstance(choices, list):
        return " | ".join(_literal(choice) for choice in choices)
    if "const" in one:
        return _literal(one["const"])
    for key in ("anyOf", "oneOf"):
        parts = one.get(key)
        if isinstance(parts, list):
            return " | ".join(dict.fromkeys(_values(part) for part in parts if isinstance(part, dict)))
    reference = one.get("$ref")
    if isinstance(reference, str):
        return reference.rsplit("/", 1)[-1]
    kind = str(one.get("type", "any"))
    items = one.get("items")
    if kind == "array" and isinstance(items, dict):
        return f"list of {_values(items)}"
    bounds = [f"{sign} {one[key]}" for key, sign in (("minimum", ">="), ("maximum", "<=")) if key in one]
    return " ".join([kind, *bounds])


def _literal(value: JsonValue) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return f'"{value}"' if isinstance(value, str) else str(value)
