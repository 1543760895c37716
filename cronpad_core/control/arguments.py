"""Reading the arguments of an operation: whatever came over a wire is checked before anything is looked up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from cronpad_core.domain.errors import ConfigurationError
from cronpad_core.domain.overlap import BOUNDED, OverlapPolicy, OverlapRule
from cronpad_core.domain.timing import JsonValue, Millis

__all__ = ["LONGEST_TEXT", "Arguments"]

LONGEST_TEXT: Final = 1_000
"""Of a name, a reason or a token, in characters."""

_LARGEST: Final = 64 * 1024
_MOST: Final = 1_000_000
_LAST_MS: Final[Millis] = 253_402_300_799_999  # the end of the year 9999: no calendar text goes further


class Arguments:
    """The arguments of one operation. Every reader raises ``ConfigurationError`` that names the argument."""

    def __init__(self, operation: str, given: Mapping[str, JsonValue], known: tuple[str, ...]) -> None:
        self._operation = operation
        self._given = given
        for name in given:
            if name not in known:
                raise ConfigurationError(
                    f'"{operation}" takes no argument "{str(name)[:60]}"', hint=f"it takes {', '.join(known)}"
                )

    def _wrong(self, name: str, wanted: str) -> ConfigurationError:
        return ConfigurationError(f'argument "{name}" of "{self._operation}" must be {wanted}')

    def has(self, name: str) -> bool:
        """Whether it was given, be it as ``null``."""
        return name in self._given

    def text(self, name: str) -> str:
        """A text that must be given."""
        found = self.text_or_none(name)
        if not found:
            raise self._wrong(name, "a text that is not empty")
        return found

    def text_or_none(self, name: str) -> str | None:
        """A text, ``None`` where it is not given."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not _storable(value):
            raise self._wrong(name, "a text")
        if len(value) > LONGEST_TEXT:
            raise self._wrong(name, f"a text of at most {LONGEST_TEXT:,} characters")
        return value

    def flag(self, name: str) -> bool:
        """Yes or no; no where it is not given."""
        return self.flag_or_none(name) or False

    def flag_or_none(self, name: str) -> bool | None:
        """Yes or no, ``None`` where it is not given."""
        value = self._given.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def instant(self, name: str) -> Millis:
        """Unix milliseconds that must be given."""
        found = self.instant_or_none(name)
        if found is None:
            raise self._wrong(name, "a number of Unix milliseconds")
        return found

    def instant_or_none(self, name: str) -> Millis | None:
        """Unix milliseconds, ``None`` where they are not given."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LAST_MS:
            raise self._wrong(name, "a number of Unix milliseconds")
        return value

    def count(self, name: str, *, low: int = 0) -> int | None:
        """A whole number, ``None`` where it is not given or ``null``."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= _MOST:
            raise self._wrong(name, f"a whole number from {low} to {_MOST:,}")
        return value

    def json(self, name: str) -> JsonValue:
        """Any JSON, of bounded size."""
        value = self._given.get(name)
        try:
            size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
        except (TypeError, ValueError, RecursionError):
            raise self._wrong(name, "plain JSON") from None
        if size > _LARGEST:
            raise self._wrong(name, f"JSON of at most {_LARGEST // 1024} KiB")
        return value

    def overlap(self, name: str) -> OverlapRule | None:
        """A policy's word, or ``{"policy": word, "max": number}``; ``None`` where it is not given."""
        value = self._given.get(name)
        if value is None:
            return None
        table = value if isinstance(value, dict) else {"policy": value}
        word, most = table.get("policy"), table.get("max")
        if not isinstance(word, str) or word not in tuple(OverlapPolicy) or set(table) - {"policy", "max"}:
            raise self._wrong(name, f"one of {', '.join(OverlapPolicy)}, or a policy with its max")
        policy = OverlapPolicy(word)
        if most is None:
            return OverlapRule(policy=policy, max=BOUNDED.get(policy, 1))
        if policy not in BOUNDED or not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= _MOST:
            raise self._wrong(name, f"{' or '.join(BOUNDED)} with a max from 1 to {_MOST:,}, or a policy without one")
        return OverlapRule(policy=policy, max=most)


def _storable(text: str) -> bool:
    """Whether a store keeps it: no half characters, and no NUL, at which C ends a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
