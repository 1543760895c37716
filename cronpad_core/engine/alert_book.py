"""The alerts that are declared at present, for whoever asks in the middle of the line."""

from __future__ import annotations

from collections.abc import Mapping

from cronpad_core.domain.alerts import AlertRule, AlertSpec

__all__ = ["AlertBook"]


class AlertBook:
    """Alerts by name. Replaced as a whole when files are read again; what a job names and nobody declares is left out."""

    def __init__(self, declared: Mapping[str, AlertSpec] | None = None) -> None:
        self._rules: dict[tuple[str, ...], tuple[AlertRule, ...]] = {}
        self.declared: Mapping[str, AlertSpec] = {}
        self.replace(declared or {})

    def replace(self, declared: Mapping[str, AlertSpec]) -> None:
        """From now on these are the alerts."""
        self.declared = dict(declared)
        self._rules.clear()

    def rules(self, names: tuple[str, ...]) -> tuple[AlertRule, ...]:
        """The rules of the alerts that a job names."""
        if not names:
            return ()
        found = self._rules.get(names)
        if found is None:
            found = self._rules[names] = tuple(self.declared[name].rule for name in names if name in self.declared)
        return found

    def others(self, name: str) -> tuple[str, ...]:
        """The other alerts, those of other emitter types first: who may be told that this one cannot be sent."""
        own = self.declared[name].type if name in self.declared else ""
        found = [other for other in self.declared if other != name]
        return tuple(sorted(found, key=lambda other: self.declared[other].type == own))
