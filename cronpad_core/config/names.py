"""The names that people give: of jobs, of workspaces, and of the keys that jobs share."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from cronpad_core.config.problems import did_you_mean
from cronpad_core.config.table import Table
from cronpad_core.domain.limits import LONGEST_WORKSPACE

__all__ = ["check_name", "check_workspace"]

_LONGEST_NAME: Final = 128


def check_name(table: Table, key: str, name: str) -> bool:
    """Whether a job or a concurrency key can have this name; if not, the reason is reported."""
    odd = next((at for at, char in enumerate(name) if not char.isprintable() or char == "/"), None)
    if odd is not None:
        char = name[odd]
        label = "the / is not allowed" if char == "/" else f"U+{ord(char):04X} is not a printable character"
        _refuse(table, key, "has a character that is not allowed", label, at=odd)
    elif len(name) > _LONGEST_NAME:
        _refuse(table, key, "is too long", f"{len(name)} characters; at most {_LONGEST_NAME} are allowed")
    elif not unicodedata.is_normalized("NFC", name):
        plain = unicodedata.normalize("NFC", name)
        _refuse(table, key, "is not in Unicode normal form C", "", hint=did_you_mean(plain, [plain]))
    else:
        return True
    return False


def check_workspace(table: Table, key: str, name: str) -> bool:
    """Whether a workspace can have this name, which also stands in commands and paths; if not, the reason is reported."""
    odd = re.search("[^a-z0-9._-]", name)
    if odd is not None:
        plain = re.sub("[^a-z0-9._-]+", "-", name.lower()).strip("-")[:LONGEST_WORKSPACE]
        label, hint = "only a-z, 0-9 and . _ - are allowed", f'did you mean "{plain}"?' if plain else None
        _refuse(table, key, "has a character that is not allowed", label, at=odd.start(), hint=hint)
    elif len(name) > LONGEST_WORKSPACE:
        _refuse(table, key, "is too long", f"{len(name)} characters; at most {LONGEST_WORKSPACE} are allowed")
    else:
        return True
    return False


def _refuse(table: Table, key: str, why: str, label: str, *, at: int | None = None, hint: str | None = None) -> None:
    within, raw = (None, "") if at is None else ((at, at + 1), str(table.data[key]))
    table.problem("CP126", f"the {key} {why}", key, within=within, raw=raw, label=label, hint=hint)
