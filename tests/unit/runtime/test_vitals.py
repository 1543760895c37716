"""What the pulse says besides that it beats: crash loops, codes, and what is wrong with a store."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.main import cli
from cronpad_core.domain.events import AlertFailed, AlertSent, ClockStepped, RunEnded, StoreFailed, StoreRecovered
from cronpad_core.domain.occurrence import Occurrence, Trigger
from cronpad_core.domain.run import RunStatus
from cronpad_core.domain.timing import HOUR, MINUTE, SECOND
from cronpad_core.host.records import PluginRecord, PluginState
from cronpad_core.runtime.clock import SystemClock
from cronpad_core.runtime.health import FILE, Pulse, read_pulse, write_pulse
from cronpad_core.runtime.vitals import Vitals


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.wall, self.boot, self.boot_name, self.slept = 1_767_225_600_000, 900_000, "boot-1", list[int]()

    def wall_ms(self) -> int:
        """Unix time."""
        return self.wall

    def boot_ms(self) -> int:
        """Since the start."""
        return self.boot

    def boot_id(self) -> str:
        """This start."""
        return self.boot_name

    async def sleep(self, duration_ms: int) -> None:
        """Notes it."""
        self.slept.append(duration_ms)

    async def until(self, wall_ms: int) -> None:
        """Not used here."""

    def move(self, by_ms: int) -> None:
        """Lets time pass."""
        self.wall, self.boot = self.wall + by_ms, self.boot + by_ms


class Tools:
    """Storage tools that answer codes, fail, or hang."""

    def __init__(self, *codes: str) -> None:
        self.codes = list(codes)
        self.error: Exception | None = None
        self.hold: asyncio.Event | None = None

    async def degraded(self) -> list[str]:
        """As the test wants."""
        if self.hold is not None:
            await self.hold.wait()
        if self.error is not None:
            raise self.error
        return self.codes


def vitals(clock: Clock, directory: Path | None = None, tools: Tools | None = None, *plugins: PluginRecord) -> Vitals:
    """Of one process."""
    return Vitals(directory, clock, plugins, tools)  # type: ignore[arg-type]  # of the tools, only what is asked


def pulse(clock: Clock | SystemClock, **facts: object) -> Pulse:
    """A pulse of this moment."""
    plain = {"dispatcher": "active", "pid": 1, "term": 3, "boot_id": clock.boot_id(), "beat_boot_ms": clock.boot_ms()}
    return Pulse(**{**plain, "fresh_for_ms": 15_000, **facts})  # type: ignore[arg-type]  # a test's shorthand


def crash(clock: Clock, directory: Path, dispatcher: str = "active") -> bool:
    """A process starts, leaves a pulse and dies; answers whether it found itself in a crash loop."""
    one = vitals(clock, directory)
    looping = one.note_start()
    write_pulse(directory, pulse(clock, dispatcher=dispatcher, starts=one.starts))
    clock.move(5 * SECOND)
    return looping


def test_more_than_five_starts_in_a_minute_are_a_crash_loop(tmp_path: Path) -> None:
    """The sixth knows it from the pulse that the others left; a minute without one ends it; it waits before it claims."""
    clock = Clock()
    assert [crash(clock, tmp_path) for _ in range(7)] == [False] * 5 + [True] * 2
    one = vitals(clock, tmp_path)
    asyncio.run(one.back_off())
    assert (clock.slept, one.codes(0)) == ([1_000], ("crash_loop",))
    left = read_pulse(tmp_path)
    assert left is not None
    assert (left.dispatcher, left.degraded, len(left.starts)) == ("starting", ("crash_loop",), 8)
    clock.move(MINUTE)
    assert one.codes(0) == ()
    again = vitals(clock, tmp_path)
    asyncio.run(again.back_off())
    assert (clock.slept, again.codes(0)) == ([1_000], ())


def test_graceful_stops_and_reboots_are_no_crashes(tmp_path: Path) -> None:
    """A start after one begins the count again."""
    clock = Clock()
    assert not any(crash(clock, tmp_path, "stopped") for _ in range(9))
    for _ in range(5):
        crash(clock, tmp_path)
    clock.boot_name = "boot-2"
    assert not crash(clock, tmp_path)
    (tmp_path / FILE).write_text("{")
    assert not crash(clock, tmp_path)


def test_a_start_is_counted_once(tmp_path: Path) -> None:
    """However often it is asked for."""
    one = vitals(Clock(), tmp_path)
    for _ in range(9):
        assert not one.note_start()
    assert len(one.starts) == 1


def test_an_alert_that_keeps_failing_is_told_until_one_is_sent() -> None:
    """From the third try on, or once it is given up; another alert that is sent says nothing of this one."""

    def failed(name: str, tries: int, *, given_up: bool = False) -> AlertFailed:
        return AlertFailed(alert_id="al_a", name=name, kind="run_failed", tries=tries, error="no", given_up=given_up)

    one = vitals(Clock())
    one.tell(failed("me", 2))
    assert one.codes(0) == ()
    one.tell(failed("me", 3))
    one.tell(AlertSent(alert_id="al_b", name="others", kind="run_failed", tries=1))
    assert one.codes(0) == ("alerts_failing",)
    one.tell(AlertSent(alert_id="al_a", name="me", kind="run_failed", tries=4))
    assert one.codes(0) == ()
    one.tell(failed("me", 1, given_up=True))
    assert one.codes(0) == ("alerts_failing",)


def test_the_clock_having_been_set_is_told_for_ten_minutes() -> None:
    """By an event, or because wall and boot clock moved apart between two beats; a suspend is none, nor is a slow drift."""
    clock = Clock()
    one = vitals(clock)
    clock.move(HOUR)
    clock.wall += 300
    asyncio.run(one.look())
    one.tell(ClockStepped(by_ms=0, suspended_ms=HOUR))
    assert one.codes(0) == ()
    clock.wall -= 2 * SECOND
    asyncio.run(one.look())
    assert one.codes(0) == ("clock_stepped",)
    clock.move(10 * MINUTE)
    asyncio.run(one.look())
    assert one.codes(0) == ()
    one.tell(ClockStepped(by_ms=-HOUR))
    assert one.codes(0) == ("clock_stepped",)


def test_poisoned_runs_leaked_deliveries_and_failed_plugins() -> None:
    """Each has its code; a loaded plugin, a run that was cancelled, and ten leaked deliveries have none."""
    clock = Clock()

    def plugin(name: str, state: PluginState) -> PluginRecord:
        return PluginRecord(name=name, state=state, distribution=name, version="1", entry_point="x")

    plugins = (plugin("bad", PluginState.FAILED), plugin("good", PluginState.LOADED), plugin("old", PluginState.INCOMPATIBLE))
    one = vitals(clock, None, None, *plugins)
    occurrence = Occurrence(job_id="j", scheduled_at_ms=1, attempt=0, job_version=1, trigger=Trigger.SCHEDULED)

    def end(status: RunStatus) -> None:
        one.tell(RunEnded(occurrence=occurrence, job_name="n", run_id="r", status=status, reason=""))

    end(RunStatus.CANCELLED)
    assert one.codes(10) == ("plugin:bad", "plugin:old")
    end(RunStatus.POISONED)
    assert one.codes(11) == ("leaked_tasks", "poisoned", "plugin:bad", "plugin:old")
    assert one.codes(51)[:2] == ("leaked_tasks", "restart_wanted")
    clock.move(HOUR)
    assert "poisoned" not in one.codes(0)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        ("/s/history.db: database or disk is full (SQLITE_FULL)", "full"),
        ("/s/history.db: database is locked (SQLITE_BUSY)", "busy"),
        ("disk I/O error (SQLITE_IOERR_WRITE)", "ioerr_write"),
        ("gone", "failing"),
    ],
)
def test_what_is_wrong_with_a_store(error: str, word: str) -> None:
    """The last word of its error, until it answers again."""
    one = vitals(Clock())
    one.tell(StoreFailed(store="history", error=error))
    assert one.wrong == {"history": word}
    one.tell(StoreRecovered(store="history", after_ms=1))
    assert one.wrong == {}


def test_storage_that_hangs_or_fails_holds_up_no_beat() -> None:
    """What was seen last is told on; the question stays open and is answered at a later beat; an error is no code."""

    async def main() -> None:
        tools = Tools("wal_large")
        one = vitals(Clock(), None, tools)
        await one.look()
        assert one.codes(0) == ("wal_large",)
        tools.hold, tools.codes = asyncio.Event(), ["disk_low"]
        await one.look()
        assert one.codes(0) == ("wal_large",)
        tools.hold.set()
        await one.look()
        assert one.codes(0) == ("disk_low",)
        tools.error = OSError("no")
        await one.look()
        assert one.codes(0) == ()

    asyncio.run(main())


# ---------------------------------------------------------------------------------------------------- the document


def test_readiness_is_ok_degraded_or_unready(tmp_path: Path) -> None:
    """Codes alone degrade; a store, a stale pulse, another boot or a dispatcher that is not active make it unready."""
    clock = SystemClock()
    well = pulse(clock)
    assert well.readiness(clock) == {
        "status": "ok",
        "dispatcher": "active",
        "control": "ok",
        "history": "ok",
        "queue": "ok",
        "heartbeat_age_s": 0.0,
        "degraded": [],
    }
    assert replace(well, degraded=("wal_large",)).status(clock) == "degraded"
    full = replace(well, failing=("history", "queue"), wrong={"history": "full"}).readiness(clock)
    assert (full["status"], full["history"], full["queue"], full["control"]) == ("unready", "full", "failing", "ok")
    assert replace(well, dispatcher="starting").status(clock) == "unready"
    assert replace(well, beat_boot_ms=clock.boot_ms() - 16_000).status(clock) == "unready"
    assert replace(well, boot_id="other").readiness(clock)["heartbeat_age_s"] is None


def test_a_pulse_of_another_version_is_read(tmp_path: Path) -> None:
    """Of an earlier one without the newer facts, of a later one with facts that nobody knows yet; never of nonsense."""
    clock = SystemClock()
    whole = pulse(clock, degraded=("wal_large",), wrong={"queue": "full"}, starts=(1, 2))
    write_pulse(tmp_path, whole)
    assert read_pulse(tmp_path) == whole
    document = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**document, "mood": "fine"}))
    assert read_pulse(tmp_path) == whole
    for name in ("degraded", "wrong", "starts"):
        del document[name]
    (tmp_path / FILE).write_text(json.dumps(document))
    assert read_pulse(tmp_path) == replace(whole, degraded=(), wrong={}, starts=())
    for nonsense in (
        "[]",
        "1",
        '{"pid": 1}',
        json.dumps({**document, "beat_boot_ms": "soon"}),
        json.dumps({**document, "wrong": 1}),
    ):
        (tmp_path / FILE).write_text(nonsense)
        assert read_pulse(tmp_path) is None


@pytest.mark.parametrize(
    ("facts", "plain", "ready", "word"),
    [
        ({}, 0, 0, "ok"),
        ({"degraded": ("wal_large",)}, 0, 0, "degraded"),
        ({"failing": ("history",)}, 1, 1, "unready"),
        ({"dispatcher": "starting"}, 1, 1, "unready"),
        ({"dispatcher": "stopped"}, 3, 1, "unready"),
        (None, 3, 1, "unready"),
    ],
)
def test_exit_codes_of_health(tmp_path: Path, facts: dict[str, object] | None, plain: int, ready: int, word: str) -> None:
    """With --ready only unready is 1, a state that nobody runs included; without, that is 3."""
    if facts is not None:
        write_pulse(tmp_path, pulse(SystemClock(), **facts))

    def call(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli, ["health", "--state", str(tmp_path), *options], obj=Invocation(environ={}))
        return done.exit_code, done.stdout

    assert call()[0] == plain
    code, said = call("--ready")
    assert (code, said.split(":")[0].strip()) == (ready, word)
    code, said = call("--ready", "--json")
    document = json.loads(said)
    assert (code, document["schema"], document["items"][0]["status"]) == (ready, "cronpad.ready/1", word)


def test_health_of_a_state_that_is_named_by_its_url(tmp_path: Path) -> None:
    """A directory with a space, or its control database."""
    directory = tmp_path / "a state"
    directory.mkdir()
    write_pulse(directory, pulse(SystemClock()))
    for url in (f"sqlite://{directory}", f"sqlite:///{directory}".replace(" ", "%20"), f"sqlite://{directory}/x.db"):
        assert CliRunner().invoke(cli, ["health", "--state", url], obj=Invocation(environ={})).exit_code == 0
    assert CliRunner().invoke(cli, ["health", "--state", str(tmp_path / "no")], obj=Invocation(environ={})).exit_code == 4
