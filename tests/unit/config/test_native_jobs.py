"""The native jobs file: what every key means, in three formats alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cronpad_core.config.jobsfile import LoadedFiles
from cronpad_core.domain.alerts import AlertKind, AlertRule, AlertSpec
from cronpad_core.domain.errors import ConfigurationError, PluginError
from cronpad_core.domain.job import Guarantee, JobSpec, ScheduleSpec, ShutdownStyle, SinkSpec
from cronpad_core.domain.limits import ConcurrencyRule, SlaRule
from cronpad_core.domain.misfire import MisfireRule
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.retry import RetryRule

Load = Callable[..., LoadedFiles]
Report = Callable[..., str]

FULL: dict[str, Any] = {
    "version": 1,
    "x-note": "ours",
    "defaults": {
        "timezone": "Europe/Madrid",
        "timeout": "10m",
        "overlap": {"policy": "allow", "max": 5},
        "misfire": {"policy": "all", "window": "12h", "max": 7},
        "retry": {"max": 2, "base": "1s", "factor": 3, "cap": "1m", "jitter": 0.5, "deadline": "1h"},
        "concurrency": {"max": 3, "key": "db"},
        "sla": {"start_within": "30s"},
        "tags": ["t"],
    },
    "jobs": [
        {"name": "plain", "schedule": "5 4 * * *", "command": "x"},
        {
            "name": "own",
            "id": "own-1",
            "schedule": {"cron": ["0 9 * * 1-5", "0 11 * * 6"], "every": "90m", "timezone": "UTC", "dst": {"gap": "skip"}},
            "sink": {"type": "webhook", "url": "https://${HOST:-example.com}/$$a", "sign_with": "secret:env:KEY"},
            "timeout": "1h30m",
            "kill_grace": "1.5s",
            "retry": 4,
            "overlap": "skip",
            "concurrency": 2,
            "sla": {"finish_within": "10m"},
            "misfire": {"window": "1h"},
            "jitter": "250ms",
            "offset": "1d",
            "grace": "2m",
            "guarantee": "at_most_once",
            "tags": ["a", "b", "a"],
            "alerts": ["on-call"],
            "workspace": "team",
        },
    ],
    "alerts": {"on-call": {"type": "apprise", "url": "secret:env:URL", "events": ["run_failed"]}},
}

TOML = """\
version = 1
x-note = "ours"

[defaults]
timezone = "Europe/Madrid"
timeout = "10m"
overlap = { policy = "allow", max = 5 }
misfire = { policy = "all", window = "12h", max = 7 }
retry = { max = 2, base = "1s", factor = 3, cap = "1m", jitter = 0.5, deadline = "1h" }
concurrency = { max = 3, key = "db" }
sla = { start_within = "30s" }
tags = ["t"]

[[jobs]]
name = "plain"
schedule = "5 4 * * *"
command = "x"

[[jobs]]
name = "own"
id = "own-1"
timeout = "1h30m"
kill_grace = "1.5s"
retry = 4
overlap = "skip"
concurrency = 2
sla.finish_within = "10m"
misfire.window = "1h"
jitter = "250ms"
offset = "1d"
grace = "2m"
guarantee = "at_most_once"
tags = ["a", "b", "a"]
alerts = ["on-call"]
workspace = "team"
[jobs.schedule]
cron = ["0 9 * * 1-5", "0 11 * * 6"]
every = "90m"
timezone = "UTC"
dst = { gap = "skip" }
[jobs.sink]
type = "webhook"
url = "https://${HOST:-example.com}/$$a"
sign_with = "secret:env:KEY"

[alerts.on-call]
type = "apprise"
url = "secret:env:URL"
events = ["run_failed"]
"""

YAML = """\
version: 1
x-note: ours
x-shared: &shared
  guarantee: at_most_once
  tags: [a, b, a]
defaults:
  timezone: Europe/Madrid
  timeout: 10m
  overlap: {policy: allow, max: 5}
  misfire: {policy: all, window: 12h, max: 7}
  retry: {max: 2, base: 1s, factor: 3, cap: 1m, jitter: 0.5, deadline: 1h}
  concurrency: {max: 3, key: db}
  sla: {start_within: 30s}
  tags: [t]
