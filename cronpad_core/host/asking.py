"""pluggy, held in one place: which plugin implements which hook, and how each implementation is called alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, cast

import pluggy

from cronpad_core.hookspecs import HOOK_NAMESPACE, CronpadSpecs
from cronpad_core.host.calls import HookCall, Trace, call_within
from cronpad_core.host.descriptors import Descriptor, RefusedError, describe
from cronpad_core.host.entries import Entry
from cronpad_core.host.misspelt import hook_notes, uncallable, unknown_hook_note

__all__ = ["REGISTRATIONS", "Asker"]

REGISTRATIONS: Final = (
    "cronpad_register_sinks",
    "cronpad_register_misfire_policies",
    "cronpad_register_alert_emitters",
    "cronpad_register_storage",
)
_SPECS: Final = frozenset(name for name in vars(CronpadSpecs) if name.startswith(f"{HOOK_NAMESPACE}_"))


class Asker:
    """Registers plugins and asks them one at a time, so that what one raises is known to be its own."""

    def __init__(self, *, trace: Trace | None, deadline_s: float) -> None:
        self._manager = pluggy.PluginManager(HOOK_NAMESPACE)
        self._manager.add_hookspecs(CronpadSpecs)
        self._trace = trace
        self._deadline_s = deadline_s

    def register(self, plugin: object, name: str) -> None:
        """Takes a plugin in. Raises pluggy's error for a hook whose arguments do not fit its specification."""
        self._manager.register(plugin, name=name)

    def forget(self, name: str) -> None:
        """Takes a plugin out again, if it is in."""
        if self._manager.has_plugin(name):
            self._manager.unregister(name=name)

    def offers(self, entry: Entry) -> Iterator[Descriptor]:
        """What a plugin's registration hooks answer, checked. Raises what they raise, ``RefusedError`` or ``Overdue``."""
        for hook in REGISTRATIONS:
            for call in self.calls(entry.name, hook):
                refusal = uncallable(call.function)
                if refusal is not None:
                    raise RefusedError(f"{hook} {refusal}")
                yield from call_within(self._deadline_s, _described(call, entry))

    def calls(self, plugin: str, hook: str | None = None) -> list[HookCall]:
        """A plugin's implementations of known hooks, or of one of them; wrappers among them."""
        calls: list[HookCall] = []
        for name, caller in vars(self._manager.hook).items():
            if name.startswith("_") or name not in _SPECS or hook not in (None, name):
                continue
            for one in caller.get_hookimpls():
                if one.plugin_name == plugin:
                    function = cast("Callable[..., object]", one.function)
                    accepts = frozenset((*one.argnames, *one.kwargnames))
                    calls.append(HookCall(hook=name, plugin=plugin, function=function, accepts=accepts, trace=self._trace))
        return calls

    def observers(self, plugin: str) -> list[HookCall]:
        """A plugin's implementations of hooks that are called while cronpad runs."""
        return [one for one in self.calls(plugin) if one.hook not in REGISTRATIONS and uncallable(one.function) is None]

    def odd(self, plugin: str) -> tuple[str, ...]:
        """One sentence for each hook of a plugin that nobody will ever call: misspelt, unmarked, ``async def``, a wrapper."""
        # pluggy's own check_pending stops at the first unknown hook, and a user should see all of them.
        notes = list(hook_notes(self._manager.get_plugin(plugin), _SPECS))
        for call in self.calls(plugin):
            refusal = uncallable(call.function)
            if refusal is not None:
                notes.append(f"{call.hook} {refusal}")
        for name, caller in vars(self._manager.hook).items():
            if not name.startswith("_") and name not in _SPECS:
                mine = [one for one in caller.get_hookimpls() if one.plugin_name == plugin and not one.optionalhook]
                notes.extend(unknown_hook_note(name, _SPECS) for _ in mine)
        return tuple(dict.fromkeys(notes))


def _described(call: HookCall, entry: Entry) -> Callable[[], list[Descriptor]]:
    def ask() -> list[Descriptor]:
        offered = call({})
        if not isinstance(offered, Iterable) or isinstance(offered, str | bytes | Mapping):
            raise RefusedError(f"{call.hook} answered {offered!r:.80}, not a list of classes")
        return [one for each in offered for one in describe(call.hook, each, plugin=entry.name, distribution=entry.distribution)]

    return ask
