"""The runner's JSON is taken as it is, and means what it meant."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cronpad_core.config.jobsfile import LoadedFiles
from cronpad_core.domain.ids import job_id_for
from cronpad_core.domain.job import JobSpec, ScheduleSpec, ShutdownStyle, SinkSpec
from cronpad_core.domain.retry import RetryRule

Load = Callable[..., LoadedFiles]
Report = Callable[..., str]


def _file(*jobs: Mapping[str, Any]) -> str:
    return json.dumps({"jobs": list(jobs)})


def test_all_keys_map_exactly(load: Load) -> None:
    """Every key of the runner's job is in the specification, with the runner's back-off, zone and stop."""
    job = {
        "name": "a",
        "schedule": "*/5 * * * *",
        "command": "echo hi",
        "timeout_ms": 1500,
        "max_retries": 3,
        "jitter_ms": 250,
    }
    (declared,) = load({"jobs.json": _file(job)}).specs
    assert declared.spec == JobSpec(
        name="a",
        schedule=ScheduleSpec(texts=("*/5 * * * *",), timezone="UTC"),
        sink=SinkSpec(type="command", settings={"command": "echo hi"}),
        timeout_ms=1500,
        retry=RetryRule(max=3, base_ms=100, factor=2.0, cap_ms=30_000, jitter=0.0, deadline_ms=None),
        jitter_ms=250,
        shutdown=ShutdownStyle.AT_ONCE,
    )
    assert declared.id is None
    assert declared.origin.endswith("/jobs.json")
    assert declared.origin.startswith("/")
    assert str(declared.place).startswith("jobs.json:1:")


def test_optional_keys_have_the_runners_defaults(load: Load) -> None:
    """60 seconds, no retries, no jitter; a list is kept as a list, for no shell."""
    (declared,) = load({"jobs.json": _file({"name": "a", "schedule": "* * * * *", "command": ["ls", "-l"]})}).specs
    assert (declared.spec.timeout_ms, declared.spec.retry.max, declared.spec.jitter_ms) == (60_000, 0, 0)
    assert declared.spec.sink.settings == {"command": ["ls", "-l"]}


def test_nothing_is_filled_in(load: Load) -> None:
    """``${NAME}`` and ``$$`` stay as they are anywhere in the runner's JSON."""
    text = _file({"name": "a${B}", "schedule": "* * * * *", "command": "echo ${HOME} $$", "tags": ["$$"]})
    (declared,) = load({"jobs.json": text}, environ={"HOME": "/root", "B": "b"}).specs
    assert declared.spec.name == "a${B}"
    assert declared.spec.sink.settings == {"command": "echo ${HOME} $$"}
    assert declared.spec.tags == ("$$",)


def test_native_keys_may_stand_beside_them(load: Load) -> None:
    """``timeout``, ``retry``, ``jitter`` and ``offset`` are understood in the runner's JSON too."""
    job = {"name": "a", "schedule": "* * * * *", "command": "x", "timeout": "5m", "retry": {"base": "1s"}, "max_retries": 2}
    (declared,) = load({"jobs.json": _file({**job, "offset": "3s", "timezone": "Europe/Madrid"})}).specs
    spec = declared.spec
    assert (spec.timeout_ms, spec.retry.max, spec.retry.base_ms, spec.offset_ms) == (300_000, 2, 1000, 3000)
    assert spec.schedule.timezone == "Europe/Madrid"
    assert spec.shutdown is ShutdownStyle.AT_ONCE