jobs:
  - name: plain
    schedule: 5 4 * * *
    command: x
  - <<: *shared
    name: own
    id: own-1
    schedule:
      cron: [0 9 * * 1-5, 0 11 * * 6]
      every: 90m
      timezone: UTC
      dst: {gap: skip}
    sink: {type: webhook, url: "https://${HOST:-example.com}/$$a", sign_with: secret:env:KEY}
    timeout: 1h30m
    kill_grace: 1.5s
    retry: 4
    overlap: skip
    concurrency: 2
    sla: {finish_within: 10m}
    misfire: {window: 1h}
    jitter: 250ms
    offset: 1d
    grace: 2m
    alerts: [on-call]
    workspace: team
alerts:
  on-call: {type: apprise, url: "secret:env:URL", events: [run_failed]}
"""

PLAIN = JobSpec(
    name="plain",
    schedule=ScheduleSpec(texts=("5 4 * * *",), timezone="Europe/Madrid"),
    sink=SinkSpec(type="command", settings={"command": "x"}),
    timeout_ms=600_000,
    overlap=OverlapRule(policy=OverlapPolicy.ALLOW, max=5),
    concurrency=ConcurrencyRule(max=3, key="db"),
    sla=SlaRule(start_within_ms=30_000),
    misfire=MisfireRule(policy="all", window_ms=43_200_000, settings={"max": 7}),
    retry=RetryRule(max=2, base_ms=1000, factor=3.0, cap_ms=60_000, jitter=0.5, deadline_ms=3_600_000),
    tags=("t",),
)
OWN = JobSpec(
    name="own",
    schedule=ScheduleSpec(texts=("0 9 * * 1-5", "0 11 * * 6", "every 90m"), timezone="UTC", gap="skip"),
    sink=SinkSpec(type="webhook", settings={"url": "https://example.com/$a", "sign_with": "secret:env:KEY"}),
    workspace="team",
    timeout_ms=5_400_000,
    kill_grace_ms=1500,
    retry=RetryRule(max=4, base_ms=1000, factor=3.0, cap_ms=60_000, jitter=0.5, deadline_ms=3_600_000),
    overlap=OverlapRule(),
    concurrency=ConcurrencyRule(max=2),
    sla=SlaRule(start_within_ms=30_000, finish_within_ms=600_000),
    misfire=MisfireRule(policy="all", window_ms=3_600_000, settings={"max": 7}),
    jitter_ms=250,
    offset_ms=86_400_000,
    grace_ms=120_000,
    guarantee=Guarantee.AT_MOST_ONCE,
    tags=("a", "b"),
    alerts=("on-call",),
)


def _toml(*lines: str) -> str:
    return "\n".join(["version = 1", "[[jobs]]", 'name = "a"', 'schedule = "* * * * *"', 'command = "x"', *lines, ""])


@pytest.mark.parametrize(
    ("name", "content"), [("jobs.json", json.dumps(FULL)), ("jobs.toml", TOML), ("jobs.yaml", YAML), ("jobs.yml", YAML)]
)
def test_equal_files_give_equal_specs(load: Load, name: str, content: str) -> None:
    """TOML, YAML and JSON that say the same mean the same; defaults hold key by key."""
    loaded = load({name: content})
    assert [declared.spec for declared in loaded.specs] == [PLAIN, OWN]
    assert [declared.id for declared in loaded.specs] == [None, "own-1"]
    rule = AlertRule(name="on-call", events=(AlertKind.RUN_FAILED,))
    assert loaded.alerts == {"on-call": AlertSpec(rule=rule, type="apprise", settings={"url": "secret:env:URL"})}
    assert loaded.warnings == ()


@pytest.mark.parametrize("content", [json.dumps(FULL), TOML, YAML])
@pytest.mark.parametrize("name", ["jobs", "jobs.conf", "configmap-entry.txt"])
def test_the_format_is_found_by_content(load: Load, name: str, content: str) -> None:
    """A file without a known extension is read as what it looks like."""
    assert [declared.spec for declared in load({name: content}).specs] == [PLAIN, OWN]


def test_native_defaults(load: Load) -> None:
    """Without any rule: one hour, no retries, ten seconds to end in, UTC, skip, the latest within a day."""
    (declared,) = load({"jobs.toml": _toml()}).specs
    assert declared.spec == JobSpec(
        name="a",
        schedule=ScheduleSpec(texts=("* * * * *",)),
        sink=SinkSpec(type="command", settings={"command": "x"}),
        shutdown=ShutdownStyle.GRACE,
    )


def test_a_spec_survives_json(load: Load) -> None:
    """What is loaded can be stored and read back."""
    for declared in load({"jobs.toml": TOML}).specs:
        assert JobSpec.from_json(json.loads(json.dumps(declared.spec.to_json()))) == declared.spec


def test_command_beside_a_sink_table(load: Load) -> None:
    """``command`` may stand beside a sink table with the command's other settings."""
    (declared,) = load({"jobs.toml": _toml('sink = { env = { A = "1" } }')}).specs
    assert declared.spec.sink == SinkSpec(type="command", settings={"env": {"A": "1"}, "command": "x"})


