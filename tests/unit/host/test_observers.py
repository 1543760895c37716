"""Observers are fed beside the line: none delays it, and one that misbehaves is left out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from cronpad_core.domain.events import QueueRebuilt
from cronpad_core.host.calls import HookCall
from cronpad_core.host.observers import Observers, tell_hook


def listens(plugin: str, function: Callable[..., Any]) -> HookCall:
    return HookCall(hook="cronpad_event", plugin=plugin, function=function, accepts=frozenset({"event"}))


def event(text: object) -> QueueRebuilt:
    return QueueRebuilt(reason=str(text))


def test_without_listeners_nothing_is_started() -> None:
    """``wanted`` is false, and an event costs a look at it."""
    observers = Observers((), report=print)
    before = threading.active_count()
    observers.tell(event(1))
    assert not observers.wanted
    assert threading.active_count() == before
    observers.close()


def test_events_arrive_in_order_at_every_listener_although_one_raises() -> None:
    """A failure is said with the plugin's name and reaches nobody else."""
    seen: list[str] = []
    said: list[str] = []

    def bad(event: QueueRebuilt) -> None:
        if event.reason == "1":
            raise SystemExit("odd")

    observers = Observers([listens("bad", bad), listens("good", lambda event: seen.append(event.reason))], report=said.append)
    assert observers.wanted
    for index in range(20):
        observers.tell(event(index))
    observers.close(5)
    assert seen == [str(index) for index in range(20)]
    assert said == ["plugin bad: cronpad_event raised SystemExit: odd"]
    assert observers.errors == {"bad": 1}
    assert observers.quarantined == {}


def test_five_failures_in_a_row_are_the_end() -> None:
    """A success in between starts the count again; the others are still called."""
    calls: list[str] = []
    seen: list[str] = []
    said: list[str] = []

    def bad(event: QueueRebuilt) -> None:
        calls.append(event.reason)
        if event.reason != "3":
            raise ValueError(event.reason)

    observers = Observers([listens("bad", bad), listens("good", lambda event: seen.append(event.reason))], report=said.append)
    for index in range(12):
        observers.tell(event(index))
    observers.close(5)
    assert len(calls) == 4 + 5
    assert len(seen) == 12
    assert observers.quarantined == {"bad": "5 failures in a row, the last: ValueError: 8"}
    assert said[-1].startswith("plugin bad: cronpad_event is no longer called: 5 failures")


def test_a_listener_that_hangs_is_quarantined_at_once() -> None:
    """When it was the only one, nothing is wanted any more."""
    release = threading.Event()
    told = threading.Event()
    observers = Observers([listens("hangs", lambda event: release.wait(10))], report=lambda text: told.set(), deadline_s=0.05)
    observers.tell(event(1))
    assert told.wait(5)
    observers.close(1)
    assert observers.quarantined == {"hangs": "no answer within 0.05 s"}
    assert not observers.wanted
    release.set()


def test_a_full_queue_drops_and_counts() -> None:
    """``tell`` never waits."""
    entered, release = threading.Event(), threading.Event()

    def slow(event: QueueRebuilt) -> None:
        entered.set()
        release.wait(10)

    observers = Observers([listens("slow", slow)], report=print, capacity=2)
    observers.tell(event(0))
    assert entered.wait(5)
    for index in range(5):
        observers.tell(event(index))
    assert observers.dropped == 3
    release.set()
    observers.close(5)


def test_start_and_stop_hooks_are_guarded() -> None:
    """Each is called; what raised or hung is one line each."""
    release = threading.Event()
    owners: list[str] = []

    def good(owner: str) -> None:
        owners.append(owner)

    def exits(owner: str) -> None:
        raise SystemExit(1)

    def cancels(owner: str) -> None:
        raise asyncio.CancelledError

    def hangs() -> None:
        release.wait(10)

    def call(plugin: str, function: Callable[..., object], accepts: str = "owner") -> HookCall:
        names = frozenset({accepts}) - {""}
        return HookCall(hook="cronpad_started", plugin=plugin, function=function, accepts=names)

    calls = [call("exits", exits), call("hangs", hangs, ""), call("cancels", cancels), call("good", good)]
    lines = asyncio.run(tell_hook(calls, {"owner": "me"}, deadline_s=0.1))
    release.set()
    assert owners == ["me"]
    assert lines == (
        "plugin exits: cronpad_started raised SystemExit: 1",
        "plugin hangs: cronpad_started gave no answer within 0.1 s and is left behind",
        "plugin cancels: cronpad_started cancelled itself",
    )
