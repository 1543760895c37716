"""Real deliveries of real processes; every test must leave no process, no zombie and no descriptor behind."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cronpad_command import nursery_link
from cronpad_command.nursery.wire import MARK
from cronpad_command.nursery_spawner import NurserySpawner
from cronpad_command.settings import Settings
from cronpad_command.sink import CommandSink
from cronpad_command.spawn import AsyncioSpawner
from cronpad_core.api import CancelSignal, Delivery, Outcome, SinkContext, Spawner, Trigger

MARKER = "CRONPAD_TEST_MARKER"
PATIENCE = 60.0
"""How many seconds a test waits for what should come at once: when it gives up, never what it proves."""


def open_descriptors() -> dict[str, str]:
    """What each open descriptor of this process stands for."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return found


def _children() -> list[str]:
    return [child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()]


def own_children() -> list[str]:
    """The children of this process, zombies included, but for its nursery while that runs."""
    return [child for child in _children() if not _is_nursery(child)]


def nurseries() -> list[str]:
    """The nurseries of this process that run."""
    return [child for child in _children() if _is_nursery(child)]


def _is_nursery(pid: str) -> bool:
    try:
        return MARK in Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], object], within: float = PATIENCE) -> None:
    """Waits without an event loop until something is so; looks once more after the end, as this process may be the slow one."""
    end = time.monotonic() + within
    while True:
        late = time.monotonic() > end
        if condition():
            return
        assert not late, f"waited {within:g} s"
        time.sleep(0.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Builds deliveries, runs them, and looks for what they left."""

    marker: str
    environ: Mapping[str, str]
    state: str
    plain: bool = False

    def spawner(self, state: str | None = None) -> Spawner:
        """What starts the commands: a nursery of this bench's state or another, or the runner itself."""
        return AsyncioSpawner() if self.plain else NurserySpawner(state=self.state if state is None else state)

    def sink(self, spawner: Spawner | None = None) -> CommandSink:
        """A sink as the host builds it, its environment marked."""
        context = SinkContext(settings={}, environ={**self.environ, MARKER: self.marker}, secret=lambda name: name)
        return CommandSink(context, spawner=spawner or self.spawner())

    def within(self, environ: Mapping[str, str]) -> Bench:
        """The same bench, as if cronpad had been started in another environment."""
        return replace(self, environ=environ)

    def delivery(self, command: str | list[str], *, settings: Mapping[str, Any] | None = None, **changes: Any) -> Delivery:
        """A first attempt with a timeout that no test means to meet, unless it says so."""
        first = Delivery(
            job_id="job-1",
            job_name="nightly",
            workspace="default",
            run_id=f"run-{uuid.uuid4().hex}",  # no two at a time may be the same on a machine
            occurrence="job-1|1642595400000|0|1|s",
            trigger=Trigger.SCHEDULED,
            attempt=0,
            redelivery=0,
            slot_at_ms=1_642_595_400_000,
            scheduled_at_ms=1_642_595_400_000,
            timezone="UTC",
            fence="7.1",
            timeout_ms=60_000,
            kill_grace_ms=10_000,
            deadline_boot_ms=0,
            settings=Settings(command=command, **(settings or {})),
            cancel=CancelSignal(),
            still_ours=lambda: True,
        )
        return replace(first, **changes)

    def run(self, command: str | list[str], **changes: Any) -> Outcome:
        """One delivery from its start to its outcome, in an event loop of its own; ``cancel`` cannot be given."""

        async def one() -> Outcome:
            return await self.sink().deliver(self.delivery(command, **changes))

        return asyncio.run(one())

    def alive(self) -> list[str]:
        """The command lines of all running processes that this bench has started, however far they went."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                try:
                    if f"{MARKER}={self.marker}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                        found.append((folder / "cmdline").read_text().replace("\0", " "))
                except OSError:
                    continue
        return found

    def wait_until(self, condition: Callable[[], object], within: float = PATIENCE) -> None:
        """The same without an event loop, or while it stands still."""
        wait_until(condition, within)

    async def until(self, condition: Callable[[], object]) -> None:
        """Waits until something is so, for a generous while."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.005)


def text(outcome: Outcome, stream: str = "stdout") -> str:
    """The kept output of one stream, as text."""
    return kept(outcome, stream).decode()


def kept(outcome: Outcome, stream: str = "stdout") -> bytes:
    """The kept output of one stream."""
    return b"".join(part.head + part.tail for part in outcome.output if part.name == stream)


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench whose processes are known by a marker; nothing of them may be left afterwards, nor of their nursery.

    With the parameter ``plain`` the runner starts the commands itself.
    """
    before = open_descriptors()
    # The end of an event loop waits for its nursery; a machine that is busy with other things may need longer than a runner gives.
    monkeypatch.setattr(nursery_link, "_GONE_WITHIN", PATIENCE)
    state = tmp_path / "state"
    state.mkdir()
    plain = getattr(request, "param", "nursery") == "plain"
    made = Bench(marker=uuid.uuid4().hex, environ={"PATH": os.environ["PATH"]}, state=f"sqlite://{state}", plain=plain)
    yield made
    if plain:
        # What a loop's end has killed besides the leader may take a moment to be gone; a nursery waits for it.
        wait_until(lambda: not made.alive())
    assert made.alive() == []
    assert nurseries() == []
    assert own_children() == []
    assert len(open_descriptors()) == len(before), (before, open_descriptors())


@pytest.fixture
def output_of() -> Callable[..., str]:
    """Reads an outcome's output as text."""
    return text


@pytest.fixture
def bytes_of() -> Callable[..., bytes]:
    """Reads an outcome's output as bytes."""
    return kept


@pytest.fixture
def descriptors() -> Callable[[], dict[str, str]]:
    """Lists this process's open descriptors."""
    return open_descriptors


@pytest.fixture
def children() -> Callable[[], list[str]]:
    """Lists this process's children, zombies included."""
    return own_children