def test_toml_dates_are_texts(load: Load) -> None:
    """A bare date-time of TOML is what the same text in quotes is."""
    text = 'version = 1\n[[jobs]]\nname = "a"\nschedule = { at = 2030-12-24T18:00:00 }\ncommand = "x"\n'
    assert load({"jobs.toml": text}).specs[0].spec.schedule.texts == ("at 2030-12-24T18:00:00",)


def test_allow_without_a_number(load: Load) -> None:
    """``overlap = "allow"`` is bounded by the workers alone."""
    (declared,) = load({"jobs.toml": _toml('overlap = "allow"')}).specs
    assert declared.spec.overlap.policy is OverlapPolicy.ALLOW
    assert declared.spec.overlap.limit > 100_000


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ('timeout = "5 minutes"', "CP123", 'did you mean "5m"?'),
        ('timeout = "0s"', "CP123", "timeout is too short"),
        ('timeout = "9999999d"', "CP123", "longer than a hundred years"),
        ("timeout = true", "CP120", "timeout must be a duration"),
        ('timeout = "-5s"', "CP123", "timeout is not a duration"),
        ('misfire = { policy = "all", max = "x" }', "CP120", "max must be a whole number"),
        ('misfire = { policy = "all", maxx = 3 }', "CP101", 'did you mean "max"?'),
        ('misfire = { policy = "latest", max = 3 }', "CP101", 'unknown key "max" in the misfire policy "latest"'),
        ("misfire = { window = 3 }", "CP123", 'did you mean "3s"?'),
        ("retry = -1", "CP125", "-1 is not in 0-"),
        ('retry = "3"', "CP120", "retry must be a number of retries or a table"),
        ("retry = { factor = nan }", "CP100", "is not a number that can be used"),
        ("retry = { factor = 0.5 }", "CP125", "factor is out of bounds"),
        ("retry = { jitter = 2 }", "CP125", "jitter is out of bounds"),
        ('guarantee = "exactly_once"', "CP125", "allowed: at_least_once, at_most_once"),
        ('tags = "db"', "CP120", 'did you mean ["db"]?'),
        ("tags = [1]", "CP120", "this is a number"),
        ('id = "a b"', "CP126", "the id is not allowed"),
        ('id = "a|b"', "CP126", "the id is not allowed"),
        ('dst = { gap = "run-after" }', "CP125", 'did you mean "run_after"?'),
        ('dst = "on"', "CP102", 'dst cannot be "on"'),
        ('timezone = "CET+1"', "CP102", "'CET+1'"),
        ('sink = { type = "webhook", url = "x" }', "CP122", "say two different things"),
        ('sink = { command = "y" }', "CP122", "say the same thing twice"),
        ("sink = 3", "CP120", "sink must be a table"),
        ("sink = { env = { A = 1 } }", "CP120", "env.A must be a text"),
        ('sink = { env_mode = "cleen" }', "CP125", "env_mode: should be 'inherit' or 'clean'"),
        ('depends_on = ["b"]', "CP129", '"depends_on" is not in this version'),
    ],
)
def test_bad_rules_give_one_message(report: Report, line: str, code: str, words: str) -> None:
    """Each bad value is one error, at its line."""
    text = report(_toml(line))
    assert text.count("error[") == 1, text
    assert f"error[{code}]" in text
    assert words in text
    assert "┌─ jobs.toml:6:" in text or code == "CP122"


