"""What an HTTP status means for a run, by default and by a job's own rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

__all__ = ["Meaning", "check_rule", "meaning_of"]


class Meaning(StrEnum):
    """What follows from a status."""

    OK = "ok"
    RETRY = "retry"
    FAIL = "fail"
    GONE = "gone"


_RULE: Final = re.compile(r"[2-5](?:\d\d|xx)")
_PASSING: Final = frozenset({408, 425, 429})
_GONE: Final = 410


def check_rule(status: str) -> str:
    """A status (``404``) or a class of them (``5xx``). Raises ``ValueError``."""
    if _RULE.fullmatch(status) is None:
        raise ValueError(f'{status[:20]!r} is no status: write "404" for one, or "5xx" for a class')
    return status


def meaning_of(status: int, rules: Mapping[str, Meaning]) -> Meaning:
    """The job's rule for the status, else its rule for the class, else the default."""
    own = rules.get(str(status)) or rules.get(f"{status // 100}xx")
    if own is not None:
        return own
    match status // 100:
        case 2:
            return Meaning.OK
        case 4:
            return Meaning.GONE if status == _GONE else Meaning.RETRY if status in _PASSING else Meaning.FAIL
        case _:
            return Meaning.RETRY
