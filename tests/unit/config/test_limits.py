"""What a jobs file says of runs at the same time, of late runs, and of workspaces."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronpad_core.config.durations import LONGEST_MS, parse_duration, spell_duration
from cronpad_core.config.jobsfile import LoadedFiles
from cronpad_core.domain.job import JobSpec
from cronpad_core.domain.limits import ConcurrencyRule, SlaRule
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule

Load = Callable[..., LoadedFiles]
Report = Callable[..., str]


def _file(own: str = "", defaults: str = "") -> str:
    job = '[[jobs]]\nname = "a"\nschedule = "@daily"\ncommand = "x"\n'
    return f"version = 1\n[defaults]\n{defaults}\n{job}{own}\n"


def _spec(load: Load, own: str, defaults: str = "") -> JobSpec:
    (declared,) = load({"jobs.toml": _file(own, defaults)}).specs
    return declared.spec


@pytest.mark.parametrize(
    ("own", "policy", "most"),
    [
        ('"skip"', OverlapPolicy.SKIP, 1),
        ('"allow"', OverlapPolicy.ALLOW, 1_000_000),
        ('"queue_one"', OverlapPolicy.QUEUE_ONE, 1),
        ('"queue_all"', OverlapPolicy.QUEUE_ALL, 100),
        ('"cancel_running"', OverlapPolicy.CANCEL_RUNNING, 1),
        ('"kill_running"', OverlapPolicy.KILL_RUNNING, 1),
        ('{ policy = "queue_all" }', OverlapPolicy.QUEUE_ALL, 100),
        ('{ policy = "queue_all", max = 7 }', OverlapPolicy.QUEUE_ALL, 7),
        ('{ policy = "allow", max = 7 }', OverlapPolicy.ALLOW, 7),
        ('{ policy = "queue_one", max = 1 }', OverlapPolicy.QUEUE_ONE, 1),
        ('{ policy = "kill_running" }', OverlapPolicy.KILL_RUNNING, 1),
    ],
)
def test_every_overlap_policy(load: Load, own: str, policy: OverlapPolicy, most: int) -> None:
    """Each policy is a word or a table; where ``max`` means something it has a default."""
    assert _spec(load, f"overlap = {own}").overlap == OverlapRule(policy=policy, max=most)


@pytest.mark.parametrize(
    ("defaults", "own", "policy", "most"),
    [
        ('{ policy = "queue_all", max = 7 }', "", OverlapPolicy.QUEUE_ALL, 7),
        ('{ policy = "queue_all", max = 7 }', "{ max = 3 }", OverlapPolicy.QUEUE_ALL, 3),
        ('{ policy = "queue_all", max = 7 }', '{ policy = "queue_all" }', OverlapPolicy.QUEUE_ALL, 7),
        ('{ policy = "queue_all", max = 7 }', '{ policy = "allow" }', OverlapPolicy.ALLOW, 1_000_000),
        ('{ policy = "allow", max = 7 }', '{ policy = "queue_all" }', OverlapPolicy.QUEUE_ALL, 100),
        ('{ policy = "allow", max = 7 }', '{ policy = "queue_one" }', OverlapPolicy.QUEUE_ONE, 1),
        ('"cancel_running"', "{}", OverlapPolicy.CANCEL_RUNNING, 1),
    ],
)
def test_overlap_from_the_defaults(load: Load, defaults: str, own: str, policy: OverlapPolicy, most: int) -> None:
    """A job keeps the number of the defaults with their policy, and never takes it along to another."""
    line = f"overlap = {own}" if own else ""
    assert _spec(load, line, f"overlap = {defaults}").overlap == OverlapRule(policy=policy, max=most)


@pytest.mark.parametrize(
    ("defaults", "own", "rule"),
    [
        ("", "", None),
        ("", "3", ConcurrencyRule(max=3)),
        ("", "3.0", ConcurrencyRule(max=3)),
        ("", "{ max = 3 }", ConcurrencyRule(max=3)),
        ("", '{ max = 3, key = "Data Base" }', ConcurrencyRule(max=3, key="Data Base")),
        ("", '{ max = 3, x-why = "slow disk" }', ConcurrencyRule(max=3)),
        ("3", "", ConcurrencyRule(max=3)),
        ('{ max = 3, key = "db" }', "", ConcurrencyRule(max=3, key="db")),
        ('{ max = 3, key = "db" }', "{ max = 1 }", ConcurrencyRule(max=1, key="db")),
        ('{ max = 3, key = "db" }', '{ key = "gpu" }', ConcurrencyRule(max=3, key="gpu")),
        ('{ max = 3, key = "db" }', "1", ConcurrencyRule(max=1)),
    ],
)
def test_concurrency(load: Load, defaults: str, own: str, rule: ConcurrencyRule | None) -> None:
    """A number is of the job's own runs; a table takes from the defaults what it leaves out."""
    lines = [f"concurrency = {one}" if one else "" for one in (own, defaults)]
    assert _spec(load, *lines).concurrency == rule


