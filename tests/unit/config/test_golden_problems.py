"""What a person sees: whole reports, character by character."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cronpad_core.config.jobsfile import LoadedFiles

Load = Callable[..., LoadedFiles]
Report = Callable[..., str]

HEAD = 'version = 1\n[[jobs]]\nname = "a"\n'
DESIGN = """version = 1

[defaults]
timezone = "Europe/Madrid"
timeout  = "10m"
overlap  = "skip"
misfire  = { policy = "latest", window = "24h" }
retry    = { max = 2, base = "100ms", factor = 2, cap = "30s" }


[[jobs]]

name     = "heartbeat"
schedule = "61 * * * *"
jitter   = "5s"
sink     = { type = "webhook", url = "https://hooks.example.com/beat", sign_with = "secret:file:/run/secrets/beat" }
"""

CASES = {
    "the design's example": (
        "jobs.toml",
        DESIGN,
        """\
error[CP102]: minute is out of range
  ┌─ jobs.toml:14:13
14 │ schedule = "61 * * * *"
   │             ^^ 61 is not in 0-59
  = in job "heartbeat"; did you mean "1 * * * *"?""",
    ),
    "swapped fields in YAML": (
        "jobs.yaml",
        "version: 1\njobs:\n  - name: a\n    schedule: 9 30 * * *\n    command: x\n",
        """\
error[CP102]: hour is out of range
 ┌─ jobs.yaml:4:17
4 │     schedule: 9 30 * * *
  │                 ^^ 30 is not in 0-23
 = in job "a"; did you mean "30 9 * * *"?""",
    ),
    "a word in a JSON list of schedules": (
        "jobs.json",
        '{"jobs": [{"name": "a", "schedule": ["@daily", "0 0 * * FUN"], "command": "x"}]}',
        """\
error[CP102]: day-of-week field: 'FUN' is not a known weekday name or number
 ┌─ jobs.json:1:57
1 │ {"jobs": [{"name": "a", "schedule": ["@daily", "0 0 * * FUN"], "command": "x"}]}
  │                                                         ^^^ allowed: 0-7 (0 and 7 are Sunday) or SUN-SAT, also 5L and 2#3
 = in job "a"; did you mean "0 0 * * SUN"?""",
    ),
    "an interval in a table": (
        "jobs.toml",
        HEAD + 'schedule = { every = "90" }\ncommand = "x"\n',
        """\
error[CP102]: the number has no unit; write for example 'every 90s'
 ┌─ jobs.toml:4:23
4 │ schedule = { every = "90" }
  │                       ^^
 = in job "a"; did you mean "90s"?""",
    ),
    "an unknown zone": (
        "jobs.toml",
        HEAD + 'schedule = "@daily"\ntimezone = "Europe/Madird"\ncommand = "x"\n',
        """\
error[CP102]: unknown time zone 'Europe/Madird'
 ┌─ jobs.toml:5:13
5 │ timezone = "Europe/Madird"
  │             ^^^^^^^^^^^^^
 = in job "a"; did you mean "Europe/Madrid"?""",
    ),
    "an unknown key": (
        "jobs.toml",
        HEAD + 'schedule = "@daily"\ncommand = "x"\ntimeuot = "5m"\n',
        """\
error[CP101]: unknown key "timeuot"
 ┌─ jobs.toml:6:1
6 │ timeuot = "5m"
  │ ^^^^^^^
 = in job "a"; did you mean "timeout"?""",
    ),
    "a number as a duration": (
        "jobs.toml",
        HEAD + 'schedule = "@daily"\ncommand = "x"\ntimeout = 90\n',
        """\
error[CP123]: timeout needs a unit
 ┌─ jobs.toml:6:11
6 │ timeout = 90
  │           ^^ a duration is a text with ms, s, m, h, d or w
 = in job "a"; did you mean "90s"?""",
    ),
    "a setting of a sink": (
        "jobs.toml",
        HEAD + 'schedule = "@daily"\n[jobs.sink]\ntype = "webhook"\nurl = "http://x"\nattempts = "many"\n',
        """\
error[CP120]: attempts must be a whole number
 ┌─ jobs.toml:8:12
