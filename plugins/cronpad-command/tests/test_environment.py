"""What a command finds in its environment."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from cronpad_command.environment import scheduled_at
from cronpad_core.api import RunKey, Trigger, idempotency_key, rfc3339

KEY = RunKey(job_id="job-1", scheduled_at_ms=1_642_595_400_000, trigger=Trigger.BACKFILL)
SERVICE = {
    "PATH": "/opt/x/bin:/usr/bin:/bin",
    "APP_MODE": "prod",
    "CRONPAD_SECRET_KEY": "k",
    "CRONPAD_STATE": "postgresql://u:p@db/cronpad",
    "LC_ALL": "C",
}


def _environment(output: str) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in output.split("\0") if entry)


@pytest.fixture
def seen(bench, output_of):
    """Runs ``env`` in a service's environment and reads what it printed."""

    def run(settings=None, environ=SERVICE, **changes):
        return _environment(output_of(bench.within(environ).run(["env", "-0"], settings=settings, **changes)))

    return run


def test_the_service_environment_is_inherited_and_its_secrets_are_not(bench, output_of, seen):
    """B097: variables and PATH of the service are there, HOME is not made up, the scheduler's own secrets stay with it."""
    line = output_of(bench.within(SERVICE).run("echo $PATH $APP_MODE ${HOME-unset}"))
    assert line == "/opt/x/bin:/usr/bin:/bin prod unset\n"
    names = seen().keys()
    assert not {name for name in names if name.startswith("CRONPAD_SECRET")}
    assert "CRONPAD_STATE" not in names


def test_a_job_overrides_what_it_inherits(seen):
    """B097: per-job variables win, PATH and a state of its own among them."""
    own = {"APP_MODE": "test", "CRONPAD_STATE": "mine", "EMPTY": "", "UNI": "ü=1"}
    env = seen(settings={"env": own})
    assert {name: env[name] for name in own} == own


def test_a_clean_environment_is_a_short_list(seen):
    """``env_mode = "clean"`` keeps what a program cannot do without, and the job's own variables."""
    env = seen(settings={"env_mode": "clean", "env": {"MINE": "1"}})
    assert "APP_MODE" not in env
    assert (env["PATH"], env["LC_ALL"], env["MINE"]) == (SERVICE["PATH"], "C", "1")
    assert seen(settings={"env_mode": "clean"}, environ={})["PATH"] == "/usr/local/bin:/usr/bin:/bin"


def test_a_shell_is_found_whatever_the_path(bench, output_of):
    """A job whose PATH holds no shell still has one."""
    assert output_of(bench.run("echo hi", settings={"env": {"PATH": "/nowhere"}})) == "hi\n"


def test_a_program_is_looked_up_in_the_jobs_path(bench, output_of, tmp_path):
    """A list's program is found where the job's own PATH says."""
    program = tmp_path / "only-here"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    assert output_of(bench.run(["only-here"], settings={"env": {"PATH": f"{tmp_path}:/usr/bin:/bin"}})) == "found\n"


def test_a_command_is_told_of_its_run(seen):
    """Every fact of the run is there, as text."""
    env = seen(run_id="run-1", attempt=2, trigger=Trigger.BACKFILL)
    assert len(env.pop("CRONPAD_NURSERY")) == 16
    assert {name: value for name, value in env.items() if name.startswith("CRONPAD_") and "MARKER" not in name} == {
        "CRONPAD_JOB": "nightly",
        "CRONPAD_RUN_ID": "run-1",
        "CRONPAD_OCCURRENCE": "job-1|1642595400000|0|1|s",
        "CRONPAD_ATTEMPT": "2",
        "CRONPAD_SCHEDULED_AT": "2022-01-19T12:30:00+00:00",
        "CRONPAD_TIMEZONE": "UTC",
        "CRONPAD_TRIGGER": "backfill",
        "CRONPAD_FENCE": "7.1",
        "CRONPAD_IDEMPOTENCY_KEY": idempotency_key(KEY),
    }


def test_a_payload_is_json(seen):
    """What a trigger gave the run is there as JSON text, and nothing is where it gave none."""
    assert json.loads(seen(payload={"of": [1, "é"]})["CRONPAD_PAYLOAD"]) == {"of": [1, "é"]}
    assert "CRONPAD_PAYLOAD" not in seen()


def test_the_scheduled_time_is_an_instant_in_the_jobs_zone(seen):
    """B052: the local date can be read off it, and a retry a day later carries the same."""
    first = seen(timezone="Pacific/Auckland")
    retry = seen(timezone="Pacific/Auckland", attempt=1, scheduled_at_ms=1_642_687_200_000)
    assert first["CRONPAD_SCHEDULED_AT"] == retry["CRONPAD_SCHEDULED_AT"] == "2022-01-20T01:30:00+13:00"
    assert first["CRONPAD_TIMEZONE"] == "Pacific/Auckland"


@pytest.mark.parametrize("zone", ["No/Such_Zone", "", "../etc/passwd"])
def test_an_unknown_zone_still_gives_an_instant(zone):
    """Without the zone's data the instant is told in UTC."""
    assert scheduled_at(1_642_595_400_250, zone) == "2022-01-19T12:30:00.250+00:00"


@pytest.mark.parametrize("instant_ms", [0, 1, 1_642_595_400_000, 1_711_846_800_000])
def test_the_offset_never_changes_the_instant(instant_ms):
    """The text reads back as the instant that it stands for."""
    text = scheduled_at(instant_ms, "Europe/Madrid")
    assert datetime.fromisoformat(text) == datetime.fromisoformat(rfc3339(instant_ms))


def test_a_trace_is_handed_on_whole(seen):
    """The run's own trace context replaces an inherited one; without one, the environment is left alone."""
    inherited = {**SERVICE, "TRACEPARENT": "00-old", "TRACESTATE": "old"}
    traced = seen(environ=inherited, trace={"traceparent": "00-new"})
    assert traced["TRACEPARENT"] == "00-new"
    assert "TRACESTATE" not in traced
    assert seen(environ=inherited)["TRACEPARENT"] == "00-old"