@pytest.mark.parametrize(
    ("defaults", "own", "rule"),
    [
        ("", "", None),
        ("", '{ start_within = "30s" }', SlaRule(start_within_ms=30_000)),
        ("", '{ start_within = "30s", finish_within = "30s" }', SlaRule(start_within_ms=30_000, finish_within_ms=30_000)),
        ('{ start_within = "30s" }', "{}", SlaRule(start_within_ms=30_000)),
        ('{ start_within = "30s" }', '{ finish_within = "10m" }', SlaRule(start_within_ms=30_000, finish_within_ms=600_000)),
    ],
)
def test_sla(load: Load, defaults: str, own: str, rule: SlaRule | None) -> None:
    """Either limit alone will do; a job adds its own to that of the defaults."""
    lines = [f"sla = {one}" if one else "" for one in (own, defaults)]
    assert _spec(load, *lines).sla == rule


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ('overlap = "skp"', "CP125", 'did you mean "skip"?'),
        ('overlap = { policy = "skip", max = 5 }', "CP125", 'policy = "allow" or "queue_all" only'),
        ('overlap = { policy = "queue_one", max = 5 }', "CP125", 'for example { policy = "queue_all", max = 5 }'),
        ('overlap = { policy = "cancel_running", max = 2 }', "CP125", "lets the newest wait"),
        ('overlap = { policy = "kill_running", max = 2 }', "CP125", "lets the newest wait"),
        ("overlap = { max = 3 }", "CP125", '"skip" runs one at a time'),
        ('overlap = { policy = "queue" }', "CP125", 'did you mean "queue_one"?'),
        ('overlap = { policy = "queue_all", maxx = 3 }', "CP101", 'unknown key "maxx" in overlap'),
        ("overlap = { max = 0 }", "CP125", "0 is not in 1-"),
        ('overlap = "kill-running"', "CP125", 'did you mean "kill_running"?'),
        ("overlap = 3", "CP120", "overlap must be a word or a table"),
        ("concurrency = 0", "CP125", "0 is not in 1-1000000"),
        ("concurrency = 1.5", "CP120", "concurrency must be a whole number"),
        ("concurrency = true", "CP120", "concurrency must be a number of runs or a table"),
        ('concurrency = "db"', "CP120", 'for example concurrency = { max = 3, key = "db" }'),
        ('concurrency = { key = "db" }', "CP121", "concurrency has no max"),
        ("concurrency = {}", "CP121", "concurrency has no max"),
        ("concurrency = { max = 0 }", "CP125", "0 is not in 1-1000000"),
        ('concurrency = { mx = 3, key = "db" }', "CP101", 'did you mean "max"?'),
        ('concurrency = { max = 3, key = "" }', "CP125", "key is empty"),
        ("concurrency = { max = 3, key = 7 }", "CP120", "key must be a text"),
        ('concurrency = { max = 3, key = "a/b" }', "CP126", "the / is not allowed"),
        ('concurrency = { max = 3, keys = "db" }', "CP101", 'did you mean "key"?'),
        ('sla = "30s"', "CP120", 'sla must be a table such as { start_within = "30s", finish_within = "10m" }'),
        ("sla = {}", "CP121", "sla has neither start_within nor finish_within"),
        ('sla = { start_within = "0s" }', "CP123", "start_within is too short"),
        ("sla = { finish_within = 30 }", "CP123", 'did you mean "30s"?'),
        ('sla = { start_in = "30s" }', "CP101", 'did you mean "start_within"?'),
        ('sla = { start_within = "1m30s", finish_within = "10s" }', "CP125", "10s is less than 1m30s"),
        ('workspace = "Team A"', "CP126", 'did you mean "team-a"?'),
        ('workspace = "team/a"', "CP126", "only a-z, 0-9 and . _ - are allowed"),
        (f'workspace = "{"w" * 65}"', "CP126", "65 characters; at most 64 are allowed"),
        ('workspace = " "', "CP125", "workspace is empty"),
        ("workspace = 3", "CP120", "workspace must be a text"),
    ],
)
def test_bad_rules_give_one_message(report: Report, line: str, code: str, words: str) -> None:
    """Each bad value is one error, at its line."""
    text = report(_file(line))
    assert text.count("error[") == 1, text
    assert f"error[{code}]" in text
    assert words in text
    assert "┌─ jobs.toml:8:" in text


