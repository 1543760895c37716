"""What a sink answers, made fit to be stored: text that is Unicode, numbers that fit, facts that are JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from cronpad_core.domain.outcome import Outcome
from cronpad_core.domain.timing import JsonValue

__all__ = ["storable"]

_LONGEST, _MOST = 4_096, 2**31


def storable(outcome: Outcome) -> Outcome:
    """The same outcome, if any store can keep it; else with what cannot be kept written out or left away."""
    reason, code, facts = outcome.reason, outcome.exit_code, outcome.facts
    if type(reason) is str and reason.isascii() and len(reason) <= _LONGEST and code is None and not facts:
        return outcome
    sound = replace(outcome, reason=_text(reason)[:_LONGEST], exit_code=_number(code), facts=_facts(facts))
    return outcome if sound == outcome else sound


def _text(value: object) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < _MOST else None


def _facts(facts: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for name, value in dict(facts).items():
        try:
            json.dumps(value, allow_nan=False).encode("utf-8")
        except (TypeError, ValueError, RecursionError):
            found[_text(name)] = _text(repr(value))[:_LONGEST]
            continue
        found[_text(name)] = value
    return found
