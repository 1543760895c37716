"""Claims before results: what waits for the end of an opening is called then, once."""

from __future__ import annotations

import pytest

from cronpad_core.engine.rush import Rush


def test_without_a_claim_nobody_waits() -> None:
    """Before any and after all the answer is no, and nothing is called."""
    rush, called = Rush(), list[str]()
    assert not rush.after(lambda: called.append("a"))
    with rush.hour():
        pass
    assert not rush.after(lambda: called.append("b"))
    assert called == []


def test_who_waits_is_called_when_the_last_claim_is_opened() -> None:
    """In the order of asking, after all of several claims, once."""
    rush, called = Rush(), list[str]()
    with rush.hour():
        assert rush.after(lambda: called.append("a"))
        with rush.hour():
            assert rush.after(lambda: called.append("b"))
        assert called == []
    assert called == ["a", "b"]
    with rush.hour():
        pass
    assert called == ["a", "b"]


def test_a_claim_that_breaks_off_lets_results_go() -> None:
    """Whatever ended it: results are never left waiting for a claim that is over."""
    rush, called = Rush(), list[str]()

    def broken() -> None:
        with rush.hour():
            rush.after(lambda: called.append("a"))
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken()
    assert called == ["a"] and not rush.after(lambda: None)


def test_who_is_called_may_wait_again() -> None:
    """What a call begins belongs to the next claim, not to this one."""
    rush, called = Rush(), list[bool]()
    with rush.hour():
        rush.after(lambda: called.append(rush.after(lambda: called.append(True))))
    assert called == [False]
