"""The reference says what the code does, in both directions: nothing is missing, and nothing is described that is not there."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum
from typing import get_args

import click
import house
import pytest

from cronpad_core.builtin.log_alerts import LogSettings
from cronpad_core.cli.main import cli
from cronpad_core.config import problems
from cronpad_core.config.alert_table import ALERT_KEYS, EVENTS
from cronpad_core.config.job_table import JOB_KEYS, RUNNER_KEYS
from cronpad_core.config.settings import describe
from cronpad_core.config.shared_keys import SHARED_KEYS
from cronpad_core.domain.errors import CronpadError
from cronpad_core.domain.events import Event
from cronpad_core.domain.job import JobStatus
from cronpad_core.domain.run import AttemptStatus, RunStatus, SkipReason
from cronpad_core.hookspecs import CronpadSpecs
from cronpad_core.ports import queue
from cronpad_core.ports.alerts import Alert
from cronpad_core.schedules.changes import FoldRule, GapRule
from cronpad_core.schedules.cron import ALIASES


def _rows(document: str, section: str) -> dict[str, list[str]]:
    """The table of a section: word of the first column → the other cells."""
    text = (house.REFERENCE / document).read_text(encoding="utf-8")
    match = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, f"{document} has no section {section!r}"
    lines = [line for line in match[1].splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells}


# ---------------------------------------------------------------------------------------------------------------- hooks


def _hooks() -> Iterator[str]:
    for name, function in vars(CronpadSpecs).items():
        if not name.startswith("_"):
            arguments = [argument for argument in inspect.signature(function).parameters if argument != "self"]
            yield f"{name}({', '.join(arguments)})"


def test_every_hook_is_documented_with_its_signature() -> None:
    """hooks.md has a section for each hook specification, named by its signature, and no other."""
    assert set(house.headings("hooks.md")) == set(_hooks())


def test_every_hook_says_when_and_what() -> None:
    """Each hook's docstring and its section follow the template."""
    sections = house.headings("hooks.md")
    for signature in _hooks():
        doc = getattr(CronpadSpecs, signature.partition("(")[0]).__doc__ or ""
        assert [word for word in ("When", "Returns", "Since") if f"*{word}*" not in doc] == [], signature
        assert [
            word for word in ("When", "Returns", "When it raises", "Since") if f"**{word}" not in sections[signature]
        ] == [], signature


# ------------------------------------------------------------------------------------------------------------- settings


def test_every_setting_is_documented() -> None:
    """settings.md lists each setting with its kind, default and variable, and no other."""
    documented = {name: [cell.strip("`") for cell in cells[:3]] for name, cells in _rows("settings.md", "Settings").items()}
    described = {one.name: [one.kind.replace("|", " or "), one.default or "–", one.variable] for one in describe()}
    assert documented == described


# ------------------------------------------------------------------------------------------------------------- commands


def _commands(group: click.Group, context: click.Context, path: str) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        try:
            command = group.get_command(context, name)
        except ImportError as error:
            BROKEN[f"{path} {name}"] = str(error)
            continue
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, click.Context(command, parent=context, info_name=name), f"{path} {name}")


BROKEN: dict[str, str] = {}
COMMANDS = {"cronpad": cli} | dict(_commands(cli, click.Context(cli, info_name="cronpad"), "cronpad"))


def test_every_command_can_be_imported() -> None:
    """Each name in the table of commands has its module."""
    assert BROKEN == {}


