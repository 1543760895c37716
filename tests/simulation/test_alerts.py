"""Alerts in virtual time: told once, over restarts and kills, and of no consequence for any run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from jobs import declare, play
from world import Act, World

from cronpad_core.domain.alerts import AlertKind, AlertRule, AlertSpec
from cronpad_core.domain.events import AlertFailed, AlertSent, AttemptStarted
from cronpad_core.domain.limits import SlaRule
from cronpad_core.domain.outbox import AlertStatus
from cronpad_core.domain.outcome import Failed
from cronpad_core.ports.alerts import Alert
from cronpad_core.ports.sink import Delivery
from cronpad_testkit.tripwire import Action, Call

MINUTE, HOUR = 60_000, 3_600_000
BAD = Act(outcome=Failed(reason="exit 3"))
EVENTS = (AlertKind.RUN_FAILED, AlertKind.RUN_RECOVERED, AlertKind.RUN_POISONED, AlertKind.SLOT_MISSED, AlertKind.RUN_LATE)

Emitting = Callable[[str, Alert, int], Coroutine[Any, Any, None]]


def alert(name: str = "on-call", kind: str = "script", **rule: Any) -> dict[str, AlertSpec]:
    """A declared alert."""
    return {name: AlertSpec(rule=AlertRule(name=name, **{"events": EVENTS, **rule}), type=kind)}


def fails(*runs: int) -> Callable[[Delivery], Act]:
    """A script by which runs of these numbers of job a fail; they are counted from 0."""
    seen: list[int] = []

    def script(delivery: Delivery) -> Act:
        if delivery.job_name != "a":
            return Act()
        if delivery.scheduled_at_ms not in seen:
            seen.append(delivery.scheduled_at_ms)
        return BAD if seen.index(delivery.scheduled_at_ms) in runs else Act()

    return script


def said(world: World, name: str = "on-call") -> list[str]:
    """What the emitters of an alert were called with, each id once."""
    return [kind for kind, _ in dict.fromkeys((one.kind, one.id) for _, _, one in world.said if one.name == name)]


def settled(world: World) -> list[tuple[str, str]]:
    """What stands in the outbox."""
    return [(one.name, one.status.value) for one in world.state.history.alerts.entries.values()]


def test_a_failing_job_tells_at_its_threshold_and_when_it_recovers() -> None:
    """B132: ten failures in a row with retries, a threshold of three and a restart: one failing at the third, one recovered."""

    async def scenario(world: World) -> None:
        world.alerts = alert(after=3)
        world.script = fails(*range(10))
        process = world.start()
        await world.run(5 * MINUTE + 30_000)
        assert said(world) == ["run_failed"]
        assert [one.facts["failures"] for _, _, one in world.said] == [3]
        await process.stop()
        world.start()
        await world.run(4 * MINUTE)
        assert said(world) == ["run_failed"]
        await world.run(3 * MINUTE)

    world = play(scenario, declare("a", "* * * * *", retry=2, alerts=("on-call",)))
    assert said(world) == ["run_failed", "run_recovered"]
    assert settled(world) == [("on-call", "delivered")] * 2
    assert len(world.said) == 2


def test_jobs_without_alerts_tell_nothing() -> None:
    """A job that names no alert, or one that nobody declares, leaves nothing behind."""

    async def scenario(world: World) -> None:
        world.alerts = alert()
        world.script = lambda delivery: BAD
        world.start()
        await world.run(2 * MINUTE)

    world = play(scenario, declare("a", "* * * * *"), declare("b", "* * * * *", alerts=("nobody",)))
    data = world.state.history.alerts
    assert (data.entries, data.states, data.channels) == ({}, {}, {})


async def _raises(name: str, alert: Alert, number: int) -> None:
    raise OSError("no route to host")


async def _exits(name: str, alert: Alert, number: int) -> None:
    raise SystemExit(3)


async def _hangs(name: str, alert: Alert, number: int) -> None:
    await asyncio.sleep(600)


async def _ignores_its_cancellation(name: str, alert: Alert, number: int) -> None:
    end = asyncio.get_running_loop().time() + 600
    while (left := end - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


async def _fails_twice(name: str, alert: Alert, number: int) -> None:
    if number < 2:
        raise RuntimeError("the service answered 500")


@pytest.mark.parametrize("emitting", [_raises, _exits, _hangs, _ignores_its_cancellation, _fails_twice])
def test_an_emitter_in_trouble_delays_no_run(emitting: Emitting) -> None:
    """B134: whether it raises, exits, hangs or fails twice: every run starts on time, and the alert is sent once or still tried."""

    async def scenario(world: World) -> None:
        world.alerts = alert()
        world.emitting = emitting
        world.script = fails(0)
        world.start()
        await world.run(20 * MINUTE)

    world = play(scenario, declare("a", "every 10s", alerts=("on-call",)), declare("b", "every 1s"))
    assert {event.lag_ms for event in world.told(AttemptStarted)} == {0}
    assert len(world.sent("a")) >= 118
    failed, sent = world.told(AlertFailed), world.told(AlertSent)
    if emitting is _fails_twice:
        assert [(one.kind, one.tries) for one in sent] == [("run_failed", 3), ("run_recovered", 3)]
        assert [one.error for one in failed] == ["the service answered 500"] * 4
        assert settled(world) == [("on-call", "delivered")] * 2
    else:
        assert sent == []
        assert len(failed) >= 4
        assert settled(world) == [("on-call", "pending")] * 2


def test_what_cannot_be_sent_is_given_up_and_another_is_told() -> None:
    """What cannot be sent for too long (a heartbeat: ten minutes) stands as undelivered; the other alert tells of it once."""

    async def only_spare(name: str, alert: Alert, number: int) -> None:
        if name == "on-call":
            raise OSError("no route to host")

    async def scenario(world: World) -> None:
        world.alerts = alert(events=(AlertKind.RUN_STARTED,)) | alert("spare", "other")
        world.emitting = only_spare
        world.start()
        await world.run(13 * MINUTE)

    world = play(scenario, declare("a", "every 1m", alerts=("on-call",)))
    assert ("on-call", "undelivered") in settled(world)
    assert said(world, "spare") == ["emitter_failing"]
    [given_up, *_] = [one for one in world.told(AlertFailed) if one.given_up]
    assert given_up.error == "no route to host"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", ["record", "take_alerts", "settle_alert"])
def test_a_kill_repeats_an_alert_once_at_most(method: str, when: str) -> None:
    """Row 11: killed around a record, a take or a settling, the alert is sent after the restart, twice at most, with one id."""

    async def scenario(world: World) -> None:
        world.alerts = alert()
        world.script = fails(0)
        process = world.start()

        async def kill() -> None:
            process.kill()
            await process.thawed()

        def plan(call: Call) -> Action | None:
            there = call.step == f"history.{method}" and call.after == (when == "after")
            return kill if there and world.sent("a") else None

        process.plan = plan
        await world.until(lambda: not process.alive)
        world.start()
        await world.run(2 * MINUTE)

    world = play(scenario, declare("a", "every 40s", alerts=("on-call",)))
    assert said(world)[0] == "run_failed"
    ids = [one.id for _, _, one in world.said if one.kind == "run_failed"]
    assert len(set(ids)) == 1
    assert len(ids) == (2 if method == "settle_alert" and when == "before" else 1)
    assert {status for _, status in settled(world)} == {AlertStatus.DELIVERED.value}


def test_a_standby_sends_nothing() -> None:
    """Two processes: only the one that dispatches sends, and after a take-over what was pending is sent by the other."""

    async def scenario(world: World) -> None:
        world.alerts = alert()
        world.emitting = _raises
        world.script = fails(0)
        first = world.start()
        await world.run(5_000)
        world.start()
        await world.run(60_000)
        assert {process for _, process, _ in world.said} == {first.name}
        first.kill()
        del world.said[:]
        world.emitting = _fails_twice
        await world.run(3 * HOUR)

    world = play(scenario, declare("a", "every 10s", alerts=("on-call",)))
    assert {process for _, process, _ in world.said} == {"P2"}
    assert settled(world) == [("on-call", "delivered")] * 2


def test_missed_and_late_are_told_once() -> None:
    """A night of downtime is told as missed slots; runs that start later than the sla allows are told when that begins."""

    async def scenario(world: World) -> None:
        world.alerts = alert()
        world.start()
        await world.run(2 * MINUTE + 5_000)
        world.end()
        await world.run(HOUR)
        world.start()
        await world.run(5 * MINUTE)

    world = play(scenario, declare("a", "* * * * *", grace_ms=1_000, sla=SlaRule(start_within_ms=30_000), alerts=("on-call",)))
    assert said(world).count("slot_missed") == 1
    [missed] = [one for _, _, one in world.said if one.kind == "slot_missed"]
    assert missed.facts["missed"] == 59
    assert said(world).count("run_late") <= 1


def test_a_storm_is_told_in_one_alert() -> None:
    """Twenty jobs that fail within the window of a group are one alert that lists them."""

    async def scenario(world: World) -> None:
        world.alerts = alert(group_for_ms=30_000)
        world.script = lambda delivery: BAD
        world.start()
        await world.run(3 * MINUTE)

    world = play(scenario, *(declare(f"job-{number:02}", "* * * * *", alerts=("on-call",)) for number in range(20)))
    [(_, _, one)] = world.said
    assert (one.kind, one.facts["count"], one.job_name) == ("run_failed", 20, "")
    assert one.text.splitlines()[0] == "20 alerts"
    assert "- job-07 failed: exit 3" in one.text.splitlines()


def test_heartbeats_are_told_for_each_run_and_for_cronpad_itself() -> None:
    """Starts and successes of each run in their order; cronpad itself at its interval, past the outbox."""

    async def scenario(world: World) -> None:
        beats = (AlertKind.RUN_STARTED, AlertKind.RUN_SUCCEEDED, AlertKind.RUN_FAILED)
        world.alerts = alert("beat", events=beats, each=True)
        rule = AlertRule(name="alive", events=(AlertKind.RUNNER_ALIVE,))
        world.alerts["alive"] = AlertSpec(rule=rule, type="script", alive_every_ms=30_000)
        world.script = fails(1, 2)
        world.start()
        await world.run(4 * MINUTE + 30_000)

    world = play(scenario, declare("a", "* * * * *", alerts=("beat",)))
    good, bad = ["run_started", "run_succeeded"], ["run_started", "run_failed"]
    assert said(world, "beat") == [*good, *bad, *bad, *good]
    assert 8 <= said(world, "alive").count("runner_alive") <= 10
    assert {name for name, _ in settled(world)} == {"beat"}