def test_bad_defaults_are_said_once(report: Report) -> None:
    """A problem in the defaults is reported once, not once for each job."""
    jobs = "".join(f'[[jobs]]\nname = "{at}"\nschedule = "@daily"\ncommand = "x"\n' for at in range(5))
    text = report(f'version = 1\n[defaults]\ntimezone = "Nowhere"\nfoo = 1\n{jobs}')
    assert text.count("error[") == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('[[jobs]]\nname = "a"\nschedule = "@daily"\ncommand = "x"\n', "the file has no version"),
        ("version = 2\njobs = []\n", "this version of the jobs file is not known"),
        ("version = true\njobs = []\n", "this version of the jobs file is not known"),
        ("version = 1\n", 'the file has no "jobs"'),
        ("version = 1\njobs = []\n[defaults]\nname = 'x'\n", 'unknown key "name" in defaults'),
        ("version = 1\njobs = []\n[alerts]\na = 1\n", "a must be a table"),
        ("version = 1\njobs = []\n[alerts.a]\nurl = 'x'\n", 'the alert "a" has no type'),
    ],
)
def test_bad_top_level(report: Report, content: str, words: str) -> None:
    """The top table is checked like everything else."""
    text = report(content)
    assert words in text
    assert text.count("error[") == 1


def test_warnings_are_kept_with_their_places(load: Load) -> None:
    """Slips that are accepted come back as warnings: both day fields, a clock change, a large step, a secret."""
    text = """\
version = 1
[defaults]
timezone = "Europe/Madrid"
[[jobs]]
name = "a"
schedule = "0 0 1 * 1"
command = "x"
[[jobs]]
name = "b"
schedule = ["*/45 1 * * *", "30 2 * * *", "0 0 30 2 *", "1/70 0 * * *"]
sink = { type = "webhook", url = "x", headers = { X-Api-Key = "hunter2", A = "b" } }
[[jobs]]
name = "c"
schedule = { cron = "30 2 * * *", dst = { fold = "last" } }
command = "x"
"""
    found = [(one.code, one.place.line, one.job) for one in load({"jobs.toml": text}).warnings]
    assert sorted(found) == [
        ("CP103", 10, "b"),
        ("CP104", 6, "a"),
        ("CP105", 10, "b"),
        ("CP105", 10, "b"),
        ("CP106", 10, "b"),
        ("CP110", 11, "b"),
    ]


def test_unknown_types_are_a_plugin_error(load: Load) -> None:
    """A file whose only fault is an unknown or failed type ends with 5, and the message says what there is."""
    text = 'version = 1\n[[jobs]]\nname = "a"\nschedule = "@daily"\nsink = { type = "webhok", url = "x" }\n'
    with pytest.raises(PluginError) as caught:
        load({"jobs.toml": text})
    assert caught.value.exit_code == 5
    assert caught.value.message == ('jobs.toml:5:17: unknown sink "webhok"; known: command, webhook; did you mean "webhook"?')
    with pytest.raises(PluginError, match='misfire policy "none"; known: all, latest, skip'):
        load({"jobs.toml": _toml('misfire = "none"')})
    with pytest.raises(PluginError, match='the sink "webhok" is not available: it broke'):
        load({"jobs.toml": text}, unavailable={"webhok": "it broke"})


def test_unknown_types_beside_other_problems(load: Load) -> None:
    """With other problems, all of them are in one report, and the files are invalid."""
    with pytest.raises(ConfigurationError) as caught:
        load({"jobs.toml": _toml('misfire = "none"', "foo = 1")})
    assert "CP124" in (caught.value.report or "")
    assert "CP101" in (caught.value.report or "")


def test_a_large_environment_is_refused(report: Report) -> None:
    """A job's variables are bounded: they are stored with it."""
    assert "at most 32768 are allowed" in report(_toml(f'sink = {{ env = {{ A = "{"x" * 40_000}" }} }}'))
