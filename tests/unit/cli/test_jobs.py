"""``jobs list`` and ``jobs show`` of a state on disk: rules in words, pauses with their reason, catch-ups with what is left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from cronpad_core.domain.dispatch import TermRecord
from cronpad_core.domain.job import Job, JobSpec, JobStatus, Replay, ScheduleSpec, SinkSpec
from cronpad_core.domain.limits import ConcurrencyRule, SlaRule
from cronpad_core.domain.overlap import NO_BOUND, OverlapPolicy, OverlapRule
from cronpad_core.ports.catalog import JobWrite
from cronpad_core.ports.storage import StorageOptions

Call = Callable[..., Result]
Keep = Callable[..., None]

T0 = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
MINUTE = 60_000


def make(name: str, **more: Any) -> Job:
    """An active job of every minute; what is no field of a job is one of its spec."""
    standing = {key: more.pop(key) for key in list(more) if key in Job.__dataclass_fields__ and key != "spec"}
    schedule = more.pop("schedule", ScheduleSpec(texts=("* * * * *",)))
    spec = JobSpec(name=name, schedule=schedule, sink=SinkSpec(type="command", settings={"command": "x"}), **more)
    known = {
        "id": f"job_{name}",
        "origin": "/etc/jobs.toml",
        "version": 1,
        "status": JobStatus.ACTIVE,
        "next_run_at_ms": T0 + MINUTE,
        "valid_from_ms": T0,
    }
    return Job(spec=spec, **(known | standing))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where the state is."""
    return tmp_path / "state"


@pytest.fixture
def keep(state: Path) -> Keep:
    """``keep(job, …)``: makes a state that holds these jobs."""
    storage_of = pytest.importorskip("cronpad_sql.storage").SqliteStorage

    async def write(jobs: tuple[Job, ...]) -> None:
        storage = storage_of(StorageOptions(url=f"sqlite://{state}", wall_ms=lambda: T0))
        await storage.open()
        await storage.prepare()
        assert await storage.catalog.swap_term(TermRecord(), TermRecord(term=1, holder="us"))
        await storage.catalog.write([JobWrite(job=job, expected=None) for job in jobs], term=1)
        await storage.close()

    return lambda *jobs: asyncio.run(write(jobs))


@pytest.fixture
def show(call: Call, state: Path) -> Callable[[str], dict[str, str]]:
    """``show("name")``: the lines of ``jobs show`` by their label; a line without one goes by its first word."""

    def run(name: str) -> dict[str, str]:
        result = call("--state", str(state), "jobs", "show", name)
        assert (result.exit_code, result.stderr) == (0, "")
        lines = result.stdout.splitlines()[1:]
        return {line.split()[0]: line[13:] for line in lines}

    return run


OVERLAPS = [
    (OverlapRule(), "skip: one runs at a time, a further one is skipped"),
    (OverlapRule(policy=OverlapPolicy.ALLOW, max=5), "allow: up to 5 run at once, further ones are skipped"),
    (OverlapRule(policy=OverlapPolicy.ALLOW, max=NO_BOUND), "allow: as many run at once as there are workers"),
    (OverlapRule(policy=OverlapPolicy.QUEUE_ONE), "queue_one: one run waits for its turn, further ones are skipped"),
    (
        OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=1000),
        "queue_all: up to 1,000 wait for their turn, further ones are skipped",
    ),
    (
        OverlapRule(policy=OverlapPolicy.CANCEL_RUNNING),
        "cancel_running: the running one is asked to end, then the newest runs",
    ),
    (OverlapRule(policy=OverlapPolicy.KILL_RUNNING), "kill_running: the running one is killed, then the newest runs"),
]


def test_overlap_in_words(keep: Keep, show: Callable[[str], dict[str, str]]) -> None:
    """Each policy says what becomes of a further run, with its number."""
    keep(*(make(f"j{at}", overlap=rule) for at, (rule, _) in enumerate(OVERLAPS)))
    assert {rule.policy for rule, _ in OVERLAPS} == set(OverlapPolicy)
    assert [show(f"j{at}")["overlap"] for at in range(len(OVERLAPS))] == [words for _, words in OVERLAPS]


def test_limits_in_words(keep: Keep, show: Callable[[str], dict[str, str]]) -> None:
    """Caps, the sla and the workspace; a rule that a job does not have has no line."""
    keep(
        make("plain"),
        make("own", concurrency=ConcurrencyRule(max=2), sla=SlaRule(finish_within_ms=90_000), workspace="ops"),
        make("keyed", concurrency=ConcurrencyRule(max=3, key="db"), sla=SlaRule(start_within_ms=1, finish_within_ms=600_000)),
    )
    plain, own, keyed = show("plain"), show("own"), show("keyed")
    assert {"concurrency", "sla", "catching"}.isdisjoint(plain)
    assert (plain["workspace"], own["workspace"]) == ("default", "ops")
    assert own["concurrency"] == "at most 2 at once of this job, further ones are held back"
    assert keyed["concurrency"] == 'at most 3 at once of all jobs with the key "db", further ones are held back'
    assert own["sla"] == "finish within 1m30s"
    assert keyed["sla"] == "start within 1ms, finish within 10m"


