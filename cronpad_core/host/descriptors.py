"""What a plugin's class states about itself, read once and checked, so that the rest of cronpad never asks it again."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias, cast

from pydantic import BaseModel, ConfigDict

from cronpad_core.api import API, AlertEmitter, MisfirePolicy, Sink, SinkContext

if TYPE_CHECKING:
    from cronpad_core.ports.storage import Storage, StorageOptions

__all__ = [
    "Descriptor",
    "EmitterType",
    "IncompatibleError",
    "MisfireType",
    "NoSettings",
    "RefusedError",
    "SinkType",
    "StorageType",
    "describe",
]

_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_SCHEME = re.compile(r"[a-z:][a-z0-9+.:-]{0,31}")


class RefusedError(Exception):
    """A class that does not state what its kind has to state."""


class IncompatibleError(Exception):
    """A class that was written for another API number."""


class NoSettings(BaseModel):
    """The settings of a type that has none: any key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkType:
    """A sink as registered: ``build`` makes its one object, ``settings`` validates a job's table."""

    kind: ClassVar[str] = "sink"
    name: str
    plugin: str
    distribution: str
    build: Callable[[SinkContext], Sink]
    settings: type[BaseModel]
    capabilities: frozenset[str]
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MisfireType:
    """A misfire policy as registered."""

    kind: ClassVar[str] = "misfire policy"
    name: str
    plugin: str
    distribution: str
    build: Callable[[], MisfirePolicy]
    settings: type[BaseModel]
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitterType:
    """An alert emitter as registered; it is built with its validated settings."""

    kind: ClassVar[str] = "alert emitter"
    name: str
    plugin: str
    distribution: str
    build: Callable[[object], AlertEmitter]
    settings: type[BaseModel]
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageType:
    """A storage backend as registered under one of its URL schemes, which is its ``name`` here."""

    kind: ClassVar[str] = "storage"
    name: str
    plugin: str
    distribution: str
    build: Callable[[StorageOptions], Storage]
    settings: type[BaseModel]
    doc: str


Descriptor: TypeAlias = SinkType | MisfireType | EmitterType | StorageType


def describe(hook: str, offered: object, *, plugin: str, distribution: str) -> tuple[Descriptor, ...]:
    """The descriptors of one class that ``hook`` answered (a storage has one per scheme).

    Raises :class:`IncompatibleError` or :class:`RefusedError`; and whatever the class itself raises when it is looked at.
    """
    if not inspect.isclass(offered):
        raise RefusedError(f"{hook} answered {offered!r:.80}, which is no class")
    _check_api(offered)
    return _READERS[hook](offered, plugin, distribution)


def _check_api(offered: type) -> None:
    number = getattr(offered, "api", None)
    if not isinstance(number, int) or isinstance(number, bool):
        raise RefusedError(f"class {offered.__name__} states no API number; write 'api = {API}' in it")
    if number != API:
        raise IncompatibleError(f"class {offered.__name__} was written for API {number}; this cronpad offers API {API}")


def _sink(offered: type, plugin: str, distribution: str) -> tuple[Descriptor, ...]:
    capabilities: object = getattr(offered, "capabilities", frozenset())
    if not isinstance(capabilities, Set) or not all(isinstance(word, str) for word in capabilities):
        raise RefusedError(f"{offered.__name__}.capabilities is no frozenset of words")
    _check_verb(offered, "deliver")
    found = SinkType(
        name=_name_of(offered),
        plugin=plugin,
        distribution=distribution,
        build=cast("Callable[[SinkContext], Sink]", offered),
        settings=_settings_of(offered),
        capabilities=frozenset(capabilities),
        doc=_doc_of(offered),
    )
    return (found,)


def _misfire(offered: type, plugin: str, distribution: str) -> tuple[Descriptor, ...]:
    if inspect.iscoroutinefunction(_check_verb(offered, "decide")):
        raise RefusedError(f"{offered.__name__}.decide is 'async def'; a policy is pure and plain")
    found = MisfireType(
        name=_name_of(offered),
        plugin=plugin,
        distribution=distribution,
        build=cast("Callable[[], MisfirePolicy]", offered),
        settings=_settings_of(offered),
        doc=_doc_of(offered),
    )
    return (found,)


def _emitter(offered: type, plugin: str, distribution: str) -> tuple[Descriptor, ...]:
    _check_verb(offered, "emit")
    found = EmitterType(
        name=_name_of(offered),
        plugin=plugin,
        distribution=distribution,
        build=cast("Callable[[object], AlertEmitter]", offered),
        settings=_settings_of(offered),
        doc=_doc_of(offered),
    )
    return (found,)


def _storage(offered: type, plugin: str, distribution: str) -> tuple[Descriptor, ...]:
    schemes = getattr(offered, "schemes", None)
    if isinstance(schemes, str) or not schemes or not all(isinstance(one, str) and _SCHEME.fullmatch(one) for one in schemes):
        raise RefusedError(f"{offered.__name__}.schemes is no list of URL schemes such as ('sqlite',)")
    _check_verb(offered, "open")
    settings, doc = _settings_of(offered), _doc_of(offered)
    return tuple(
        StorageType(
            name=one,
            plugin=plugin,
            distribution=distribution,
            build=cast("Callable[[StorageOptions], Storage]", offered),
            settings=settings,
            doc=doc,
        )
        for one in schemes
    )


_READERS: Mapping[str, Callable[[type, str, str], tuple[Descriptor, ...]]] = {
    "cronpad_register_sinks": _sink,
    "cronpad_register_misfire_policies": _misfire,
    "cronpad_register_alert_emitters": _emitter,
    "cronpad_register_storage": _storage,
}


def _name_of(offered: type) -> str:
    name = getattr(offered, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RefusedError(
            f"{offered.__name__}.name is {name!r:.80}; write a text of lower-case letters, digits, '-', '_' and '.', "
            "beginning with a letter"
        )
    return name


def _settings_of(offered: type) -> type[BaseModel]:
    settings = getattr(offered, "Settings", None)
    if settings is None:
        return NoSettings
    if not inspect.isclass(settings) or not issubclass(settings, BaseModel):
        raise RefusedError(f"{offered.__name__}.Settings is no pydantic model")
    return settings


def _check_verb(offered: type, verb: str) -> object:
    found = getattr(offered, verb, None)
    if not callable(found):
        raise RefusedError(f"class {offered.__name__} has no method '{verb}'")
    return found


def _doc_of(offered: type) -> str:
    doc = offered.__doc__
    return doc.strip().splitlines()[0].strip() if isinstance(doc, str) and doc.strip() else ""
