"""The table of operations: what they take, what they answer, and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from office import T0, Office, declared

from cronpad_core.control.operations import OPERATIONS
from cronpad_core.domain.errors import ConfigurationError, NotFoundError, TermRefusedError

S = 1_000


@pytest.fixture
def busy(office: Office) -> Office:
    """A state with a job, a run that has ended, and a workspace."""
    office.apply(declared(text="*/10 * * * * *", workspace="team"))
    office.work(T0 + 15 * S)
    return office


def instants(answer: dict[str, Any]) -> dict[str, Any]:
    """The instants of an answer by name: each is there twice."""
    found = {name: answer[name] for name in answer if name.endswith("_at")}
    assert all(f"{name}_ms" in answer and (answer[f"{name}_ms"] is None) == (found[name] is None) for name in found)
    return found


def test_a_trigger_answers_its_run(busy: Office) -> None:
    """Name and id of the job, the run, and whether it is a new one."""
    answer = busy.perform("trigger", job="a", payload={"x": 1}, token="t", overlap="queue_all")
    run = busy.runs()[0]
    assert answer == {
        "job_id": run.key.job_id,
        "job": "a",
        "run_id": run.id,
        "trigger": "m",
        "status": "pending",
        "reason": "",
        "cancel_requested": False,
        "retry_of": None,
        "scheduled_at": "2026-01-01T00:00:15Z",
        "scheduled_at_ms": T0 + 15 * S,
        "slot_at": "2026-01-01T00:00:15Z",
        "slot_at_ms": T0 + 15 * S,
        "created_at": "2026-01-01T00:00:15Z",
        "created_at_ms": T0 + 15 * S,
        "finished_at": None,
        "finished_at_ms": None,
        "created": True,
    }
    assert (run.payload, run.spec.overlap.policy.value, run.spec.overlap.max) == ({"x": 1}, "queue_all", 100)
    assert busy.perform("trigger", job=run.key.job_id, token="t") == {**answer, "created": False}


def test_pausing_and_resuming_answer_the_job(busy: Office) -> None:
    """How it stands, with its next fire or its pause."""
    paused = busy.perform("job-pause", job="a", reason="r", until_ms=T0 + 60 * S)
    assert instants(paused) == {"next_run_at": None, "paused_until_at": "2026-01-01T00:01:00Z"}
    assert (paused["job"], paused["status"], paused["version"], paused["paused_reason"]) == ("a", "paused", 1, "r")
    resumed = busy.perform("job-resume", job="a")
    assert instants(resumed) == {"next_run_at": "2026-01-01T00:00:20Z", "paused_until_at": None}
    assert (resumed["status"], resumed["version"], resumed["paused_reason"]) == ("active", 2, None)


def test_cancelling_and_retrying_answer_the_run(busy: Office) -> None:
    """By id, by its beginning, or as the newest of a job."""
    old = busy.runs()[0]
    retried = busy.perform("run-retry", run=old.id[:12], token="t")
    assert (retried["retry_of"], retried["trigger"], retried["created"]) == (old.id, "r", True)
    assert instants(retried)["slot_at"] == "2026-01-01T00:00:10Z"
    assert busy.perform("run-retry", run=old.id, token="t") == {**retried, "created": False}
    cancelled = busy.perform("run-cancel", run="a", reason="no")
    assert (cancelled["run_id"], cancelled["status"], cancelled["reason"]) == (retried["run_id"], "cancelled", "cancelled: no")
    assert (cancelled["told"], cancelled["cancel_requested"]) == (False, True)


def test_a_backfill_answers_its_plan_and_what_is_kept(busy: Office) -> None:
    """A dry run keeps nothing and has no id; a cancel answers how far it came."""
    span = {"job": "a", "from_ms": T0 - 25 * S, "to_ms": T0}
    dry = busy.perform("backfill", **span, dry_run=True)
    assert (dry["job"], dry["slots"], dry["created"]) == ("a", 3, False)
    assert instants(dry) == {
        "from_at": "2025-12-31T23:59:35Z",
        "to_at": "2026-01-01T00:00:00Z",
        "first_at": "2025-12-31T23:59:40Z",
        "last_at": "2026-01-01T00:00:00Z",
    }
    assert "backfill_id" not in dry and busy.run(busy.history.backfills()) == []
    kept = busy.perform("backfill", **span, overlap={"policy": "allow", "max": 2})
    assert kept.items() >= {**dry, "created": True, "status": "open", "overlap": "allow", "started": 0, "passed": 0}.items()
    cancelled = busy.perform("backfill-cancel", backfill=kept["backfill_id"])
    assert (cancelled["backfill_id"], cancelled["status"], cancelled["job"]) == (kept["backfill_id"], "cancelled", "a")
    assert instants(cancelled)["finished_at"] == "2026-01-01T00:00:15Z"
    assert instants(busy.perform("backfill", job="a", from_ms=T0 - 9 * S, to_ms=T0 - S, dry_run=True))["first_at"] is None


def test_a_workspace_answers_its_limits_and_its_use(busy: Office) -> None:
    """What is left out stays, and null takes a limit away."""
    answer = busy.perform("workspace-set", workspace="team", suspended=True, reason="r", quota=5, concurrency=2)
    assert answer == {
        "workspace": "team",
        "suspended": True,
        "reason": "r",
        "quota": 5,
        "quota_blocking": True,
        "concurrency": 2,
        "month": "2026-01",
        "used": 1,
    }
    changed = busy.perform("workspace-set", workspace="team", suspended=False, quota=None, quota_blocking=None)
    assert changed == {**answer, "suspended": False, "reason": "", "quota": None, "quota_blocking": None}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("trigger", {}, '"job"'),
    ("trigger", {"job": ""}, '"job"'),
    ("trigger", {"job": 5}, '"job"'),
    ("trigger", {"job": "\ud800"}, '"job"'),
    ("trigger", {"job": "a\0"}, '"job"'),
    ("trigger", {"job": "x" * 1_001}, '"job".*1,000 characters'),
    ("trigger", {"job": "a", "token": ["t"]}, '"token"'),
    ("trigger", {"job": "a", "payload": float("nan")}, '"payload"'),
    ("trigger", {"job": "a", "payload": "\udfff"}, '"payload"'),
    ("trigger", {"job": "a", "payload": "x" * 65_537}, '"payload".*64 KiB'),
    ("trigger", {"job": "a", "overlap": "maybe"}, '"overlap".*skip, allow'),
    ("trigger", {"job": "a", "overlap": 1}, '"overlap"'),
    ("trigger", {"job": "a", "overlap": {"policy": "allow", "max": 0}}, '"overlap"'),
    ("trigger", {"job": "a", "overlap": {"policy": "allow", "max": True}}, '"overlap"'),
    ("trigger", {"job": "a", "overlap": {"policy": "skip", "max": 2}}, '"overlap"'),
    ("trigger", {"job": "a", "overlap": {"policy": "allow", "most": 2}}, '"overlap"'),
    ("trigger", {"job": "a", "jbo": 1}, 'no argument "jbo"'),
    ("backfill", {"job": "a", "to_ms": T0}, '"from_ms"'),
    ("backfill", {"job": "a", "from_ms": 0.5, "to_ms": T0}, '"from_ms"'),
    ("backfill", {"job": "a", "from_ms": True, "to_ms": T0}, '"from_ms"'),
    ("backfill", {"job": "a", "from_ms": -1, "to_ms": T0}, '"from_ms"'),
    ("backfill", {"job": "a", "from_ms": 0, "to_ms": 2**60}, '"to_ms"'),
    ("backfill", {"job": "a", "from_ms": 0, "to_ms": 1, "dry_run": "yes"}, '"dry_run"'),
    ("backfill", {"job": "a", "from_ms": 0, "to_ms": 1, "force": 1}, '"force"'),
    ("backfill-cancel", {}, '"backfill"'),
    ("job-pause", {"job": "a", "until_ms": "tomorrow"}, '"until_ms"'),
    ("job-pause", {"job": "a", "reason": 5}, '"reason"'),
    ("job-resume", {"job": "a", "until_ms": T0}, 'no argument "until_ms"'),
    ("run-cancel", {"run": None}, '"run"'),
    ("run-retry", {"run": "a", "token": 1}, '"token"'),
    ("workspace-set", {"workspace": "team", "suspended": "no"}, '"suspended"'),
    ("workspace-set", {"workspace": "team", "quota": -1}, '"quota"'),
    ("workspace-set", {"workspace": "team", "quota": False}, '"quota"'),
    ("workspace-set", {"workspace": "team", "quota": 2**63}, '"quota"'),
    ("workspace-set", {"workspace": "team", "concurrency": 0}, '"concurrency"'),
    ("workspace-set", {"workspace": "team", "quota_blocking": 1}, '"quota_blocking"'),
]


@pytest.mark.parametrize(("operation", "arguments", "words"), REFUSED)
def test_a_wrong_argument_is_refused_by_name_and_changes_nothing(
    busy: Office, operation: str, arguments: dict[str, Any], words: str
) -> None:
    """Whatever came over a wire, the error says which argument of which operation, and what it must be."""
    before = (busy.job(), busy.runs(), busy.members())
    with pytest.raises(ConfigurationError, match=words) as caught:
        busy.perform(operation, **arguments)
    assert f'"{operation}"' in caught.value.message and caught.value.exit_code == 2
    assert (busy.job(), busy.runs(), busy.members()) == before
    assert busy.run(busy.catalog.workspaces()) == [] and busy.run(busy.history.backfills()) == []


def test_an_unknown_operation_says_which_there_are(busy: Office) -> None:
    """Programs that are newer than the process they talk to get an answer that helps."""
    with pytest.raises(ConfigurationError, match='unknown operation "explode"') as caught:
        busy.perform("explode")
    assert caught.value.hint is not None and all(name in caught.value.hint for name in OPERATIONS)


def test_what_is_not_there_is_not_found(busy: Office) -> None:
    """Jobs, runs and backfills are looked up by every operation that takes one."""
    span = {"from_ms": T0 - S, "to_ms": T0}
    missing: list[tuple[str, dict[str, Any]]] = [
        *((name, {"job": "z", **(span if name == "backfill" else {})}) for name in OPERATIONS if name in WITH_JOB),
        ("run-cancel", {"run": "run_zz"}),
        ("run-retry", {"run": "z"}),
        ("backfill-cancel", {"backfill": "bf_zz"}),
    ]
    for name, arguments in missing:
        with pytest.raises(NotFoundError):
            busy.perform(name, **arguments)


WITH_JOB = ("trigger", "backfill", "job-pause", "job-resume")


def test_a_standby_refuses_every_operation(busy: Office) -> None:
    """Nothing is changed by a process that does not dispatch; a plan may still be asked for."""
    old = busy.runs()[0]
    backfill = busy.perform("backfill", job="a", from_ms=T0 - 60 * S, to_ms=T0)
    busy.perform("trigger", job="a")
    busy.term = None
    arguments: dict[str, dict[str, Any]] = {
        "trigger": {"job": "a"},
        "backfill": {"job": "a", "from_ms": T0 - 50 * S, "to_ms": T0},
        "backfill-cancel": {"backfill": backfill["backfill_id"]},
        "job-pause": {"job": "a"},
        "job-resume": {"job": "a"},
        "run-cancel": {"run": "a"},
        "run-retry": {"run": old.id},
        "alert-snooze": {"alert": "on-call", "for_ms": 1},
        "workspace-set": {"workspace": "team", "quota": 1},
    }
    assert set(arguments) == set(OPERATIONS)
    before = (busy.job(), busy.runs(), busy.members(), busy.run(busy.history.backfills()))
    for name, given in arguments.items():
        with pytest.raises(TermRefusedError):
            busy.perform(name, **given)
    assert (busy.job(), busy.runs(), busy.members(), busy.run(busy.history.backfills())) == before
    assert busy.perform("backfill", **arguments["backfill"], dry_run=True)["slots"] == 6


def test_every_answer_is_plain_json(busy: Office) -> None:
    """What is answered goes over a socket as it is."""
    answers = [
        busy.perform("trigger", job="a"),
        busy.perform("backfill", job="a", from_ms=T0 - 60 * S, to_ms=T0),
        busy.perform("job-pause", job="a"),
        busy.perform("run-cancel", run="a"),
        busy.perform("workspace-set", workspace="team", quota=1),
    ]
    assert json.loads(json.dumps(answers, allow_nan=False)) == answers
