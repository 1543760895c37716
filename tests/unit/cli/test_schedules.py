"""``next`` and ``explain``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Call = Callable[..., Result]

JOBS = """
version = 1
[[jobs]]
name = "often"
schedule = "*/10 * * * *"
command = "true"
[[jobs]]
name = "seldom"
schedule = "5 12 * * *"
command = "true"
"""


@pytest.fixture
def jobs(tmp_path: Path, site: Path) -> str:
    """A file of two jobs."""
    file = tmp_path / "jobs.toml"
    file.write_text(JOBS)
    return str(file)


def test_next_shows_fires_and_how_far_they_are(call: Call) -> None:
    """Five if nothing else is said."""
    result = call("next", "*/5 * * * *")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 6
    assert lines[1] == "2026-11-30 12:05:00+00:00  Mon  4 min 50 s"
    assert call("next", "every", "90s", "-n", "1").stdout.splitlines()[1].startswith("2026-11-30 12:01:30")


def test_next_marks_what_a_clock_change_does(call: Call) -> None:
    """In the zone that is asked for; a time without offset is in that zone."""
    result = call("next", "30 2 * * *", "--tz", "Europe/Madrid", "--after", "2026-03-28T12:00", "-n", "2", "--json")
    items = json.loads(result.stdout)["items"]
    assert [item["at"] for item in items] == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    assert items[0]["utc"] == "2026-03-29T01:00:00Z"
    assert items[0]["note"].startswith("dst_gap")
    assert items[1]["note"] is None
    assert "repeats a time" in call("next", "30 2 * * *", "--tz", "Europe/Madrid").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["61 * * * *"], "  61 * * * *\n  ^^\n"),
        (["0 0 * 0 0"], "  0 0 * 0 0\n        ^\n"),
        (["* * * * mno"], "          ^^^"),
        (["@dayly"], "@daily"),
        (["* * * * *", "--tz", "Europe/Madird"], "Europe/Madrid"),
        (["backup"], "cronpad next backup --file FILE"),
        (["* * * * *", "--after", "tomorrow"], "is no time"),
        ([], "name a schedule"),
    ],
)
def test_next_refuses_with_help(call: Call, arguments: list[str], said: str) -> None:
    """Exit 2, the place under a caret, the mend."""
    result = call("next", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_next_says_that_nothing_comes(call: Call) -> None:
    """It is an answer, not an error."""
    result = call("next", "at 2020-01-01T00:00")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "never fires again" in result.stderr


def test_next_of_a_file_merges_its_jobs(call: Call, jobs: str) -> None:
    """In order of time, each with its job; one job by name; an unknown name is not found."""
    result = call("next", "--file", jobs, "-n", "3", "--json")
    items = json.loads(result.stdout)["items"]
    assert [(item["job"], item["at"][11:16]) for item in items] == [("seldom", "12:05"), ("often", "12:10"), ("often", "12:20")]
    one = call("next", "often", "--file", jobs, "-n", "1")
    assert one.stdout.splitlines()[1].startswith("often  2026-11-30 12:10:00+00:00")
    missing = call("next", "nope", "--file", jobs)
    assert missing.exit_code == 4
    assert "there are: often, seldom" in missing.stderr


def test_explain_says_which_rules_hold(call: Call) -> None:
    """Words, fields, day rule, clock rule, warnings and fires."""
    result = call("explain", "0 0 13 * 5", "--tz", "Europe/Madrid", "-n", "1")
    assert result.exit_code == 0
    for said in ("day-of-month  13", "match either", "fixed-time", "warning: Both day fields", "2026-12-04 00:00:00+01:00"):
        assert said in result.stdout
    # The library in use would say "on day 13 and on Friday", which is not what holds.
    assert "AM" not in result.stdout
    assert "Every 5 minutes" in call("explain", "*/5 * * * *").stdout


def test_explain_as_a_document(call: Call) -> None:
    """The same for programs."""
    document = json.loads(call("explain", "every", "90s", "--json", "-n", "1").stdout)
    assert document["items"][0]["kind"] == "interval"
    assert document["items"][0]["every_ms"] == 90_000
    assert document["fires"][0]["at"] == "2026-11-30T12:01:30+00:00"
    cron = json.loads(call("explain", "0 9 * * 1-5", "--json").stdout)["items"][0]
    assert (cron["day_rule"], cron["clock_rule"], cron["fields"]["hour"]) == ("both", "fixed-time", "9")
    assert "Monday through Friday" in cron["in_words"]