@pytest.mark.parametrize(
    ("native", "runner"),
    [
        ({"timeout": "5m"}, {"timeout_ms": 1}),
        ({"retry": 2}, {"max_retries": 1}),
        ({"retry": {"max": 2}}, {"max_retries": 1}),
        ({"jitter": "1s"}, {"jitter_ms": 1}),
    ],
)
def test_both_spellings_are_an_error(report: Report, native: dict[str, Any], runner: dict[str, Any]) -> None:
    """One thing said twice in one job is refused, whatever the two values are."""
    text = report(_file({"name": "a", "schedule": "* * * * *", "command": "x", **native, **runner}), "jobs.json")
    assert text.count("error[") == 1
    assert "error[CP122]" in text


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"timeout_ms": 0}, "CP125", "timeout_ms is out of bounds"),
        ({"timeout_ms": "60s"}, "CP120", "timeout_ms must be a whole number of milliseconds"),
        ({"timeout_ms": True}, "CP120", "this is true or false"),
        ({"timeout_ms": 1.5}, "CP120", "this is a number"),
        ({"timeout_ms": None}, "CP120", "this is nothing"),
        ({"max_retries": -1}, "CP125", "-1 is not in 0-"),
        ({"jitter_ms": -5}, "CP125", "jitter_ms is out of bounds"),
        ({"command": ""}, "CP125", "the command is empty"),
        ({"command": []}, "CP125", "the command is an empty list"),
        ({"command": ["sleep", 5]}, "CP120", 'did you mean "5"?'),
        ({"command": 7}, "CP120", "command must be a text or a list of texts"),
        ({"name": ""}, "CP125", "name is empty"),
        ({"name": "a/b"}, "CP126", "the / is not allowed"),
        ({"name": "a\u0007b"}, "CP126", "U+0007 is not a printable character"),
        ({"name": "e\u0301"}, "CP126", "normal form C"),
        ({"name": "x" * 129}, "CP126", "129 characters"),
        ({"schedule": ""}, "CP102", "the schedule is empty"),
        ({"schedule": []}, "CP102", "the schedule is an empty list"),
        ({"schedule": 5}, "CP120", "the schedule must be a text"),
        ({"schedule": "0 0 30 2 *"}, "CP103", "the schedule never fires"),
        ({"comand": "x"}, "CP101", 'did you mean "command"?'),
        ({"payload": {}}, "CP129", '"payload" is not in this version'),
    ],
)
def test_bad_values_give_one_message(report: Report, change: dict[str, Any], code: str, words: str) -> None:
    """Each kind of bad value is one error with its code, and names its job."""
    job = {"name": "a", "schedule": "* * * * *", "command": "x", **change}
    text = report(json.dumps({"jobs": [job]}, indent=2, ensure_ascii=False), "jobs.json")
    assert text.count("error[") == 1, text
    assert f"error[{code}]" in text
    assert words in text
    assert "┌─ jobs.json:" in text


@pytest.mark.parametrize("key", ["name", "schedule", "command"])
def test_needed_keys(report: Report, key: str) -> None:
    """A job without a name, a schedule or a command is refused."""
    job = {"name": "a", "schedule": "* * * * *", "command": "x"}
    del job[key]
    text = report(_file(job), "jobs.json")
    assert text.count("error[") == 1
    assert "error[CP121]" in text
    assert key in text


def test_a_misspelt_needed_key_is_said_once(report: Report) -> None:
    """The misspelt key is reported, and not also that the right one is missing."""
    text = report(_file({"name": "a", "shedule": "* * * * *", "command": "x"}), "jobs.json")
    assert text.count("error[") == 1
    assert 'unknown key "shedule"' in text


def test_top_level(report: Report) -> None:
    """Anything but an object with ``jobs`` is refused; ``defaults`` needs the native format."""
    assert "this is a list" in report("[]", "jobs.json")
    assert 'the file has no "jobs"' in report("{}", "jobs.json")
    assert 'a native jobs file has "version": 1' in report('{"jobs": [], "defaults": {}}', "jobs.json")
    assert "jobs must be a list" in report('{"jobs": {}}', "jobs.json")
    assert "a job must be a table" in report('{"jobs": [1]}', "jobs.json")


def test_x_keys_are_the_users_own(load: Load) -> None:
    """Keys that begin with ``x-`` are accepted anywhere and left alone."""
    text = '{"x-a": 1, "jobs": [{"name": "a", "schedule": "* * * * *", "command": "x", "x-note": ["${A}"]}]}'
    assert len(load({"jobs.json": text}).specs) == 1


def test_a_native_json_file_is_filled_and_graceful(load: Load) -> None:
    """With ``version`` a JSON file is native: defaults hold, texts are filled, one hour is the time-out."""
    text = (
        '{"version": 1, "defaults": {"retry": 1}, "jobs": [{"name": "a-${X}", "schedule": "* * * * *", "command": "echo ${X}"},'
        '{"name": "b", "schedule": "* * * * *", "command": "x", "timeout_ms": 5}]}'
    )
    first, second = (declared.spec for declared in load({"jobs.json": text}, environ={"X": "1"}).specs)
    assert (first.name, first.timeout_ms, first.retry.max, first.shutdown) == ("a-1", 3_600_000, 1, ShutdownStyle.GRACE)
    assert first.sink.settings == {"command": "echo ${X}"}
    assert (second.timeout_ms, second.retry.max, second.shutdown) == (5, 1, ShutdownStyle.AT_ONCE)


def test_h_is_drawn_from_the_jobs_id(load: Load) -> None:
    """``H`` is accepted without a warning: the id that it is drawn from is known."""
    loaded = load({"jobs.json": _file({"name": "a", "schedule": "H H * * *", "command": "x"})})
    assert loaded.warnings == ()
    assert job_id_for(loaded.specs[0].origin, "a").startswith("job_")