def test_every_command_is_documented() -> None:
    """commands.md has a section for each command, and no other."""
    assert set(house.headings("commands.md")) == set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_is_documented(path: str) -> None:
    """A command's section lists each of its options under all names, and no other."""
    options = {
        name
        for option in COMMANDS[path].params
        if isinstance(option, click.Option) and not option.hidden
        for name in (*option.opts, *option.secondary_opts)
    }
    rows = re.findall(r"^\| (`-.*?) \|", house.headings("commands.md")[path], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", row)} == options


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_helps(path: str) -> None:
    """Each command, and each of its options, has a text of help."""
    assert COMMANDS[path].help
    options = [one for one in COMMANDS[path].params if isinstance(one, click.Option) and not one.hidden]
    assert [option.name for option in options if not option.help] == []


QUICK = [
    ["--help"],
    ["next", "*/5 * * * *"],
    ["explain", "30 2 * * 1-5"],
    ["version"],
    ["health", "--help"],
    ["validate", "--help"],
    ["schema", "--no-plugins"],
]
HEAVY = {"sqlalchemy", "alembic", "httpx", "aiohttp", "fastapi"}


@pytest.mark.parametrize("arguments", QUICK, ids=" ".join)
def test_quick_commands_import_no_database_and_no_web(arguments: list[str]) -> None:
    """Help, schedules and validation start without SQLAlchemy, httpx or a web framework."""
    script = (
        "import sys\nfrom cronpad_core.cli.main import cli\n"
        f"code = cli.main({arguments!r}, standalone_mode=False)\n"
        f"print(code, sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    )
    environment = {"PYTHONPATH": house.source_path(), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, cwd=house.DOCS, capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1] == "0 []", done.stderr


# ------------------------------------------------------------------------------------------------------------- statuses


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("Runs", RunStatus),
        ("Attempts", AttemptStatus),
        ("Jobs", JobStatus),
        ("Skip reasons", SkipReason),
    ],
)
def test_every_status_is_documented(section: str, words: type[StrEnum]) -> None:
    """statuses.md lists exactly the words that are stored and shown."""
    assert house.table_words("statuses.md", section) == [word.value for word in words]


def test_every_plugin_state_is_documented() -> None:
    """statuses.md lists exactly the states of a plugin."""
    states = importlib.import_module("cronpad_core.host.records").PluginState
    assert set(house.table_words("statuses.md", "Plugins")) == {state.value for state in states}


def test_every_exit_code_is_documented() -> None:
    """Each code that an error carries stands in exit-codes.md."""

    def codes(error: type[CronpadError]) -> set[int]:
        return {error.exit_code}.union(*(codes(below) for below in error.__subclasses__()))

    text = (house.REFERENCE / "exit-codes.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| `(\d+)` \|", text, re.MULTILINE)}
    assert codes(CronpadError) <= documented
    assert {0, 124} <= documented


def test_every_event_is_documented() -> None:
    """events.md lists exactly the events of the engine."""
    assert set(house.table_words("events.md", "Events")) == {event.__name__ for event in get_args(Event)}


# ------------------------------------------------------------------------------------------------------------ the queue


def _promises(text: str) -> dict[str, str]:
    return {
        word: meaning.replace("``", "`").replace("`LOST`", "`lost`")
        for word, meaning in re.findall(r"^(Q\d+)\s+(.*)$", text, re.MULTILINE)
    }


def test_every_promise_of_the_queue_is_documented() -> None:
    """queue.md repeats Q1 to Q14 word for word."""
    documented = {word: cells[0] for word, cells in _rows("queue.md", "Promises").items()}
    assert documented == _promises(queue.__doc__ or "")
    assert list(documented) == [f"Q{number}" for number in range(1, 15)]


def test_every_queue_operation_is_documented() -> None:
    """queue.md lists each operation with the promises that its docstring names."""
    operations = {
        name: function for name, function in vars(queue.QueueStore).items() if inspect.isfunction(function) and name[0] != "_"
    }
    rows = _rows("queue.md", "Operations")
    assert set(rows) == set(operations)
    for name, function in operations.items():
        said = re.search(r"\((Q\d[^)]*)\)", function.__doc__ or "")
        numbers = {int(number) for number in re.findall(r"Q(\d+)", said[1])} if said else set()
        if said and "–" in said[1]:
            numbers = set(range(min(numbers), max(numbers) + 1))
        assert {int(number) for number in re.findall(r"Q(\d+)", rows[name][1])} == numbers, name


