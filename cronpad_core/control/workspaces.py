"""Workspaces: what they are limited to, and what they have used."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, TypeAlias

from cronpad_core.control.desk import Desk
from cronpad_core.control.queries import all_jobs
from cronpad_core.domain.errors import ConfigurationError, NotFoundError
from cronpad_core.domain.limits import WORKSPACE_NAME, Quota, Workspace, month_of
from cronpad_core.domain.timing import Millis
from cronpad_core.ports.catalog import CatalogStore, StaleWriteError
from cronpad_core.ports.history import HistoryStore

__all__ = ["CLEAR", "Clear", "LimitChange", "WorkspaceView", "list_workspaces", "set_workspace", "show_workspace"]


class Clear(Enum):
    """The value that takes a limit away."""

    CLEAR = "clear"


CLEAR: Final = Clear.CLEAR
"""Takes a limit away."""

LimitChange: TypeAlias = "int | Literal[Clear.CLEAR] | None"
"""A new limit, ``CLEAR``, or ``None`` to leave it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceView:
    """A workspace, and how many runs it has opened in the month of UTC that it is."""

    workspace: Workspace
    month: str
    used: int


async def list_workspaces(catalog: CatalogStore, history: HistoryStore, *, now_ms: Millis) -> list[WorkspaceView]:
    """Every workspace that something was set of or that a job names, by name."""
    found = {job.spec.workspace: Workspace(name=job.spec.workspace) for job in await all_jobs(catalog)}
    found |= {workspace.name: workspace for workspace in await catalog.workspaces()}
    month = month_of(now_ms)
    return [WorkspaceView(workspace=found[name], month=month, used=await history.used(name, month)) for name in sorted(found)]


async def show_workspace(catalog: CatalogStore, history: HistoryStore, name: str, *, now_ms: Millis) -> WorkspaceView:
    """One workspace. Raises ``NotFoundError`` where nothing was set of it and no job names it."""
    month, workspace = month_of(now_ms), await catalog.workspace(name)
    if workspace is None:
        named = {job.spec.workspace for job in await all_jobs(catalog)}
        if name not in named:
            known = sorted(named | {one.name for one in await catalog.workspaces()})
            there = ", ".join(known[:20]) or "no workspace yet"
            raise NotFoundError(f'no workspace "{name}" in this state', hint=f"there is {there}")
        workspace = Workspace(name=name)
    return WorkspaceView(workspace=workspace, month=month, used=await history.used(name, month))


async def set_workspace(
    desk: Desk,
    name: str,
    *,
    suspended: bool | None = None,
    reason: str | None = None,
    quota: LimitChange = None,
    quota_blocking: bool | None = None,
    concurrency: LimitChange = None,
) -> Workspace:
    """Changes what is given and leaves the rest; answers the workspace as it stands. It may be one that no job names yet.

    A suspended workspace skips the slots of its jobs. ``quota`` counts runs in a month, ``concurrency`` what runs at once.
    Raises ``ConfigurationError`` where it makes no sense, ``TermRefusedError`` and ``StoreError``.
    """
    if re.fullmatch(WORKSPACE_NAME, name) is None:
        raise ConfigurationError(f'no workspace can be named "{name[:80]}"', hint="1 to 64 of a-z, 0-9 and . _ - are allowed")
    while True:
        term = desk.require_term()
        stored = await desk.catalog.workspace(name)
        new = _suspended(stored or Workspace(name=name), suspended, reason)
        new = replace(new, quota=_quota(new.quota, quota, quota_blocking))
        if concurrency is not None:
            new = replace(new, concurrency=None if concurrency is CLEAR else concurrency)
        if new == stored:
            return new
        try:
            await desk.catalog.set_workspace(new, expected=stored, term=term)
        except StaleWriteError:
            continue
        return new


def _suspended(workspace: Workspace, suspended: bool | None, reason: str | None) -> Workspace:
    now = workspace.suspended if suspended is None else suspended
    if reason and not now:
        raise ConfigurationError("a reason goes with a suspension", hint="suspend the workspace too, or leave the reason out")
    if not now:
        return replace(workspace, suspended=False, reason="")
    return replace(workspace, suspended=True, reason=workspace.reason if reason is None else reason)


def _quota(quota: Quota | None, change: LimitChange, blocking: bool | None) -> Quota | None:
    if change is CLEAR:
        changed = None
    elif change is None:
        changed = quota
    else:
        changed = Quota(max=change, blocking=quota.blocking if quota else True)
    if blocking is None:
        return changed
    if changed is None:
        raise ConfigurationError("whether a quota blocks goes with a quota", hint="give the number of runs in a month too")
    return replace(changed, blocking=blocking)
