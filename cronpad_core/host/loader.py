"""Finding and loading plugins: entry points one by one, each guarded, so that a broken one costs its own types and no more.

A name that two distributions claim stops the start: nobody can tell which of them a jobs file means.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cronpad_core.api import API, PluginError
from cronpad_core.host.asking import Asker
from cronpad_core.host.calls import HookCall, Trace, call_within, said_of
from cronpad_core.host.descriptors import Descriptor, IncompatibleError, RefusedError
from cronpad_core.host.entries import Entry, find_entries
from cronpad_core.host.records import PluginRecord, PluginState, canonical
from cronpad_core.host.registry import Registry
from cronpad_core.host.switches import Switches

__all__ = ["PluginHost", "load_plugins"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginHost:
    """All plugins after a start. ``registry`` holds their types, ``plugins`` what became of each, in the order of loading.

    ``notes`` are lines for stderr: one for each plugin that is not as it should be, and for switches that name no plugin.
    ``clashes`` is empty unless the host was loaded for a report.
    """

    registry: Registry
    plugins: tuple[PluginRecord, ...]
    notes: tuple[str, ...] = ()
    clashes: tuple[str, ...] = ()
    calls: Mapping[str, tuple[HookCall, ...]] = field(default_factory=dict)

    def calls_of(self, hook: str) -> tuple[HookCall, ...]:
        """Every implementation of an observing hook (``cronpad_event`` …), in the order in which they are called."""
        return self.calls.get(hook, ())

    def plugin(self, name: str) -> PluginRecord | None:
        """The plugin that goes by this name, or ``None``."""
        return next((one for one in self.plugins if one.goes_by(name)), None)


def load_plugins(
    environ: Mapping[str, str],
    *,
    disabled_all: bool = False,
    builtin: bool = True,
    trace: Trace | None = None,
    for_report: bool = False,
    deadline_s: float = 30.0,
    further: Sequence[Entry] = (),
) -> PluginHost:
    """Loads every installed plugin that is not switched off; a broken one is recorded, not raised.

    ``environ`` is read for ``CRONPAD_PLUGINS_DISABLED``, ``CRONPAD_PLUGINS_ONLY`` and ``CRONPAD_STRICT_PLUGINS``;
    ``disabled_all`` is ``--no-plugins``. The core's own plugin is loaded in both cases, unless it is named as disabled or
    ``builtin`` is false. ``deadline_s`` is what an import and each registration hook may take. ``trace`` is told of each hook
    call. ``further`` are plugins that are not installed (see :mod:`cronpad_core.host.one_off`), loaded last; one of a name that an
    installed plugin of the same distribution has stands in for that.

    Raises ``PluginError`` when two distributions claim one name (not ``for_report``, which lists the clashes instead), and
    when the switch for strictness is on and a plugin is not as it should be.
    """
    switches = Switches.read(environ, disabled_all=disabled_all, builtin=builtin)
    entries, unreadable = find_entries()
    start = _Start(Asker(trace=trace, deadline_s=deadline_s), deadline_s)
    given = {(canonical(one.distribution), one.name) for one in further}
    for entry in (*(one for one in entries if (canonical(one.distribution), one.name) not in given), *further):
        off = switches.why_off(entry.name, entry.distribution, builtin=entry.builtin)
        if off:
            start.disable(entry, off)
        else:
            start.load(entry)
    host = start.host((*unreadable, *switches.unmatched(start.records)))
    if host.clashes and not for_report:
        hint = "uninstall one of them, or switch its plugin off: CRONPAD_PLUGINS_DISABLED=<its distribution>"
        raise PluginError("; ".join(host.clashes), hint=hint)
    if switches.strict and host.notes and not for_report:
        raise PluginError("; ".join(host.notes), hint="CRONPAD_STRICT_PLUGINS is set, so every plugin has to load")
    return host


class _Start:
    """One start: what has been found so far."""

    def __init__(self, asker: Asker, deadline_s: float) -> None:
        self.records: list[PluginRecord] = []
        self._asker = asker
        self._deadline_s = deadline_s
        self._found: dict[tuple[str, str], Descriptor] = {}
        self._clashes: list[str] = []

    def disable(self, entry: Entry, reason: str) -> None:
        """Records a plugin that is switched off; nothing of it is imported."""
        self.records.append(_record(entry, PluginState.DISABLED, reason=reason))

    def load(self, entry: Entry) -> None:
        """Imports, registers and asks one plugin; whatever it raises ends up in its record."""
        namesake = next((one for one in self.records if one.name == entry.name and one.state is not PluginState.DISABLED), None)
        if namesake is not None:
            self._clash(f"plugin name '{entry.name}'", namesake.distribution, entry.distribution)
            reason = f"{namesake.distribution} has a plugin of the same name"
            self.records.append(_record(entry, PluginState.FAILED, reason=reason))
            return
        started = time.perf_counter()
        offered: list[Descriptor] = []
        state, reason = PluginState.LOADED, ""
        try:
            self._asker.register(call_within(self._deadline_s, entry.load), entry.name)
            offered.extend(self._asker.offers(entry))
            _refuse_twice(offered)
        except KeyboardInterrupt:
            raise
        except IncompatibleError as error:
            state, reason = PluginState.INCOMPATIBLE, str(error)
        except RefusedError as error:
            state, reason = PluginState.FAILED, str(error)
        except BaseException as error:
            state, reason = PluginState.FAILED, said_of(error)
        if state is PluginState.LOADED:
            self._take(offered)
        else:
            self._asker.forget(entry.name)
        took_ms = (time.perf_counter() - started) * 1000
        self.records.append(_record(entry, state, reason=reason, load_ms=took_ms, offered=offered))

    def host(self, further_notes: Iterable[str]) -> PluginHost:
        """The result, after all entry points: hooks that nobody will call are noted, and the observers gathered."""
        calls: dict[str, tuple[HookCall, ...]] = {}
        notes: list[str] = []
        for index, record in enumerate(self.records):
            whose = f"plugin {record.name} ({record.distribution})"
            if record.state is PluginState.LOADED:
                self.records[index] = replace(record, notes=self._asker.odd(record.name))
                notes.extend(f"{whose}: {note}" for note in self.records[index].notes)
                for call in self._asker.observers(record.name):
                    named = replace(call, distribution=record.distribution)
                    calls[call.hook] = (*calls.get(call.hook, ()), named)
            elif record.state is not PluginState.DISABLED:
                notes.append(f"{whose} is {record.state}: {record.reason}")
        return PluginHost(
            registry=Registry(self._found.values(), self.records),
            plugins=tuple(self.records),
            notes=(*notes, *further_notes),
            clashes=tuple(self._clashes),
            calls=calls,
        )

    def _take(self, offered: Iterable[Descriptor]) -> None:
        for one in offered:
            holder = self._found.setdefault((one.kind, one.name), one)
            if holder is not one:
                self._clash(f"{one.kind} '{one.name}'", holder.distribution, one.distribution)

    def _clash(self, what: str, first: str, second: str) -> None:
        self._clashes.append(f"{what} is claimed by two distributions: {first} and {second}")


def _refuse_twice(offered: Iterable[Descriptor]) -> None:
    seen: set[tuple[str, str]] = set()
    for one in offered:
        if (one.kind, one.name) in seen:
            raise RefusedError(f"it registers {one.kind} '{one.name}' twice")
        seen.add((one.kind, one.name))


def _record(
    entry: Entry, state: PluginState, *, reason: str = "", load_ms: float = 0.0, offered: Iterable[Descriptor] = ()
) -> PluginRecord:
    return PluginRecord(
        name=entry.name,
        state=state,
        distribution=entry.distribution,
        version=entry.version,
        entry_point=entry.value,
        load_ms=load_ms,
        reason=reason,
        types=tuple((one.kind, one.name) for one in offered),
        api=API if state is PluginState.LOADED else None,
    )