8 │ attempts = "many"
  │            ^^^^^^ this is a text
 = in job "a\"""",
    ),
    "an undefined variable": (
        "jobs.toml",
        HEAD + 'schedule = "@daily"\ntimeout = "${LIMIT}"\ncommand = "x"\n',
        """\
error[CP111]: the variable LIMIT is not set
 ┌─ jobs.toml:5:12
5 │ timeout = "${LIMIT}"
  │            ^^^^^^^^
 = in job "a"; set it, or give a default: ${LIMIT:-…}""",
    ),
    "a key of the design": (
        "jobs.toml",
        HEAD + 'schedule = "@daily"\ncommand = "x"\nwhen = "true"\n',
        """\
error[CP129]: "when" is not in this version
 ┌─ jobs.toml:6:1
6 │ when = "true"
  │ ^^^^
 = in job "a\"""",
    ),
    "a max that means nothing": (
        "jobs.toml",
        HEAD + 'schedule = "@daily"\ncommand = "x"\noverlap = { policy = "queue_one", max = 5 }\n',
        """\
error[CP125]: max goes with policy = "allow" or "queue_all" only
 ┌─ jobs.toml:6:41
6 │ overlap = { policy = "queue_one", max = 5 }
  │                                         ^ "queue_one" lets one run wait
 = in job "a"; for example { policy = "queue_all", max = 5 }""",
    ),
    "an unknown overlap policy": (
        "jobs.yaml",
        "version: 1\njobs:\n  - name: a\n    schedule: '@daily'\n    command: x\n    overlap: queue-all\n",
        """\
error[CP125]: overlap cannot be "queue-all"
 ┌─ jobs.yaml:6:14
6 │     overlap: queue-all
  │              ^^^^^^^^^ allowed: skip, allow, queue_one, queue_all, cancel_running, kill_running
 = in job "a"; did you mean "queue_all"?""",
    ),
    "a concurrency key without a cap": (
        "jobs.toml",
        HEAD + 'schedule = "@daily"\ncommand = "x"\nconcurrency = { key = "db" }\n',
        """\
error[CP121]: concurrency has no max
 ┌─ jobs.toml:6:15
6 │ concurrency = { key = "db" }
  │               ^^^^^^^^^^^^^^
 = in job "a"; for example { max = 3, key = "db" }""",
    ),
    "an end before the start": (
        "jobs.toml",
        HEAD + 'schedule = "@daily"\ncommand = "x"\nsla = { start_within = "2m", finish_within = "90s" }\n',
        """\
error[CP125]: finish_within is shorter than start_within
 ┌─ jobs.toml:6:46
6 │ sla = { start_within = "2m", finish_within = "90s" }
  │                                              ^^^^^ 1m30s is less than 2m; both count from when the run is due
 = in job "a\"""",
    ),
    "the name of a workspace": (
        "jobs.toml",
        HEAD + 'schedule = "@daily"\ncommand = "x"\nworkspace = "Data Team"\n',
        """\
error[CP126]: the workspace has a character that is not allowed
 ┌─ jobs.toml:6:14
6 │ workspace = "Data Team"
  │              ^ only a-z, 0-9 and . _ - are allowed
 = in job "a"; did you mean "data-team"?""",
    ),
    "broken TOML": (
        "jobs.toml",
        'version = 1\n[[jobs]\nname = "a"\n',
        """\
error[CP100]: not valid TOML: expected ']]' at the end of an array declaration
 ┌─ jobs.toml:2:7
2 │ [[jobs]
  │       ^""",
    ),
    "broken JSON": (
        "jobs.json",
        '{"jobs": [\n  {"name": "a",}\n]}',
        """\
error[CP100]: not valid JSON: a comma before a closing bracket
 ┌─ jobs.json:2:15
2 │   {"name": "a",}
  │               ^
 = remove it""",
    ),
    "a key twice in JSON": (
        "jobs.json",
        '{"jobs": [{"name": "a", "command": "x",\n  "name": "b"}]}',
        """\
error[CP100]: "name" stands here twice
 ┌─ jobs.json:2:3
2 │   "name": "b"}]}
  │   ^^^^^^""",
    ),
    "a key twice in YAML": (
        "jobs.yaml",
        "version: 1\njobs: []\njobs: []\n",
        """\
error[CP100]: "jobs" stands here twice
 ┌─ jobs.yaml:3:1
3 │ jobs: []
  │ ^^^^""",
    ),
    "a key twice in TOML": (
        "jobs.toml",
        'version = 1\n[[jobs]]\nname = "a"\nname = "b"\n',
        """\
error[CP100]: name is set twice
 ┌─ jobs.toml:4:1
4 │ name = "b"
  │ ^^^^""",
    ),
    "broken UTF-8": (
        "jobs.toml",
        b'version = 1\nx-name = "caf\xe9"\n',
        """\
error[CP100]: the file is not UTF-8 text
 ┌─ jobs.toml:2:14
2 │ x-name = "caf\N{REPLACEMENT CHARACTER}"
  │              ^ the byte 0xe9 is not UTF-8
 = save it as UTF-8""",
    ),
    "an empty file": (
        "jobs.toml",
        " \n",
        """\
error[CP100]: the file is empty
┌─ jobs.toml
= 'cronpad init' writes a commented jobs file""",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_report(report: Report, case: str) -> None:
    """The report of each bad file is exactly this text."""
    name, content, expected = CASES[case]
    assert report(content, name) == expected


def test_wide_and_long_lines(report: Report) -> None:
    """The caret stands right under wide characters; a long line is cut around it, and control characters are not shown."""
    wide = report('version = 1\n[[jobs]]\nname = "日本"\nx = "\\u001b"\n', "jobs.toml")
    assert 'unknown key "x"' in wide
    jobs = ", ".join(f'{{"name": "job-{at}", "schedule": "* * * * *", "command": "x"}}' for at in range(200))
    long = report(f'{{"jobs": [{jobs}, {{"name": "日本", "schedule": "0 99 * * *", "command": "x"}}]}}', "jobs.json")
    line, caret = long.splitlines()[2:4]
    assert len(line) < 120
    shown = line.index("99")
    assert caret.index("^^") == shown + 2


def test_all_problems_of_all_files(load: Load, report: Report) -> None:
    """One report holds everything that is wrong in every file."""
    from cronpad_core.domain.errors import ConfigurationError

    files = {
        "a.toml": HEAD + 'schedule = "61 * * * *"\ncommand = ""\ntimeout = 5\nfoo = 1\n',
        "b.yaml": "version: 2\njobs:\n - name: a\n   schedule: '* * * *'\n   sink: {type: webhok}\n",
        "c.json": '{"jobs": [',
        "missing.toml": "",
    }
    with pytest.raises(ConfigurationError) as caught:
        load(files)
    codes = [line[6:11] for line in (caught.value.report or "").splitlines() if line.startswith("error[")]
    assert sorted(codes) == sorted(["CP101", "CP102", "CP123", "CP125", "CP102", "CP113", "CP124", "CP125", "CP100", "CP100"])
    assert caught.value.message == "10 errors in 4 files"
