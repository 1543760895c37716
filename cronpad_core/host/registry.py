"""Every type that plugins brought, by kind and name: what the rest of cronpad asks instead of pluggy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from cronpad_core.api import MisfirePolicy, PluginError
from cronpad_core.host.calls import said_of
from cronpad_core.host.descriptors import Descriptor, EmitterType, MisfireType, SinkType, StorageType
from cronpad_core.host.missing import PACKAGES, install_hint, missing_hint, unknown_message
from cronpad_core.host.records import PluginRecord, PluginState, canonical

if TYPE_CHECKING:
    from cronpad_core.ports.storage import Storage, StorageOptions

__all__ = ["Registry"]

AnyType = TypeVar("AnyType", SinkType, MisfireType, EmitterType, StorageType)


class Registry:
    """Types by name, unchanged after the start. Every look-up that fails raises ``PluginError`` with what is known instead."""

    def __init__(self, found: Iterable[Descriptor] = (), plugins: Iterable[PluginRecord] = ()) -> None:
        self._sinks: dict[str, SinkType] = {}
        self._misfire: dict[str, MisfireType] = {}
        self._emitters: dict[str, EmitterType] = {}
        self._storage: dict[str, StorageType] = {}
        self._policies: dict[str, MisfirePolicy] = {}
        self._plugins = tuple(plugins)
        for one in found:
            match one:
                case SinkType():
                    self._sinks[one.name] = one
                case MisfireType():
                    self._misfire[one.name] = one
                case EmitterType():
                    self._emitters[one.name] = one
                case StorageType():
                    self._storage[one.name] = one

    @property
    def types(self) -> tuple[Descriptor, ...]:
        """All of them: sinks, misfire policies, alert emitters, storage; each kind by name."""
        kinds: tuple[Mapping[str, Descriptor], ...] = (self._sinks, self._misfire, self._emitters, self._storage)
        return tuple(kind[name] for kind in kinds for name in sorted(kind))

    def sink_models(self) -> dict[str, type[BaseModel]]:
        """The settings model of each sink, for the jobs file."""
        return {name: one.settings for name, one in self._sinks.items()}

    def misfire_models(self) -> dict[str, type[BaseModel]]:
        """The settings model of each misfire policy."""
        return {name: one.settings for name, one in self._misfire.items()}

    def emitter_models(self) -> dict[str, type[BaseModel]]:
        """The settings model of each alert emitter."""
        return {name: one.settings for name, one in self._emitters.items()}

    def unavailable(self) -> dict[str, str]:
        """Names of types that cannot be used, each with why its plugin is not there (best effort).

        A plugin that failed before it said what it brings is listed under its own name, which for most is the type's name too.
        Types of cronpad's own packages that are not installed are listed with what to install.
        """
        reasons = self._broken()
        known = {one.name for one in self.types}
        for kind, names in PACKAGES.items():
            for name in names.keys() - known:
                reasons.setdefault(name, f"it comes with {names[name]}, which is not installed: {install_hint(kind, name)}")
        return reasons

    def _broken(self) -> dict[str, str]:
        """Of plugins that are installed and not loaded: the names of their types, with the reason."""
        known = {one.name for one in self.types}
        reasons: dict[str, str] = {}
        for plugin in self._plugins:
            if plugin.state is PluginState.LOADED:
                continue
            package = canonical(plugin.distribution)
            likely = {name for names in PACKAGES.values() for name, wanted in names.items() if wanted == package}
            names = {name for _, name in plugin.types} | likely | {plugin.name}
            for name in sorted(names - known):
                reasons.setdefault(name, f"plugin {plugin.name} ({plugin.distribution}) is {plugin.state}: {plugin.reason}")
        return reasons

    def has_sink(self, name: str) -> bool:
        """Whether runs can be delivered to a sink of this name."""
        return name in self._sinks

    def sink(self, name: str) -> SinkType:
        """The sink type of this name."""
        return self._find(self._sinks, SinkType.kind, name)

    def emitter(self, name: str) -> EmitterType:
        """The alert emitter of this name."""
        return self._find(self._emitters, EmitterType.kind, name)

    def storage(self, scheme: str) -> Callable[[StorageOptions], Storage]:
        """What builds the storage for URLs of this scheme."""
        return self._find(self._storage, StorageType.kind, scheme).build

    def misfire(self, name: str) -> MisfirePolicy:
        """The policy object of this name, built on first use."""
        if name not in self._policies:
            found = self._find(self._misfire, MisfireType.kind, name)
            try:
                self._policies[name] = found.build()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                raise PluginError(f"misfire policy '{name}' of {found.distribution} cannot be built: {said_of(error)}") from error
        return self._policies[name]

    def _find(self, known: Mapping[str, AnyType], kind: str, name: str) -> AnyType:
        found = known.get(name)
        if found is None:
            broken = self._broken().get(name)
            raise PluginError(unknown_message(kind, name, known, broken), hint=missing_hint(kind, name, known, broken))
        return found
