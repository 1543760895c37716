"""Deciding over missed slots: the protocol of a misfire policy."""

from __future__ import annotations

from typing import Protocol

from cronpad_core.domain.misfire import MissedWindow, ReplayPlan

__all__ = ["MisfirePolicy"]


class MisfirePolicy(Protocol):
    """Chooses which overdue slots run.

    A policy's class also has ``name``, ``api = 1`` and ``Settings`` (a pydantic model for its own keys of the job's ``misfire``
    table, ``max`` for instance). It is built once, without arguments; the keys come with each window's rule.

    M1. Pure: the same window gives the same plan; no clock, no input or output.
    M2. The chosen slots are slots of the window, and none is older than ``earliest_ms``.
    M3. It never walks the window slot by slot without a bound: two weeks of a job each second are 1.2 million.
    """

    def decide(self, window: MissedWindow) -> ReplayPlan:
        """The plan for this window. If it raises, the engine says so loudly and decides like ``latest``."""
