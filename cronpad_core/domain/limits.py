"""Limits beside a job's own overlap rule: caps on what runs at once, monthly quotas, and the workspaces that have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cronpad_core.domain.timing import Millis, from_ms

__all__ = [
    "LONGEST_WORKSPACE",
    "WORKSPACE_NAME",
    "ConcurrencyRule",
    "Limit",
    "Quota",
    "SlaRule",
    "Workspace",
    "limits_of",
    "month_of",
    "scopes_of",
]

LONGEST_WORKSPACE: Final = 64
WORKSPACE_NAME: Final = f"[a-z0-9._-]{{1,{LONGEST_WORKSPACE}}}"
"""The pattern of a workspace's whole name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyRule:
    """At most ``max`` runs at once: of the job itself, or of all jobs that name the same ``key``."""

    max: int
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaRule:
    """What is counted as a breach: a start later than ``start_within_ms`` after its time, an end later than ``finish_within_ms``.

    Counted from slot + jitter, without the time that a cap held the run back. ``None``: not looked at.
    """

    start_within_ms: Millis | None = None
    finish_within_ms: Millis | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How many runs a workspace may open in a calendar month of UTC; ``blocking`` skips further ones, else they are told of."""

    max: int
    blocking: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A group of jobs with limits of its own. One that nobody has set anything of has none."""

    name: str
    suspended: bool = False
    reason: str = ""
    quota: Quota | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most ``max`` runs of ``scope`` are running at once.

    A scope is ``all``, ``workspace:NAME``, ``job:ID`` or ``key:NAME``; :func:`scopes_of` a run are all that it counts for.
    """

    scope: str
    max: int


def limits_of(job_id: str, rule: ConcurrencyRule | None, workspace: Workspace | None, most: int | None) -> tuple[Limit, ...]:
    """The caps that a run must find room under: of everything (``most``), its workspace, and its job or key."""
    found = []
    if most is not None:
        found.append(Limit(scope="all", max=most))
    if workspace is not None and workspace.concurrency is not None:
        found.append(Limit(scope=f"workspace:{workspace.name}", max=workspace.concurrency))
    if rule is not None:
        found.append(Limit(scope=f"job:{job_id}" if rule.key is None else f"key:{rule.key}", max=rule.max))
    return tuple(found)


def scopes_of(job_id: str, workspace: str, rule: ConcurrencyRule | None) -> tuple[str, ...]:
    """All scopes that a running run of the job counts for."""
    scopes = ("all", f"workspace:{workspace}", f"job:{job_id}")
    return scopes if rule is None or rule.key is None else (*scopes, f"key:{rule.key}")


def month_of(instant_ms: Millis) -> str:
    """The calendar month of UTC, such as ``2026-11``."""
    return from_ms(instant_ms).strftime("%Y-%m")