def test_an_end_before_a_start_of_the_defaults(report: Report) -> None:
    """The problem stands at the limit that the job itself gives."""
    text = report(_file('sla = { finish_within = "5s" }', 'sla = { start_within = "30s" }'))
    assert "error[CP125]: finish_within is shorter than start_within" in text
    assert "jobs.toml:8:25" in text
    assert text.count("error[") == 1


def test_a_bad_sla_of_the_defaults_is_said_once(report: Report) -> None:
    """Jobs that take it over say nothing more of it."""
    assert report(_file("", 'sla = { start_within = "30s", finish_within = "5s" }')).count("error[") == 1


@pytest.mark.parametrize("name", ["a", "team-a", "9", "a.b_c-d", "w" * 64])
def test_names_of_workspaces(load: Load, name: str) -> None:
    """Small letters, digits and ``.``, ``_``, ``-``, up to 64 of them."""
    assert _spec(load, f'workspace = "{name}"').workspace == name


def test_the_runners_json_takes_them_too(load: Load) -> None:
    """Native keys may stand beside the runner's; without them its jobs have no cap, no sla and skip."""
    plain = {"name": "a", "schedule": "* * * * *", "command": "x", "timeout_ms": 5}
    more = {"name": "b", "overlap": "queue_all", "concurrency": 2, "sla": {"start_within": "1s"}, "workspace": "w"}
    first, second = (one.spec for one in load({"jobs.json": json.dumps({"jobs": [plain, plain | more]})}).specs)
    assert (first.overlap, first.concurrency, first.sla, first.workspace) == (OverlapRule(), None, None, "default")
    assert second.overlap == OverlapRule(policy=OverlapPolicy.QUEUE_ALL, max=100)
    assert (second.concurrency, second.sla) == (ConcurrencyRule(max=2), SlaRule(start_within_ms=1000))
    assert second.workspace == "w"


def test_notes_of_a_crontab(load: Load) -> None:
    """The words and numbers can be written above a line of a crontab."""
    text = "# cronpad: name=a overlap=queue_one concurrency=2 workspace=ops\n0 1 * * * true\n"
    (declared,) = load({"crontab": text}).specs
    assert declared.spec.overlap.policy is OverlapPolicy.QUEUE_ONE
    assert declared.spec.concurrency == ConcurrencyRule(max=2)
    assert declared.spec.workspace == "ops"


def test_a_key_with_two_caps_is_a_slip(load: Load) -> None:
    """Jobs of one key with another ``max`` are warned of, across files, with the place of the first; equal ones are not."""
    job = '[[jobs]]\nname = "{}"\nschedule = "@daily"\ncommand = "x"\nconcurrency = {}\n'
    first = "version = 1\n" + job.format("a", '{ max = 3, key = "db" }') + job.format("b", '{ max = 3, key = "db" }')
    second = "version = 1\n" + job.format("c", '{ max = 2, key = "db" }') + job.format("d", "2")
    loaded = load({"one.toml": first, "two.toml": second})
    (warning,) = loaded.warnings
    assert (warning.code, str(warning.place), warning.job) == ("CP130", "two.toml:6:15", "c")
    assert warning.message == 'the concurrency key "db" has max = 2 here, and max = 3 elsewhere'
    assert warning.label == "first at one.toml:6:15"
    assert len(loaded.specs) == 4


@given(st.integers(0, LONGEST_MS))
def test_a_duration_is_spelt_as_it_is_read(length_ms: int) -> None:
    """What is spelt reads back as the same length."""
    assert parse_duration(spell_duration(length_ms)) == length_ms


@pytest.mark.parametrize(("length_ms", "text"), [(0, "0s"), (250, "250ms"), (90_000, "1m30s"), (90 * 86_400_000, "90d")])
def test_durations_are_spelt_short(length_ms: int, text: str) -> None:
    """The largest units first, and none that is not needed."""
    assert spell_duration(length_ms) == text
