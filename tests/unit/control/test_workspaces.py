"""Workspaces: what is set, what is left, and what is used."""

from __future__ import annotations

from typing import Any

import pytest
from office import T0, Failing, Office, declared

from cronpad_core.control.workspaces import CLEAR, list_workspaces, set_workspace, show_workspace
from cronpad_core.domain.errors import ConfigurationError, NotFoundError, StoreBusyError, TermRefusedError
from cronpad_core.domain.limits import Quota, Workspace


def change(office: Office, name: str = "team", **what: Any) -> Workspace:
    """Sets something."""
    return office.run(set_workspace(office.desk, name, **what))


def test_what_is_not_given_stays_and_what_is_cleared_goes(office: Office) -> None:
    """Each setting by itself; a quota blocks unless told otherwise, and keeps what it was told."""
    assert change(office, quota=100) == Workspace(name="team", quota=Quota(max=100))
    assert change(office, concurrency=3).quota == Quota(max=100)
    assert change(office, quota_blocking=False).quota == Quota(max=100, blocking=False)
    assert change(office, quota=0).quota == Quota(max=0, blocking=False)
    suspended = change(office, suspended=True, reason="unpaid")
    assert (suspended.suspended, suspended.reason, suspended.concurrency) == (True, "unpaid", 3)
    assert change(office, reason="still unpaid").reason == "still unpaid"
    assert change(office, suspended=True).reason == "still unpaid"
    assert change(office, suspended=False).reason == ""
    assert change(office, quota=CLEAR, concurrency=CLEAR) == Workspace(name="team")
    assert office.run(office.catalog.workspaces()) == [Workspace(name="team")]


def test_what_makes_no_sense_is_refused_and_changes_nothing(office: Office) -> None:
    """A reason without a suspension, blocking without a quota, a name that no jobs file could have."""
    before = change(office, concurrency=1)
    for what, words in (
        ({"reason": "x"}, "goes with a suspension"),
        ({"reason": "x", "suspended": False}, "goes with a suspension"),
        ({"quota_blocking": True}, "goes with a quota"),
        ({"quota_blocking": True, "quota": CLEAR}, "goes with a quota"),
        ({"name": "Team", "concurrency": 1}, 'named "Team"'),
        ({"name": "", "concurrency": 1}, "named"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            change(office, **what)
    assert office.run(office.catalog.workspaces()) == [before]


def test_the_same_again_writes_nothing_and_a_race_is_run_again(office: Office) -> None:
    """A change that lost against another is made to what the other left."""
    change(office, quota=5)
    desk = office.with_store(catalog=Failing(office.catalog, StoreBusyError("written"), "set_workspace"))
    assert office.run(set_workspace(desk, "team", quota=5)).quota == Quota(max=5)

    class Racing:
        raced = False

        def __getattr__(self, name: str) -> Any:
            return getattr(office.catalog, name)

        async def set_workspace(self, new: Workspace, *, expected: Workspace | None, term: int) -> None:
            if not self.raced:
                self.raced = True
                other = Workspace(name="team", quota=Quota(max=5), concurrency=9)
                await office.catalog.set_workspace(other, expected=expected, term=term)
            await office.catalog.set_workspace(new, expected=expected, term=term)

    changed = office.run(set_workspace(office.with_store(catalog=Racing()), "team", quota=6))
    assert (changed.quota, changed.concurrency) == (Quota(max=6), 9)


def test_a_standby_sets_nothing(office: Office) -> None:
    """Nothing is written without the term."""
    office.term = None
    with pytest.raises(TermRefusedError):
        change(office, quota=5)
    assert office.run(office.catalog.workspaces()) == []


def test_all_that_is_set_or_named_is_listed_with_its_use_of_the_month(office: Office) -> None:
    """Runs that were opened this month count, each for the workspace of its job; in the next month none."""
    office.apply(declared("a", workspace="team"), declared("b", workspace="other"))
    change(office, quota=5)
    change(office, "unused", suspended=True)
    office.work(T0 + 30_000)
    views = office.run(list_workspaces(office.catalog, office.history, now_ms=office.now))
    assert [(one.workspace.name, one.month, one.used) for one in views] == [
        ("other", "2026-01", 3),
        ("team", "2026-01", 3),
        ("unused", "2026-01", 0),
    ]
    assert views[1].workspace.quota == Quota(max=5)
    later = office.run(show_workspace(office.catalog, office.history, "team", now_ms=T0 + 40 * 86_400_000))
    assert (later.month, later.used) == ("2026-02", 0)
    assert office.run(show_workspace(office.catalog, office.history, "other", now_ms=office.now)).used == 3


def test_an_unknown_workspace_is_not_found(office: Office) -> None:
    """The error says which there are."""
    office.apply(declared("a", workspace="team"))
    with pytest.raises(NotFoundError, match='"taem"') as caught:
        office.run(show_workspace(office.catalog, office.history, "taem", now_ms=T0))
    assert caught.value.hint == "there is team"
