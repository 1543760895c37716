"""Alerts in jobs files: what is read, and what is refused, with its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from pydantic import BaseModel

from cronpad_core.config.alert_table import ALERT_KEYS
from cronpad_core.config.jobsfile import LoadedFiles
from cronpad_core.config.schema import jobs_schema
from cronpad_core.domain.alerts import AlertKind, AlertRate, AlertRule, AlertSpec
from cronpad_core.domain.errors import PluginError

Load = Callable[..., LoadedFiles]
HEAD = 'version = 1\n[[jobs]]\nname = "a"\nschedule = "@daily"\ncommand = "x"\nalerts = ["on-call"]\n[alerts.on-call]\n'


def test_everything_that_an_alert_can_say(load: Load) -> None:
    """All keys; what is no key of the alert's own is its emitter's."""
    text = (
        HEAD + 'type = "t"\nevents = ["run_late", "runner_alive"]\nafter = 3\neach = true\ngroup_for = "2m"\n'
        'rate = { max = 10, per = "1h" }\nevery = "30s"\nurl = "https://${HOST}"\nx-own = 1\n'
    )
    loaded = load({"jobs.toml": text}, environ={"HOST": "h"})
    rule = AlertRule(
        name="on-call",
        events=(AlertKind.RUN_LATE, AlertKind.RUNNER_ALIVE),
        after=3,
        each=True,
        group_for_ms=120_000,
        rate=AlertRate(max=10, per_ms=3_600_000),
    )
    spec = AlertSpec(rule=rule, type="t", settings={"url": "https://h"}, alive_every_ms=30_000)
    assert loaded.alerts == {"on-call": spec}
    assert loaded.warnings == ()


def test_a_type_is_enough(load: Load) -> None:
    """Without any other key: failed, recovered, poisoned and missed, each change at once."""
    assert load({"jobs.toml": HEAD + 'type = "t"\n'}).alerts == {"on-call": AlertSpec(rule=AlertRule(name="on-call"), type="t")}


@pytest.mark.parametrize(
    ("lines", "place", "words"),
    [
        ("", ":7:", 'the alert "on-call" has no type'),
        ('type = "t"\nevents = []', ":9:", "events is empty"),
        ('type = "t"\nevents = "run_failed"', ":9:", "events must be a list"),
        ('type = "t"\nevents = ["run_failed", "run_fialed"]', ":9:25", 'did you mean "run_failed"?'),
        ('type = "t"\nevents = ["test"]', ":9:11", 'events cannot be "test"'),
        ('type = "t"\nafter = 0', ":9:9", "after is out of bounds"),
        ('type = "t"\neach = 1', ":9:8", "each must be true or false"),
        ('type = "t"\ngroup_for = 5', ":9:13", "group_for needs a unit"),
        ('type = "t"\nrate = 3', ":9:8", "rate must be a table"),
        ('type = "t"\nrate = { max = 3 }', ":9:", "rate has no per"),
        ('type = "t"\nrate = { max = 3, per = "1h", x = 1 }', ":9:", 'unknown key "x" in rate'),
        ('type = "t"\nevery = "1ms"', ":9:9", "every is too short"),
        ('type = "t"\nurll = "x"', ":9:1", 'unknown key "urll" in the alert emitter "t"; did you mean "url"?'),
        ('type = "t"\nurl = 3', ":9:7", "url must be a text"),
        ('type = "t"\n[defaults]\nalerts = ["on-cal"]\n[alerts.b]\ntype = "t"', "", ""),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(
    report: Callable[..., str], load: Load, lines: str, place: str, words: str
) -> None:
    """Each slip has its line and column, and what to do about it."""
    if not words:
        loaded = load({"jobs.toml": HEAD + lines})
        assert set(loaded.alerts) == {"on-call", "b"}
        return
    text = " ".join(report(HEAD + lines + "\n").split())
    assert f"jobs.toml{place}" in text
    for part in words.split("; "):
        assert part in text


def test_an_alert_that_nobody_declares(report: Callable[..., str]) -> None:
    """The place is the name itself, in the job or in the defaults."""
    text = report(HEAD.replace('["on-call"]', '["on-call", "on-cal"]') + 'type = "t"\n')
    assert "jobs.toml:6:22" in text
    assert 'did you mean "on-call"?' in text
    text = report(HEAD.replace('alerts = ["on-call"]\n', "") + 'type = "t"\n[defaults]\nalerts = ["nobody"]\n')
    assert "jobs.toml:9:11" in text
    assert 'the alert "nobody" is not declared' in text


def test_an_unknown_type_is_a_plugin_error(load: Load) -> None:
    """A file whose only fault is an emitter that nobody brings ends with 5, and says what there is."""
    with pytest.raises(PluginError, match=r'jobs\.toml:8:8: unknown alert emitter "aprise"; known: apprise, t; did you mean'):
        load({"jobs.toml": HEAD + 'type = "aprise"\n'})


def test_a_secret_in_plain_text_is_warned_of(load: Load) -> None:
    """A token that is written down is a slip, a reference is not."""
    loaded = load({"jobs.toml": HEAD + 'type = "t"\ntoken = "hunter2"\n'})
    assert [(one.code, one.place.line) for one in loaded.warnings] == [("CP110", 9)]
    assert load({"jobs.toml": HEAD + 'type = "t"\ntoken = "secret:env:T"\n'}).warnings == ()


def test_the_schema_has_the_alerts() -> None:
    """Each emitter's settings stand beside the alert's own keys."""

    class Chat(BaseModel):
        url: str

    schema = cast("dict[str, Any]", jobs_schema({}, {}, {"chat": Chat}))
    assert set(schema["$defs"]["alert.chat"]["properties"]) == {*ALERT_KEYS, "url"}
    assert schema["$defs"]["alert.chat"]["required"] == ["url"]
    assert schema["properties"]["alerts"]["additionalProperties"]["required"] == ["type"]