def test_a_catch_up_under_way(keep: Keep, show: Callable[[str], dict[str, str]], call: Call, state: Path) -> None:
    """What is left counts from the slot that the job stands at to the last one decided; past it, nothing is caught up."""
    many = Replay(until_ms=T0 + 1500 * MINUTE, then_ms=T0 + 2000 * MINUTE)
    last = Replay(until_ms=T0 + MINUTE, then_ms=T0 + 9 * MINUTE)
    keep(
        make("many", replay=many),
        make("last", replay=last),
        make("past", replay=last, next_run_at_ms=T0 + 9 * MINUTE),
        make("stopped", replay=many, status=JobStatus.PAUSED),
    )
    assert show("many")["catching"] == "catching up: 1,500 slots left, until 2026-01-02T01:00:00Z"
    assert show("last")["catching"] == "catching up: 1 slot left, until 2026-01-01T00:01:00Z"
    assert "catching" not in show("past")
    assert "catching" not in show("stopped")
    listed = call("--state", str(state), "jobs", "list").stdout.splitlines()
    assert [line.partition("command")[2].strip() for line in listed[1:]] == [
        "catching up: 1 slot left, until 2026-01-01T00:01:00Z",
        "catching up: 1,500 slots left, until 2026-01-02T01:00:00Z",
        "-",
        "-",
    ]
    documents = json.loads(call("--state", str(state), "jobs", "list", "--json").stdout)["items"]
    assert [one["catching_up"] for one in documents] == [
        {"slots_left": 1, "until": "2026-01-01T00:01:00Z"},
        {"slots_left": 1500, "until": "2026-01-02T01:00:00Z"},
        None,
        None,
    ]


def test_a_pause_with_its_reason(keep: Keep, show: Callable[[str], dict[str, str]], call: Call, state: Path) -> None:
    """Why and until when, as far as it is known; a reason of an earlier pause is not shown, and cannot act on a terminal."""
    paused = {"status": JobStatus.PAUSED, "next_run_at_ms": None}
    keep(
        make("a", paused_reason="disk full", paused_until_ms=T0 + 60 * MINUTE, **paused),
        make("b", paused_reason="new\n\x1b[31mdisk", **paused),
        make("c", paused_until_ms=T0, **paused),
        make("d", **paused),
        make("e", paused_reason="long ago"),
    )
    assert show("a")["status"] == "paused, disk full, until 2026-01-01T01:00:00Z"
    assert show("a")["next"] == "none while paused"
    assert show("b")["status"] == r"paused, new\n\x1b[31mdisk"
    assert show("c")["status"] == "paused, until 2026-01-01T00:00:00Z"
    assert show("d")["status"] == "paused"
    assert show("e")["status"] == "active"
    listed = call("--state", str(state), "jobs", "list").stdout.splitlines()
    assert listed[0].split()[-1] == "note"
    assert [line.partition("command")[2].strip() for line in listed[1:]] == [
        "disk full, until 2026-01-01T01:00:00Z",
        r"new\n\x1b[31mdisk",
        "until 2026-01-01T00:00:00Z",
        "-",
        "-",
    ]
    document = json.loads(call("--state", str(state), "jobs", "show", "a", "--json").stdout)["items"][0]
    assert (document["paused_reason"], document["paused_until"]) == ("disk full", "2026-01-01T01:00:00Z")
    assert document["spec"]["overlap"] == {"policy": "skip", "max": 1}


def test_jobs_without_a_next_fire_break_no_list(keep: Keep, call: Call, state: Path) -> None:
    """Paused, spent, never to fire again, in a zone that is not known here: each is a row, and so is the normal one (B116)."""
    replay = Replay(until_ms=T0 + 5 * MINUTE, then_ms=None)
    keep(
        make("ended", status=JobStatus.COMPLETED, next_run_at_ms=None, schedule=ScheduleSpec(texts=("* * * * * * 2001",))),
        make("normal"),
        make("paused", status=JobStatus.PAUSED, next_run_at_ms=None),
        make("spent", status=JobStatus.COMPLETED, next_run_at_ms=None, schedule=ScheduleSpec(texts=("at 2001-01-01T00:00:00",))),
        make("zone", replay=replay, schedule=ScheduleSpec(texts=("* * * * *",), timezone="Mars/Olympus")),
    )
    result = call("--state", str(state), "jobs", "list")
    assert result.exit_code == 0, result.stderr
    rows = {line.split()[0]: line for line in result.stdout.splitlines()[1:]}
    assert list(rows) == ["ended", "normal", "paused", "spent", "zone"]
    assert "catching up: until 2026-01-01T00:05:00Z" in rows["zone"]
    fires = {one["name"]: one for one in json.loads(call("--state", str(state), "jobs", "list", "--json").stdout)["items"]}
    assert [name for name, one in fires.items() if one["next"] is None] == ["ended", "paused", "spent"]
    assert fires["normal"]["next"] == "2026-01-01T00:01:00Z"
    assert fires["zone"]["catching_up"] == {"slots_left": None, "until": "2026-01-01T00:05:00Z"}
    assert call("--state", str(state), "jobs", "show", "zone").exit_code == 0
    assert "never again" in call("--state", str(state), "jobs", "show", "spent").stdout
