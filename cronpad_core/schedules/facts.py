"""What can be said about a parsed schedule without computing a fire: the material of ``explain``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ScheduleFacts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFacts:
    """The rules that hold for a schedule.

    ``fields`` are the cron fields as (name, text) with H and ``~`` already drawn. ``day_rule`` is ``"both"`` where a day has to
    match day-of-month and day-of-week, ``"either"`` where one is enough; ``clock_rule`` is ``"wildcard"`` or ``"fixed-time"``;
    ``gap`` and ``fold`` are what is done in skipped and repeated time. All of them are ``None`` or empty for kinds that have no
    such thing. ``sentences`` say the same in words; ``members`` are the facts of the parts of a union.
    """

    kind: Literal["cron", "interval", "one-shot", "union"]
    sentences: tuple[str, ...]
    fields: tuple[tuple[str, str], ...] = ()
    day_rule: Literal["both", "either"] | None = None
    clock_rule: Literal["wildcard", "fixed-time"] | None = None
    gap: Literal["run_after", "skip", "shift"] | None = None
    fold: Literal["first", "last", "both"] | None = None
    every_ms: int | None = None
    anchor_ms: int | None = None
    at_ms: int | None = None
    members: tuple[ScheduleFacts, ...] = ()