# ------------------------------------------------------------------------------------------------------------ the files


def test_every_key_of_a_jobs_file_is_documented() -> None:
    """jobs-file.md lists exactly the keys of a job, and names the runner's."""
    own = [key for key in JOB_KEYS if key not in SHARED_KEYS]
    assert set(house.table_words("jobs-file.md", "Keys of a job")) == set(own)
    assert set(house.table_words("jobs-file.md", "Shared keys")) == set(SHARED_KEYS)
    text = (house.REFERENCE / "jobs-file.md").read_text(encoding="utf-8")
    assert [key for key in RUNNER_KEYS if f"`{key}`" not in text] == []


def test_every_setting_of_a_command_is_documented() -> None:
    """jobs-file.md lists exactly the settings of the sink ``command``."""
    settings = pytest.importorskip("cronpad_command.settings").Settings
    assert house.table_words("jobs-file.md", "The sink `command`") == list(settings.model_fields)


def test_every_variable_of_a_command_is_documented() -> None:
    """jobs-file.md lists exactly the variables that tell a command of its run."""
    facts = pytest.importorskip("cronpad_command.environment").RUN_FACTS
    assert set(house.table_words("jobs-file.md", "What a command finds in its environment")) == facts


def test_every_part_of_a_webhook_is_documented() -> None:
    """webhook.md lists exactly the settings of the sink ``webhook``, for a job and for all of them, its headers and its names."""
    own = pytest.importorskip("cronpad_webhook.settings").Settings
    shared = importlib.import_module("cronpad_webhook.host_settings").HostSettings
    headers = importlib.import_module("cronpad_webhook.headers").OWN
    names = importlib.import_module("cronpad_webhook.templates").NAMES
    assert house.table_words("webhook.md", "Settings") == [one.alias or name for name, one in own.model_fields.items()]
    assert house.table_words("webhook.md", "Settings for all webhooks") == list(shared.model_fields)
    assert house.table_words("webhook.md", "Headers") == list(headers)
    assert house.table_words("webhook.md", "Names in templates") == list(names)


def test_every_problem_is_documented() -> None:
    """problems.md lists exactly the codes that the module of problems explains, and the code uses no other."""
    explained = dict(re.findall(r"^(CP\d+)\s+(error|warning|both)", problems.__doc__ or "", re.MULTILINE))
    assert {code: cells[0] for code, cells in _rows("problems.md", "Codes").items()} == explained
    used = {code for path in house.shipped_files() for code in re.findall(r"\bCP1\d\d\b", path.read_text(encoding="utf-8"))}
    assert used == set(explained)


def test_every_schedule_word_is_documented() -> None:
    """schedules.md names each alias and each rule for clock changes."""
    text = (house.REFERENCE / "schedules.md").read_text(encoding="utf-8")
    words = [*ALIASES, *(rule.value for rule in (*GapRule, *FoldRule))]
    assert [word for word in words if f"`{word}`" not in text] == []


# --------------------------------------------------------------------------------------------------------------- alerts


def test_every_key_and_event_of_an_alert_is_documented() -> None:
    """alerts.md lists each key of an alert's table and each event that it can ask for, and no other."""
    assert set(_rows("alerts.md", "Keys")) == set(ALERT_KEYS)
    assert set(_rows("alerts.md", "Events")) == {kind.value for kind in EVENTS}


def test_every_field_of_an_alert_is_documented() -> None:
    """alerts.md says what each field of an alert holds."""
    named = {name for row in _rows("alerts.md", "What an alert holds") for name in re.findall(r"\w+", row)}
    assert named == {one.name for one in fields(Alert)}


def test_every_bundled_emitter_is_documented() -> None:
    """alerts.md lists the settings of the core's own emitter."""
    [settings] = _rows("alerts.md", "Emitters")["log"]
    assert set(LogSettings.model_fields) <= set(re.findall(r"`(\w+)`", settings))
