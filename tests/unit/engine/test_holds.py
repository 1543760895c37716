"""The book of those who wait for room: for how long each is given back, and who comes first."""

from __future__ import annotations

import pytest

from cronpad_core.engine.holds import Holds


def held(*members: str, scope: str = "key:k", cap: int = 1) -> Holds:
    """A book with these, in this order."""
    holds = Holds()
    for member in members:
        holds.hold(member, scope, cap)
    return holds


@pytest.mark.parametrize(
    ("cap", "delays"),
    [
        (1, [250, 500, 750, 1000]),
        (2, [250, 250, 500, 500]),
        (3, [250, 250, 250, 500]),
        (100, [250] * 4),
        (0, [250, 500, 750, 1000]),
    ],
)
def test_each_place_has_its_delay(cap: int, delays: list[int]) -> None:
    """The k-th that waits comes up after 250 ms for each whole round of the cap before it; without a cap as with one of 1."""
    holds = Holds()
    assert [holds.hold(member, "all", cap) for member in "abcd"] == delays


def test_nobody_waits_for_longer_than_five_seconds() -> None:
    """However many wait, each looks again within 5 s."""
    holds = Holds()
    delays = [holds.hold(f"m{number}", "all", 1) for number in range(100)]
    assert (delays[18], delays[19], delays[20], delays[99]) == (4_750, 5_000, 5_000, 5_000)


def test_who_is_held_again_keeps_its_place() -> None:
    """A look that found no room costs nobody the place; scopes are counted each for itself."""
    holds = held("a", "b", "c")
    assert [holds.hold(member, "key:k", 1) for member in "cba"] == [750, 500, 250]
    assert holds.hold("d", "key:other", 1) == 250
    assert len(holds) == 4


def test_who_leaves_makes_all_behind_move_up() -> None:
    """Wherever it stood; to leave twice, or without having waited, is to leave once."""
    holds = held("a", "b", "c")
    for _ in range(2):
        holds.leave("b")
    holds.leave("never was here")
    assert [holds.hold(member, "key:k", 1) for member in "ac"] == [250, 500]
    holds.leave("a")
    assert holds.first(["key:k"]) == ["c"]
    assert holds.hold("a", "key:k", 1) == 500, "who comes back stands last"


def test_who_waits_for_something_else_stands_last_there() -> None:
    """An entry is in one line at a time: in that of the first cap without room."""
    holds = held("a", "b")
    holds.hold("x", "all", 1)
    assert holds.hold("a", "all", 1) == 500
    assert (holds.first(["key:k"]), holds.first(["all"]), len(holds)) == (["b"], ["x"], 3)


def test_the_first_of_each_scope() -> None:
    """One for each scope in which anybody waits, in the order of the question."""
    holds = held("a", "b")
    holds.hold("x", "workspace:w", 1)
    assert holds.first(["workspace:w", "all", "key:k"]) == ["x", "a"]
    assert holds.first([]) == []


def test_a_book_that_is_cleared_or_left_by_all_is_empty() -> None:
    """Nothing of those who waited is kept; whoever comes afterwards is the first."""
    holds = held("a", "b")
    holds.clear()
    assert (len(holds), holds.first(["key:k"]), holds.hold("b", "key:k", 1)) == (0, [], 250)
    holds.leave("b")
    assert (len(holds), holds.first(["key:k"])) == (0, [])
    assert not any((holds._arrivals, holds._members, holds._places)), "a book for a year of runs does not grow"
